"""Random events in a whole cluster, with faults and restarts, reproducible by their seed."""

import random
from contextlib import suppress

from holdfast.api.reservation_names import PREEMPTOR
from holdfast.api.scheme import NODES, PODS, RESERVATIONS, RESOURCE_POLICIES
from holdfast.runtime.errors import AlreadyExists, NotFound
from holdfast.testing import (
    Chances,
    FaultyTransport,
    a_claim,
    a_device_class,
    a_node,
    a_pod,
    a_priority_class,
    a_reservation,
    a_resource_policy,
    a_slice,
    a_unit,
)
from laws.cluster_edits import an_edit, were
from laws.random_events import RandomEvents

TROUBLE = Chances(
    conflict=0.04, unavailable=0.04, unavailable_after=0.04, lost=0.04, delay=0.02,
    expired=0.05, cut=0.05, torn=0.05, ended=0.03, lines=12, seconds=0.5,
)  # fmt: skip
NODE_NAMES = ("n0", "n1", "n2")
SIZES = ("500m", "1", "1", "2", "3")
AFFINITY = "scheduling.koordinator.sh/reservation-affinity"
IGNORED = "scheduling.koordinator.sh/reservation-ignored"
ORDER = "scheduling.koordinator.sh/reservation-order"
INNER = "node.koordinator.sh/reservation"
PRIORITY = "koordinator.sh/priority"
PROTECTED = "scheduling.koordinator.sh/disable-preemptible"
OFFERED = "pod.koordinator.sh/is-pre-allocatable"
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {"matchLabels": {"apart": "yes"}},
                "topologyKey": "kubernetes.io/hostname",
            }
        ]
    }
}
GPU = "example.com/gpu"
RUN_FOR = "holdfast.dev/run-for"
STOP_AFTER = "holdfast.dev/stop-after"


class Network:
    """The faulty transports between the components and the server."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.transports = []
        self.troubled = True

    def wrap(self, inner, clock):
        """Return a transport on which some requests fail."""
        transport = FaultyTransport(inner, chances=TROUBLE, rng=self.rng, clock=clock)
        transport.enabled = self.troubled
        self.transports.append(transport)
        return transport

    def heal(self):
        """Inject no more faults."""
        self.trouble(False)

    def trouble(self, troubled):
        """Inject faults from now on, or none."""
        self.troubled = troubled
        for transport in self.transports:
            transport.enabled = troubled

    @property
    def injected_faults(self):
        """All injected faults."""
        return [entry for transport in self.transports for entry in transport.injected_faults]


class Life(RandomEvents):
    """Random events of nodes, pods, reservations, claims and policies."""

    async def begin(self):
        """Create two small nodes with devices, and a resource policy with maximum counts."""
        pools = a_resource_policy(
            "pools", pods={"app": "c"}, strategy=self.rng.choice(("prefer", "required")),
            units=[a_unit("x", 2, nodes={"pool": "x"}, max_count=1),
                   a_unit("y", 1, nodes={"pool": "y"}, max_count=2)],
        )  # fmt: skip
        gpus = a_device_class("gpu", extended_resource_name=GPU)
        urgent = a_priority_class("urgent", 1000)
        await self.cluster.create(gpus, pools, urgent, settle=False)
        for name in NODE_NAMES[:2]:
            await self._node(name)
        await self.cluster.settle()

    async def step(self):
        """Apply a few random events at once, then settle."""
        events = {
            self._new_pod: 36, self._new_reservation: 24, self._gone_pod: 20,
            self._gone_reservation: 4, self._edited_reservation: 14, self._pod_with_claim: 6,
            self._relabelled_pod: 3,
            self._pod_with_gpu: 6, self._new_node: 3, self._gone_node: 1, self._other_policy: 2,
            self._pass_time: 20, self._restart_components: 2, self._restart_everything: 1,
        }  # fmt: skip
        await self.apply(events)

    def _name(self, kind):
        self.count += 1
        return f"{kind}{self.count}"

    async def _new_pod(self):
        name, owner = self._name("p"), self.rng.choice(("a", "a", "b", "c", "c", "none"))
        notes, labels = {}, {"app": owner}
        if self.rng.random() < 0.1:
            notes[AFFINITY] = "{}"
        elif self.rng.random() < 0.05:
            labels[IGNORED] = "true"
        elif self.rng.random() < 0.15:
            notes[RUN_FOR] = "5s"
        elif self.rng.random() < 0.3:
            notes[STOP_AFTER] = "8s"
        memory = self.rng.choice((None, "1Gi", "3Gi"))
        cpu = self.rng.choice(SIZES)
        more = {"priority_class_name": "urgent"} if self.rng.random() < 0.2 else {}
        labels |= self.rng.choice(
            ({}, {}, {PROTECTED: "true"}, {OFFERED: "true"}, {OFFERED: "true"})
        )
        labels |= (apart := self._apart())
        more |= {"affinity": APART} if apart and self.rng.random() < 0.6 else {}
        pod = a_pod(name, cpu=cpu, memory=memory, labels=labels, annotations=notes, **more)
        ports = self._ports(pod["spec"])
        await self.cluster.create(pod, settle=False)
        return f"{name} {labels} {cpu} {memory} {notes} {list(more)} {ports}"

    def _apart(self):
        return {"apart": "yes"} if self.rng.random() < 0.12 else {}

    def _ports(self, spec):
        """Add host ports to some pods and templates."""
        ports = self.rng.choice(((), (), (), (), (80,), (81,), (80, 81)))
        listed = [{"containerPort": port, "hostPort": port} for port in ports]
        if listed:
            spec["containers"][0]["ports"] = listed
        return ports

    async def _new_reservation(self):
        name, owner = self._name("r"), self.rng.choice("ab")
        notes = {INNER: '{"resources":{"cpu":"1"}}'} if self.rng.random() < 0.2 else {}
        kind = {
            "cpu": self.rng.choice(("1", "2", "3", "4")),
            "memory": self.rng.choice((None, None, "2Gi")),
            "allocate_once": self.rng.random() < 0.5,
            "allocate_policy": self.rng.choice((None, None, "Aligned", "Restricted")),
            "ttl": self.rng.choice(("15s", "60s", "1h", "1h")),
        }
        pinned = self.rng.choice((None, None, None, *NODE_NAMES))
        apart = self._apart()
        template = {"node": pinned} | ({"affinity": APART} if apart else {})
        labels = apart | self.rng.choice(({}, {}, {ORDER: "7"}))
        # Without this label a reservation has the highest priority.
        labels |= {PRIORITY: self.rng.choice(("0", "0", "500"))}
        kind |= self._inherits()
        reservation = a_reservation(
            name, owner_labels={"app": owner}, annotations=notes, template=template, labels=labels,
            **kind,
        )  # fmt: skip
        ports = self._ports(reservation["spec"]["template"]["spec"])
        await self.cluster.create(reservation, settle=False)
        return f"{name} app={owner} on {pinned} {kind} {notes} {labels} {ports}"

    def _inherits(self):
        """Make some reservations pre-allocate resources that pods still use."""
        if self.rng.random() < 0.7:
            return {}
        ways = {"mode": self.rng.choice(("Default", "Cluster"))}
        return {"pre_allocation": True, "pre_allocation_policy": ways | self._several()}

    def _several(self):
        return {"enableMultiple": self.rng.random() < 0.5}

    async def _edited_reservation(self):
        """Edit a reservation."""
        listed = (await self.cluster.client.list(RESERVATIONS)).items
        found = [r for r in listed if PREEMPTOR not in r.metadata.labels]
        if not found:
            return "none there"
        chosen = self.rng.choice(sorted(found, key=lambda r: r.name))
        patch = an_edit(chosen, self.rng)
        with suppress(NotFound):
            await self.cluster.client.patch(RESERVATIONS, chosen.name, patch)
        return f"{chosen.name} {patch}"

    async def _relabelled_pod(self):
        """Change the label of a pod, so that it matches other reservations."""
        found = (await self.cluster.client.list(PODS)).items
        found = [p for p in found if p.metadata.labels.get("app") in ("a", "b", "none")]
        if not found:
            return "none there"
        pod = self.rng.choice(sorted(found, key=lambda p: p.name))
        meta = {"labels": {"app": self.rng.choice(("a", "b", "none"))}, "annotations": were(pod)}
        with suppress(NotFound):
            await self.cluster.client.patch(PODS, pod.name, {"metadata": meta}, "default")
        return f"{pod.name} {meta}"

    async def _pod_with_claim(self):
        name = self._name("d")
        claim = a_claim(name, device_class="gpu", count=self.rng.choice((1, 1, 2)))
        pod = a_pod(
            name, cpu="500m", claims=[{"name": "dev", "resourceClaimName": name}],
            labels={"app": self.rng.choice("ab")},
        )  # fmt: skip
        await self.cluster.create(claim, pod, settle=False)
        return name

    async def _pod_with_gpu(self):
        name = self._name("g")
        pod = a_pod(name, cpu="500m", requests={GPU: "1"}, limits={GPU: "1"})
        await self.cluster.create(pod, settle=False)
        return name

    async def _other_policy(self):
        """Create a policy without maximum counts, or delete it if it exists."""
        policy = a_resource_policy(
            "order", pods={"app": "b"}, strategy=self.rng.choice(("prefer", "required")),
            units=[a_unit("y", 2, nodes={"pool": "y"}), a_unit("x", 1, nodes={"pool": "x"})],
        )  # fmt: skip
        try:
            await self.cluster.create(policy, settle=False)
        except AlreadyExists:
            await self.cluster.client.delete(RESOURCE_POLICIES, "order", "default")
            return "gone"
        return "new"

    async def _new_node(self):
        name = self.rng.choice(NODE_NAMES)
        await self._node(name)
        return name

    async def _node(self, name):
        number = NODE_NAMES.index(name)
        node = a_node(
            name, cpu=str(4 + number), memory="8Gi", pods=str(4 + 2 * number),
            labels={"pool": "xyz"[number]},
        )  # fmt: skip
        with suppress(AlreadyExists):
            await self.cluster.create(node, settle=False)
        with suppress(AlreadyExists):
            await self.cluster.create(a_slice(name, node=name, devices=2), settle=False)

    async def _gone_node(self):
        return await self._gone(NODES)

    async def _gone_pod(self):
        return await self._gone(PODS, "default")

    async def _gone_reservation(self):
        return await self._gone(RESERVATIONS)

    async def _gone(self, resource, namespace=""):
        there = sorted(obj.name for obj in (await self.cluster.client.list(resource)).items)
        if not there:
            return None
        name = self.rng.choice(there)
        with suppress(NotFound):
            await self.cluster.client.delete(resource, name, namespace)
        return name
