"""Pods, claims and drivers of classic DRA in a whole cluster, with random edits and faults."""

from collections import Counter

from holdfast.api.scheme import NODES, PODS
from holdfast.runtime.errors import AlreadyExists, Conflict, NotFound
from holdfast.testing import a_node, a_pod
from holdfast.testing.classic_dra.builders import a_classic_claim, a_classic_class, inline, named
from holdfast.testing.classic_dra.driver import KINDS, ClassicDriver

CLASSES = ("gpu", "nic")


class ClassicWorld:
    """Ten pods need up to two of four claims, and claims of their own; node n2 suits them all."""

    def __init__(self, cluster, random):
        self.cluster, self.client, self.random = cluster, cluster.client, random
        self.drivers = self._drivers()
        self.claims = {f"c{i}": random.choice(CLASSES) for i in range(4)}
        self.pods = {f"p{i}": self._entries() for i in range(10)}

    def _drivers(self):
        network = self.random.random() < 0.5
        return [
            ClassicDriver(self.client, devices={"n1": 2, "n2": 9}),
            ClassicDriver(
                self.client,
                "nic.example.com",
                devices=None if network else {"n2": 9, "n3": 2},
                shared=self.random.random() < 0.3,
            ),
        ]

    def _entries(self):
        shared = self.random.sample(sorted(self.claims), self.random.randint(0, 2))
        entries = [named(f"e{i}", claim) for i, claim in enumerate(shared)]
        if not entries or self.random.random() < 0.6:
            entries.append(inline("x", self.random.choice(CLASSES)))
        return entries

    async def create(self):
        await self.cluster.create(
            *map(a_node, ("n1", "n2", "n3")),
            a_classic_class(),
            a_classic_class("nic", "nic.example.com"),
            *map(self._claim, self.claims),
            *[self._pod(name) for name in self.pods],
            settle=False,
        )

    def _pod(self, name):
        return a_pod(name, cpu="100m", claims=self.pods[name])

    def _claim(self, name):
        return a_classic_claim(name, of_class=self.claims[name])

    async def serve(self):
        """Let each driver look at everything once."""
        for driver in self.drivers:
            try:
                await driver.step()
            except (Conflict, NotFound):
                continue  # it looks again in the next step

    async def check(self):
        """No device is allocated twice; a pod on a node has its claims, and those alone."""
        for driver in self.drivers:
            used = Counter(driver.records.values())
            for node, count in (driver.devices or {}).items():
                assert used[node] <= count, (
                    f"{driver.name} has allocated {used} of {driver.devices}"
                )
        pods = (await self.client.list(PODS)).items
        claims = {claim.name: claim for claim in (await self.client.list(KINDS.claims)).items}
        for claim in claims.values():
            allocation = claim.status.allocation
            shared = allocation is not None and allocation.shared_resource
            assert shared or len(claim.status.reserved_for) <= 1, claim
        for pod in pods:
            for entry in pod.spec.resource_claims:
                if pod.spec.node_name and not pod.terminating:
                    name = entry.claim.resource_claim_name or f"{pod.name}-{entry.name}"
                    assert claims[name].is_reserved_for(pod.uid), f"{pod.name} runs without {name}"
        return pods

    async def finish_some(self, pods):
        """Delete some of the pods that have a node: they are done."""
        for pod in pods:
            if pod.spec.node_name and not pod.terminating and self.random.random() < 0.4:
                await self.client.delete(PODS, pod.name, "default")
                self.pods.pop(pod.name, None)

    async def edit(self, pods):
        """Do what users do: recreate pods and claims, delete negotiations, cordon nodes."""
        edits = (self._recreate_pod, self._delete_negotiation, self._delete_claim, self._cordon)
        for edit in edits:
            if self.random.random() < 0.1:
                try:
                    await edit(pods)
                except (NotFound, AlreadyExists):
                    continue
        await self._create_lost_claims()

    async def _recreate_pod(self, pods):
        waiting = [pod.name for pod in pods if not pod.spec.node_name and pod.name in self.pods]
        if waiting:
            name = self.random.choice(waiting)
            await self.client.delete(PODS, name, "default")
            await self.client.create(PODS, self._pod(name), "default")

    async def _delete_negotiation(self, _pods):
        found = (await self.client.list(KINDS.pod_scheduling)).items
        if found:
            name = self.random.choice(found).name
            await self.client.delete(KINDS.pod_scheduling, name, "default")

    async def _delete_claim(self, _pods):
        name = self.random.choice(sorted(self.claims))
        await self.client.delete(KINDS.claims, name, "default")

    async def _cordon(self, _pods):
        name, cordoned = self.random.choice(["n1", "n3"]), self.random.random() < 0.5
        await self.client.patch(NODES, name, {"spec": {"unschedulable": cordoned}})

    async def _create_lost_claims(self):
        there = {claim.name for claim in (await self.client.list(KINDS.claims)).items}
        for name in self.claims:
            if name not in there:
                await self.client.create(KINDS.claims, self._claim(name), "default")
