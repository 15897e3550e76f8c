"""Pods that act as reservations: never two owners, and what owner and pod share counts once."""

import json
from collections import Counter
from random import Random

import pytest

from holdfast.api.annotations import allocated_reservation
from holdfast.api.requests import nanos, request_nanos
from holdfast.api.scheme import NODES, PODS
from holdfast.state.reservations.operating_pods import current_owner, operating_reservation
from holdfast.testing import a_node, a_pod, a_priority_class
from holdfast.testing.harness import Harness
from laws.cluster_steps import Network
from laws.ledger_shape import rebuilt, shape_of
from soak_size import SEED, TIMES

SEEDS, STEPS = range(SEED, SEED + 4 * TIMES), 40
PREFIX = "scheduling.koordinator.sh"


class Town:
    """A small cluster with pods that act as reservations, their owners and other pods."""

    def __init__(self, cluster, seed):
        self.cluster, self.random, self.made = cluster, Random(seed), 0
        self.owners_seen: dict[str, set[str]] = {}
        self.log = []

    async def step(self):
        act = self.random.choices(
            [self.acting, self.owner, self.other, self.leave, self.relabel, self.restart],
            [5, 6, 2, 3, 1, 1],
        )[0]
        await act()
        await self.cluster.advance(self.random.choice((0, 1, 30)))

    def _name(self, sort):
        self.made += 1
        self.log.append(f"{sort}-{self.made}")
        return f"{sort}-{self.made}"

    def _cpu(self):
        return str(self.random.randint(1, 4))

    async def _create(self, name, **more):
        pod = a_pod(name, cpu=self._cpu(), memory=f"{self._cpu()}Gi", **more)
        await self.cluster.create(pod)

    async def acting(self):
        app = self.random.choice("aaab")
        owners = json.dumps([{"labelSelector": {"matchLabels": {"app": app}}}])
        await self._create(
            self._name("acting"), labels={f"{PREFIX}/operating-mode": "Reservation"},
            annotations={f"{PREFIX}/reservation-owners": owners},
        )  # fmt: skip

    async def owner(self):
        needs = {f"{PREFIX}/reservation-affinity": "{}"} if self.random.random() < 0.4 else {}
        priority = {"priority_class_name": "high"} if self.random.random() < 0.2 else {}
        labels = {"app": self.random.choice("aab")}
        await self._create(self._name("owner"), labels=labels, annotations=needs, **priority)

    async def other(self):
        priority = {"priority_class_name": "high"} if self.random.random() < 0.3 else {}
        await self._create(self._name("other"), **priority)

    async def _any(self):
        pods = (await self.cluster.client.list(PODS)).items
        return self.random.choice(pods) if pods else None

    async def leave(self):
        pod = await self._any()
        if pod is not None:
            self.log.append(f"delete {pod.name}")
            await self.cluster.client.delete(PODS, pod.name, pod.namespace)

    async def relabel(self):
        pod = await self._any()
        if pod is not None and "acting" in pod.name:
            self.log.append(f"relabel {pod.name}")
            mode = None if f"{PREFIX}/operating-mode" in pod.metadata.labels else "Reservation"
            body = {"metadata": {"labels": {f"{PREFIX}/operating-mode": mode}}}
            await self.cluster.client.patch(PODS, pod.name, body, pod.namespace)
            # Two ordinary pods may be more than the node has, so the invariants are not checked.
            await self.cluster.clock.settle()
            if mode is None and current_owner(pod) is not None:
                await self.cluster.client.delete(PODS, pod.name, pod.namespace)
                await self.cluster.clock.advance(60)

    async def restart(self):
        self.log.append("restart")
        await self.cluster.restart_components()

    async def audit(self):
        pods = (await self.cluster.client.list(PODS)).items
        nodes = {n.name: n for n in (await self.cluster.client.list(NODES)).items}
        used = {name: Counter() for name in nodes}
        bound = [p for p in pods if p.spec.node_name and not p.finished]
        acting = {p.uid: p for p in bound if operating_reservation(p) is not None}
        shared = {}
        for pod in bound:
            used[pod.spec.node_name].update(request_nanos(pod))
            allocated = allocated_reservation(pod)
            if allocated is not None:
                self.owners_seen.setdefault(allocated.uid, set()).add(pod.uid)
                if allocated.uid in acting:
                    assert acting[allocated.uid].spec.node_name == pod.spec.node_name
                    assert current_owner(acting[allocated.uid]).uid == pod.uid
                    shared[allocated.uid] = request_nanos(pod)
        for uid, request in shared.items():
            held = request_nanos(acting[uid])
            once = {name: min(held[name], amount) for name, amount in request.items()}
            used[acting[uid].spec.node_name].subtract(once)
        for name, amounts in used.items():
            has = nodes[name].status.allocatable
            assert all(amount <= nanos(has[r]) for r, amount in amounts.items()), (name, amounts)
        twice = {uid: owners for uid, owners in self.owners_seen.items() if len(owners) > 1}
        assert not twice, f"two owners: {twice}"


@pytest.mark.parametrize("seed", SEEDS)
async def test_never_two_owners_and_amounts_count_once(tmp_path, seed, repeatable):
    network = Network(seed)
    async with Harness(tmp_path, wrap=network.wrap, seed=seed) as cluster:
        town = Town(cluster, seed)
        try:
            await cluster.create(a_priority_class(), *[a_node(f"n{i}", cpu="16") for i in (0, 1)])
            for _ in range(STEPS):
                await town.step()
                await town.audit()
            network.heal()
            await cluster.advance(400)
            await town.audit()
            assert shape_of(cluster.world) == shape_of(await rebuilt(cluster.client))
            assert town.owners_seen, "some owner used a pod that acts as a reservation"
        except AssertionError as broken:
            broken.add_note("\n".join([*town.log, *map(str, network.injected_faults[-12:])]))
            raise
