"""Which terms of existing pods match a pod, found in steps and by namespace."""

from random import Random

import pytest

from holdfast.scheduling.framework.world import World
from holdfast.state.columns import existing_terms
from holdfast.testing import a_namespace, a_node, a_pod, typed
from soak_size import SEED, TIMES

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SPACES = [f"ns-{i}" for i in range(6)]
MANY = [f"other-{i}" for i in range(20)]


def a_term(random):
    """Return a term of its own namespace, of a few, of many, or of those with a label."""
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": random.choice("xyz")}},
    }
    kind = random.randrange(4)
    if kind:
        term["namespaces"] = random.sample(SPACES, 2) + (MANY if kind == 2 else [])
    if kind == 3:
        term["namespaceSelector"] = {"matchLabels": {"team": random.choice("ab")}}
    return term


def a_far_pod(random, name):
    affinity = {"podAntiAffinity": {REQUIRED: [a_term(random) for _ in range(3)]}}
    return a_pod(name, namespace=random.choice(SPACES), node="n", affinity=affinity)


def matched(world, pods, info):
    """Compare the terms of all pods with a pod, one by one."""
    labels = world.nodes.namespaces.get(info.namespace, {})
    return {
        term
        for pod in pods
        for term in world.pod_info(pod).affinity_terms.required_anti_affinity
        if term.pod_selector.matches(info.namespace, labels, info.labels)
    }


@pytest.mark.parametrize("seed", range(SEED, SEED + 4 * TIMES))
def test_the_terms_that_are_found_are_those_that_match(monkeypatch, seed):
    monkeypatch.setattr(existing_terms, "_TERMS_A_STEP", 3)
    random, world, there = Random(seed), World(), []
    world.upsert(typed(a_node("n", cpu="900", pods="900")))
    for name in SPACES:
        world.upsert(typed(a_namespace(name, labels={"team": random.choice("ab")})))
    asked = [
        world.pod_info(typed(a_pod(f"{name}-{app}", namespace=name, labels={"app": app})))
        for name in SPACES
        for app in "xyz"
    ]
    for i in range(60):
        if there and random.random() < 0.3:
            world.delete(there.pop(random.randrange(len(there))))
        elif random.random() < 0.1:
            name = random.choice(SPACES)
            world.upsert(typed(a_namespace(name, labels={"team": random.choice("ab")})))
        else:
            there.append(typed(a_far_pod(random, f"p{i}")))
            world.upsert(there[-1])
        info = random.choice(asked)
        if random.random() < 0.5:
            # Others come in the pauses.
            for _ in world.nodes.match_existing_terms_in_steps(info):
                there.append(typed(a_far_pod(random, f"p{i}-{len(there)}")))
                world.upsert(there[-1])
                if len(there) > 40:
                    break
        found = world.nodes.existing_terms_for(info)
        assert {existing.term for existing in found} == matched(world, there, info)
        assert len(found) == len(set(found))
