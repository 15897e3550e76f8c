"""Random nodes with CPU topologies and shared GPUs, and pods and reservations that ask for them."""

import json
from random import Random

from holdfast.api import koordinator_names as names
from holdfast.api.scheme import SHARED_DEVICES
from holdfast.testing import a_node, a_pod, a_reservation
from holdfast.testing.builders import an_object
from holdfast.testing.numa_builders import a_topology

NODES = ("n0", "n1", "n2")
APPS = ("a", "b")
IGNORED = "scheduling.koordinator.sh/reservation-ignored"
AFFINITY = "scheduling.koordinator.sh/reservation-affinity"
NUMA_POLICIES = ("BestEffort", "Restricted", "SingleNUMANode")
BIND_POLICIES = ("FullPCPUs", "SpreadByPCPUs")
MOST_GPUS = 3
AMOUNTS_OF_GPUS = {
    **dict.fromkeys(
        (names.GPU, names.GPU_CORE, names.GPU_MEMORY_RATIO, names.GPU_SHARED), 100 * MOST_GPUS
    ),
    names.GPU_MEMORY: f"{16 * MOST_GPUS}Gi",
}


class RandomCores:
    """Makes raw objects at random, reproducible by the seed."""

    def __init__(self, seed):
        self.random = Random(seed)
        self._made = 0

    def chance(self, share):
        """Return True with this probability."""
        return self.random.random() < share

    def name(self, kind):
        """Return a new name."""
        self._made += 1
        return f"{kind}{self._made}"

    def node_objects(self, name, *, lists_gpus=False):
        """A node of 8 CPUs on two NUMA nodes with GPUs; some have no topology or no Device.

        ``lists_gpus``: the Node itself lists their amounts, whatever becomes of the Device.
        """
        pick, labels, notes = self.random.choice, {}, {}
        if self.chance(0.15):
            labels[names.CPU_BIND_POLICY] = pick(("FullPCPUsOnly", "SpreadByPCPUs"))
        if self.chance(0.2):
            labels[names.NUMA_TOPOLOGY_POLICY] = pick(NUMA_POLICIES)
        if self.chance(0.2):
            labels[names.NUMA_ALLOCATE_STRATEGY] = "MostAllocated"
        if amplified := self.chance(0.15):
            notes[names.AMPLIFICATION_RATIO] = '{"cpu":1.5}'
        cpu = "12" if amplified else "8"
        listed = AMOUNTS_OF_GPUS if lists_gpus else None
        made = [
            a_node(
                name, cpu=cpu, memory="32Gi", labels=labels, annotations=notes, allocatable=listed
            )
        ]
        if self.chance(0.9):
            made.append(a_topology(name, cores=2, threads=2, memory="16Gi"))
        if self.chance(0.8):
            made.append(self.device(name))
        return made

    def device(self, node):
        """The Device of a node with GPUs on alternating NUMA nodes, some of them unhealthy."""
        amounts = {
            names.GPU_CORE: "100", names.GPU_MEMORY_RATIO: "100", names.GPU_MEMORY: "16Gi",
        }  # fmt: skip
        placed, listed = self.chance(0.7), []
        for minor in range(self.random.randint(1, MOST_GPUS)):
            gpu = {
                "type": "gpu", "id": f"{node}-{minor}", "minor": minor,
                "health": self.chance(0.9), "resources": amounts,
            }  # fmt: skip
            where = {"socketID": minor % 2, "nodeID": minor % 2, "pcieID": str(minor // 2)}
            listed.append(gpu | ({"topology": where} if placed else {}))
        return an_object(SHARED_DEVICES, node, {"devices": listed})

    def wishes(self):
        """Return labels, annotations, cpu and requests of a pod or a template."""
        pick, labels, notes, requests = self.random.choice, {}, {}, {}
        cpu = pick(("500m", "1", "2", "2", "3", "4", "6"))
        if self.chance(0.65):
            labels[names.QOS_CLASS] = "LSR"
            cpu = "1" if cpu == "500m" else cpu
            spec = {}
            if self.chance(0.35):
                key = pick(("requiredCPUBindPolicy", "preferredCPUBindPolicy"))
                spec[key] = pick(BIND_POLICIES)
            if self.chance(0.2):
                spec["preferredCPUExclusivePolicy"] = pick(("PCPULevel", "NUMANodeLevel"))
            if spec:
                notes[names.RESOURCE_SPEC] = json.dumps(spec)
        if self.chance(0.25):
            policy = {"numaTopologyPolicy": pick(NUMA_POLICIES)}
            notes[names.NUMA_TOPOLOGY_SPEC] = json.dumps(policy)
        if self.chance(0.4):
            percent = pick(("10", "50", "50", "100", "200"))
            parts = {names.GPU_CORE: percent, names.GPU_MEMORY_RATIO: percent}
            requests = pick(({names.GPU: percent}, parts, {names.GPU_MEMORY: "3Gi"}))
        return labels, notes, cpu, requests

    def pod(self, **more):
        """A pod that may be bound to CPUs, share GPUs and own reservations."""
        labels, notes, cpu, requests = self.wishes()
        labels["app"] = self.random.choice((*APPS, "none"))
        if self.chance(0.08):
            labels[IGNORED] = "true"
        elif self.chance(0.1):
            notes[AFFINITY] = "{}"
        return a_pod(
            self.name("p"), cpu=cpu, memory=self.random.choice((None, "1Gi", "5Gi")),
            labels=labels, annotations=notes, requests=requests, **more,
        )  # fmt: skip

    def reservation(self, **more):
        """A reservation of CPUs and GPUs, without a node."""
        labels, notes, cpu, requests = self.wishes()
        pick = self.random.choice
        made = a_reservation(
            self.name("r"), cpu=cpu, requests=requests, owner_labels={"app": pick(APPS)},
            allocate_once=self.chance(0.4), allocate_policy=pick((None, "Aligned", "Restricted")),
            **more,
        )  # fmt: skip
        made["spec"]["template"]["metadata"] |= {"labels": labels, "annotations": notes}
        return made


def words_of(raw):
    """Describe an object in one line, for the log of a failing case."""
    spec = raw.get("spec", {})
    template = spec.get("template", raw)
    meta, asked = template["metadata"], ""
    if raw["kind"] == "Device":
        asked = [(one["minor"], one["health"], "topology" in one) for one in spec["devices"]]
    elif raw["kind"] in ("Pod", "Reservation"):
        asked = template["spec"]["containers"][0]["resources"]["requests"]
    skipped = (names.CPU_TOPOLOGY, "kubernetes.io/hostname")
    notes = {
        key.rpartition("/")[2]: text
        for key, text in {**meta.get("labels", {}), **meta.get("annotations", {})}.items()
        if key not in skipped
    }
    more = {k: v for k, v in spec.items() if k in ("allocatePolicy", "allocateOnce", "ttl")}
    owners = [one["labelSelector"]["matchLabels"] for one in spec.get("owners", ())]
    return f"{raw['kind']} {raw['metadata']['name']} {asked} {notes} {more} {owners}"
