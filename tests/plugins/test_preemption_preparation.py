"""What ordinary preemption reads of all pods is read in steps before the cycle that preempts."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from holdfast.api.scheme import DISRUPTION_BUDGETS
from holdfast.scheduling.engine.preparation import prepare_in_steps
from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.framework.points import Point
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.scheduler.cycle import SchedulingFailure, schedule_pod
from holdfast.state.columns.ranked_pods import RankedPods
from holdfast.testing import a_node, a_pod, typed
from holdfast.testing.builders import an_object
from scheduler.impatient_clock import prepare_and_count
from soak_size import SEED, TIMES

PROFILE = default_profiles()["default-scheduler"]
HOST = "kubernetes.io/hostname"
NOW = 1.8e9
NODES = 80  # three steps
PORT = [{"name": "c", "image": "i", "ports": [{"hostPort": 80, "containerPort": 80}]}]
FAR = [{"labelSelector": {"matchLabels": {"app": "a0"}}, "topologyKey": HOST}]
EVEN = [
    {
        "maxSkew": 1,
        "topologyKey": HOST,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a0"}},
    }
]
PREEMPTORS = {
    "resources": {},
    "port": {"host_port": True},
    "anti-affinity": {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": FAR}}
    },
    "spread": {"topology_spread_constraints": EVEN},
}


class FullCluster:
    """Nodes full of pods of lower priority, which change at random."""

    def __init__(self, random, nodes=NODES):
        self.random, self.world, self.there, self.made = random, World(), [], 0
        for i in range(nodes):
            self.world.upsert(typed(a_node(f"n{i}", cpu="2", labels={HOST: f"n{i}"})))
            for _ in range(random.randint(2, 4)):
                self.add(f"n{i}")

    def add(self, node):
        random, self.made = self.random, self.made + 1
        raw = a_pod(
            f"p{self.made}", cpu="500m", node=node, priority=random.choice([0, 10, 100]),
            labels={"app": f"a{random.randrange(3)}"},
            status={"startTime": f"2026-01-01T00:00:{random.randrange(60):02}Z"},
        )  # fmt: skip
        if random.random() < 0.3:
            raw["spec"]["containers"][0]["ports"] = PORT[0]["ports"]
        pod = typed(raw)
        self.world.upsert(pod)
        self.there.append(pod)

    def change(self):
        """Add or delete a pod; two stay on every node, so the preemptor fits nowhere."""
        pod, nodes = self.random.choice(self.there), self.world.nodes
        if self.random.random() < 0.5:
            self.add(f"n{self.random.randrange(NODES)}")
        elif len(nodes.pods_on(nodes.row_of[pod.spec.node_name])) > 2:
            self.there.remove(pod)
            self.world.delete(pod)

    def preemptor(self, name="preemptor", host_port=False, priority=1000, **more):
        raw = a_pod(name, cpu="1500m", priority=priority, labels={"app": "p"}, **more)
        if host_port:
            raw["spec"]["containers"][0]["ports"] = PORT[0]["ports"]
        return self.world.pod_info(typed(raw))


def a_budget(app, allowed):
    spec = {"selector": {"matchLabels": {"app": app}}}
    made = an_object(DISRUPTION_BUDGETS, f"pdb-{app}", spec, namespace="default")
    return typed(made | {"status": {"disruptionsAllowed": allowed}})


def schedule(world, pod):
    return schedule_pod(PROFILE, PROFILE.view(pod, world, NOW), np.random.default_rng(1))


def plan(world, pod):
    """Return everything that a preemption decides."""
    failure = schedule(world, pod)
    assert isinstance(failure, SchedulingFailure), failure
    result = failure.post_filter_result
    victims = [victim.name for victim in result.victims]
    return failure.message, result.nominated_node, victims, result.violations


@pytest.mark.parametrize("kind", PREEMPTORS)
@pytest.mark.parametrize("budgets", [False, True])
def test_after_the_steps_the_cycle_reads_no_pods(monkeypatch, kind, budgets):
    cluster = FullCluster(Random(1))
    if budgets:
        cluster.world.upsert(a_budget("a1", 0))
    pod = cluster.preemptor(**PREEMPTORS[kind])
    expected = plan(cluster.world.fork(), pod)
    assert expected[1], "there is a candidate"
    assert len([*prepare_in_steps(PROFILE, pod, cluster.world, NOW)]) > 6
    monkeypatch.setattr(RankedPods, "_rank_rows", None)
    monkeypatch.setattr(RankedPods, "_read_rows", None)
    assert plan(cluster.world, pod) == expected


@pytest.mark.parametrize("seed", range(SEED, SEED + 6 * TIMES))
@pytest.mark.parametrize("kind", PREEMPTORS)
def test_what_changes_between_the_steps_is_considered(kind, seed):
    random = Random(seed)
    cluster = FullCluster(random)
    for round_ in range(3):
        pod = cluster.preemptor(f"q{round_}", **PREEMPTORS[kind])
        for _ in prepare_in_steps(PROFILE, pod, cluster.world, NOW):
            for _ in range(random.randrange(3)):
                cluster.change()
            if random.random() < 0.1:
                cluster.world.upsert(a_budget(f"a{random.randrange(3)}", random.randrange(2)))
            if random.random() < 0.02:
                # The table grows, and with it everything is new.
                for i in range(NODES):
                    cluster.world.upsert(typed(a_node(f"m{round_}-{i}", cpu="1")))
        assert plan(cluster.world, pod) == plan(cluster.world.fork(), pod)


def test_other_tasks_run_while_the_first_preemption_is_prepared():
    cluster = FullCluster(Random(1))
    assert prepare_and_count(PROFILE, cluster.world, cluster.preemptor()) > 1


def steps_of(cluster, pod, profile=PROFILE):
    return len([*prepare_in_steps(profile, pod, cluster.world, NOW)])


def test_pods_that_will_not_preempt_have_no_steps():
    cluster = FullCluster(Random(1))
    assert steps_of(cluster, cluster.preemptor(priority=0)) == 0, "no pod has a lower priority"
    assert steps_of(cluster, cluster.preemptor(preemption_policy="Never")) == 0
    cluster.world.upsert(typed(a_node("empty", cpu="2")))
    assert steps_of(cluster, cluster.preemptor()) == 0, "it fits"
    enabled = tuple(
        p for p in PROFILE.plugins_at(Point.POST_FILTER) if p.name != "DefaultPreemption"
    )
    without = replace(PROFILE, plugins_by_point={Point.POST_FILTER: enabled})
    cluster.world.delete(typed(a_node("empty")))
    assert steps_of(cluster, cluster.preemptor(), without) == 0, "preemption is disabled"
    assert steps_of(cluster, cluster.preemptor()) > 0


@pytest.mark.parametrize("kind", PREEMPTORS)
def test_the_first_pod_that_does_not_fit_any_more_is_prepared(kind):
    """Pods before it were placed, so it is not known to fit for too long."""
    cluster = FullCluster(Random(1))
    for i in range(12):
        cluster.world.upsert(typed(a_node(f"empty{i}", cpu="2", labels={HOST: f"empty{i}"})))
    steps_of(cluster, cluster.preemptor("first", **PREEMPTORS[kind]))  # new selectors need steps
    for i in range(13):
        pod = cluster.preemptor(f"q{i}", **PREEMPTORS[kind])
        steps = steps_of(cluster, pod)
        placed = isinstance(schedule(cluster.world, pod), Placement)
        assert placed is (steps == 0)
        if not placed:
            break
    assert not placed


def test_a_pod_equal_to_one_that_fits_runs_no_filters_before_its_cycle(monkeypatch):
    cluster = FullCluster(Random(1))
    for i in range(4):
        cluster.world.upsert(typed(a_node(f"empty{i}", cpu="64")))
    first = cluster.preemptor("first")
    assert steps_of(cluster, first) == 0
    assert schedule(cluster.world, first).node.startswith("empty")
    with monkeypatch.context() as patch:
        patch.setattr("holdfast.scheduling.engine.preparation.feasible", None)
        assert steps_of(cluster, cluster.preemptor("second")) == 0
        # As many rows have changed as were feasible.
        for i in range(4):
            cluster.world.delete(typed(a_node(f"empty{i}")))
        with pytest.raises(TypeError):
            steps_of(cluster, cluster.preemptor("third"))
    assert steps_of(cluster, cluster.preemptor("third")) > 0
