"""A pod waits only while it cannot be scheduled: random neighbours, labels, nodes and taints.

After each change, and the backoff, ``explain`` judges every waiting pod from the API objects alone:
a queueing hint that missed the change would leave it waiting for the five-minute flush.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from holdfast.api.scheme import NODES, PODS
from holdfast.cli.connection import list_all
from holdfast.cli.snapshot import built_in_profiles, snapshot_from_objects
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.testing import a_node, a_pod
from holdfast.testing.harness import Harness
from soak_size import TIMES

HOST, ZONE = "host", "zone"
KEYS, VALUES = ("app", "tier"), ("a", "b")
MOST_PODS = 12
STEPS = 14


@dataclass
class Neighbourhood:
    """A cluster, and random changes of it."""

    cluster: Harness
    rng: random.Random
    nodes: list[str] = field(default_factory=list)
    created: int = 0

    def labels(self):
        return {key: self.rng.choice(VALUES) for key in KEYS if self.rng.random() < 0.7}

    def selector(self):
        key, value = self.rng.choice(KEYS), self.rng.choice(VALUES)
        exists = self.rng.choice(["Exists", "DoesNotExist"])
        return self.rng.choice([
            {"matchLabels": {key: value}},
            {"matchLabels": {other: self.rng.choice(VALUES) for other in KEYS}},
            {"matchExpressions": [{"key": key, "operator": exists}]},
        ])  # fmt: skip

    def terms(self, most):
        listed = [
            {"labelSelector": self.selector(), "topologyKey": self.rng.choice([HOST, ZONE])}
            for _ in range(self.rng.randint(1, most))
        ]
        return {"requiredDuringSchedulingIgnoredDuringExecution": listed}

    def constraint(self, key):
        found = {
            "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": self.selector(),
        }  # fmt: skip
        if self.rng.random() < 0.3:
            found["nodeTaintsPolicy"] = "Honor"
        if self.rng.random() < 0.2:
            found["minDomains"] = 2
        return found

    def pod(self, **fields):
        self.created += 1
        affinity = {}
        if self.rng.random() < 0.4:
            affinity["podAffinity"] = self.terms(2)
        if self.rng.random() < 0.6:
            affinity["podAntiAffinity"] = self.terms(3)
        if affinity:
            fields["affinity"] = affinity
        if self.rng.random() < 0.4:
            keys = self.rng.sample([HOST, ZONE], self.rng.randint(1, 2))
            fields["topology_spread_constraints"] = [self.constraint(key) for key in keys]
        return a_pod(f"p{self.created}", labels=self.labels(), **fields)

    def node(self):
        name = f"n{len(self.nodes)}"
        self.nodes.append(name)
        labels = {ZONE: self.rng.choice(VALUES), HOST: name}
        return a_node(name, cpu="100", labels={k: labels[k] for k in labels if self.likely()})

    def likely(self):
        return self.rng.random() < 0.9

    async def change(self):
        """Make one change and return it in words."""
        client, chance = self.cluster.client, self.rng.random()
        pods = (await client.list(PODS)).items
        if chance < 0.35 and len(pods) < MOST_PODS:
            await self.cluster.create(self.pod())
            return f"created p{self.created}"
        if chance < 0.8 and pods:
            pod = self.rng.choice(pods)
            if chance < 0.6:
                await client.delete(PODS, pod.name, "default", grace_seconds=0)
                return f"deleted {pod.name}"
            labels = dict.fromkeys(KEYS) | self.labels()
            await client.patch(PODS, pod.name, {"metadata": {"labels": labels}}, "default")
            return f"labelled {pod.name} {labels}"
        if chance > 0.95:
            await self.cluster.create(self.node())
            return f"created {self.nodes[-1]}"
        node = self.rng.choice(self.nodes)
        labels = {ZONE: self.rng.choice([*VALUES, None]), HOST: self.rng.choice([node, None])}
        taints = self.rng.choice([None, [{"key": "k", "effect": "NoSchedule"}]])
        body = {"metadata": {"labels": labels}} if chance < 0.9 else {"spec": {"taints": taints}}
        await client.patch(NODES, node, body)
        return f"changed {node}: {body}"

    async def forgotten(self):
        """Return the names of waiting pods that could be scheduled."""
        objects = await list_all(self.cluster.client)
        now = self.cluster.clock.now()
        waiting = [
            pod for pod in (await self.cluster.client.list(PODS)).items if not pod.spec.node_name
        ]
        found = (snapshot_from_objects(objects, pod.key, FeatureGates()) for pod in waiting)
        answers = [each.explain(built_in_profiles(), now) for each in found]
        return [
            pod.name for pod, answer in zip(waiting, answers, strict=True) if answer["schedulable"]
        ]


@pytest.mark.parametrize("seed", range(16 * TIMES))
async def test_a_pod_waits_only_while_its_neighbours_keep_it_away(tmp_path, seed):
    async with Harness(tmp_path) as cluster:
        here = Neighbourhood(cluster, random.Random(seed))
        await cluster.create(*(here.node() for _ in range(3)))
        await cluster.create(*(here.pod(node=here.rng.choice(here.nodes)) for _ in range(3)))
        done = []
        for _ in range(STEPS):
            done.append(await here.change())
            await cluster.advance(25)
            assert await here.forgotten() == [], done
