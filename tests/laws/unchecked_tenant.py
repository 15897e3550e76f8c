"""Random attacks of a tenant whose writes no policy refuses, on what the scheduler gave to pods."""

import json
from collections import Counter
from itertools import combinations

from msgspec.structs import replace

from holdfast.api.allocation_keys import recorded_allocations
from holdfast.api.koordinator_names import DEVICE_ALLOCATED, GPU, QOS_CLASS, RESOURCE_STATUS
from holdfast.api.reservation_names import ALLOCATED, DRAWS
from holdfast.api.scheme import PODS
from holdfast.testing import a_pod
from holdfast.testing.numa_builders import a_bound_pod
from laws.identity_audit import pod_holders
from laws.tenant_steps import MINE, OTHERS, OWNER, SMALL, Tenant

GPU_BYTES = "koordinator.sh/gpu-memory"
MOST_BOUND = 3
"""The pods of the tenant with CPUs of their own at one time: the rest is for the others."""


class UncheckedTenant(Tenant):
    """Writes annotations as the administrator, as tenants can where deploy/admission is absent.

    What lets a tenant use room of others on purpose, such as the label reservation-ignored, is
    left out: docs/security.md names it.
    """

    async def begin(self):
        await super().begin()
        self.client = self.cluster.client
        self._placed = {}
        """What the scheduler gave to pods, by uid; {} for pods that it did not bind."""
        self._victims = []
        await self.check()

    def attacks(self):
        return (self._create, self._create, self._patch, self._patch, self._patch, self._replace,
                self._relabel, self._delete, self._trouble_others)  # fmt: skip

    async def step(self):
        attack = self.dice.choice(self.attacks())
        self.log.append(attack.__name__)
        await attack()
        await self.cluster.advance(1)
        await self.check()

    async def check(self):
        """What the scheduler gave belongs to one pod, and the reservation to its owners."""
        pods = [p for p in (await self.cluster.client.list(PODS)).items if p.spec.node_name]
        for pod in pods:
            ours = "bound" not in pod.name
            given = recorded_allocations(pod.metadata.annotations) if ours else {}
            self._placed.setdefault(pod.uid, given)
        true = [p for p in pods if self._placed[p.uid] and not p.finished]
        holders = pod_holders([self._as_given(pod) for pod in true])
        for one, other in combinations(holders, 2):
            assert not one.cpus & other.cpus, f"{one.name} and {other.name} share CPUs"
        used = sum((one.devices for one in holders), Counter())
        assert all(amount <= 100 for unit, amount in used.items() if unit[2] != GPU_BYTES), used
        held = await self.cluster.reservation(OTHERS)
        assert (held.phase, held.status.current_owners, held.status.allocated) == (
            "Available", (), {},
        )  # fmt: skip
        assert {c.type: c.status for c in held.status.conditions}["Ready"] == "True"

    def _as_given(self, pod):
        meta = replace(pod.metadata, annotations=self._placed[pod.uid])
        return replace(pod, metadata=meta)

    # --- steps --------------------------------------------------------------------------------

    async def _create(self):
        self._made += 1
        kinds = ["plain", "gpu", "bound", "boundcpus", "owner"]
        mine = (await self.client.list(PODS, MINE)).items
        if len(mine) >= 15:
            return
        if sum(QOS_CLASS in pod.metadata.labels for pod in mine) < MOST_BOUND:
            kinds.append("cpus")
        kind = self.dice.choice(kinds)
        name = f"{kind}{self._made}"
        common = {"namespace": MINE, "annotations": await self._notes()}
        if kind == "cpus":
            pod = a_bound_pod(name, "1", memory="1Mi", **common)
        elif kind == "boundcpus":
            pod = a_bound_pod(name, **SMALL, node="n", **common)
        elif kind == "gpu":
            pod = a_pod(name, **SMALL, requests={GPU: "10"}, **common)
        else:
            labels = OWNER if kind == "owner" else {}
            node = "n" if kind == "bound" else None
            pod = a_pod(name, **SMALL, node=node, labels=labels, **common)
        await self.client.create(PODS, pod, MINE)

    async def _patch(self):
        forged = await self._forged()
        key = self.dice.choice(sorted(forged))
        text = self.dice.choice((None, "", "{", forged[key], forged[key]))
        await self._write({"annotations": {key: text}})

    async def _replace(self):
        none = dict.fromkeys(await self._forged())
        await self._write({"annotations": none | await self._notes()})

    async def _relabel(self):
        await self._write({"labels": self.dice.choice((OWNER, {"app": None}))})

    async def _write(self, meta):
        name = await self._mine()
        if name != "none":
            await self.client.patch(PODS, name, {"metadata": meta}, MINE)

    async def _delete(self):
        name = await self._mine()
        if name != "none":
            await self.client.delete(PODS, name, MINE)

    async def _trouble_others(self):
        """The other team needs a CPU and half a GPU; they are there, whatever was written."""
        if self._victims:
            await self.client.delete(PODS, self._victims.pop(), OTHERS)
            return
        self._made += 1
        name = f"victim{self._made}"
        pod = a_bound_pod(name, "1", memory="1Mi", namespace=OTHERS, requests={GPU: "50"})
        await self.client.create(PODS, pod, OTHERS)
        await self.cluster.settle()
        assert await self.cluster.node_of(name, OTHERS), await self.cluster.why(name, OTHERS)
        self._victims.append(name)

    # --- what it forges -----------------------------------------------------------------------

    async def _notes(self):
        forged = await self._forged()
        return {key: text for key, text in forged.items() if self.dice.random() < 0.4}

    async def _forged(self):
        dice = self.dice
        held = await self.cluster.reservation(dice.choice((MINE, OTHERS, OTHERS)))
        named = {"name": held.name, "uid": held.uid}
        first = dice.randrange(16)
        percent = str(dice.choice((1, 10, 100)))
        whole = {"koordinator.sh/gpu-core": percent, "koordinator.sh/gpu-memory-ratio": percent,
                 GPU_BYTES: "16Gi"}  # fmt: skip
        minors = dice.sample(range(4), dice.randint(1, 4))
        cpus = f"{first}-{dice.randrange(first, 16)}"
        return {
            RESOURCE_STATUS: json.dumps({"cpuset": cpus}),
            DEVICE_ALLOCATED: json.dumps(
                {"gpu": [{"minor": minor, "resources": whole} for minor in minors]}
            ),
            ALLOCATED: json.dumps(named),
            DRAWS: json.dumps([{**named, "resources": {"cpu": dice.choice(("1m", "4"))}}]),
        }
