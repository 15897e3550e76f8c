"""DeviceShare passes the conformance suite in clusters with devices, users and reservations."""

import msgspec

from device_share.objects import a_device_object, a_gpu, a_gpu_pod, a_nic
from holdfast.api.koordinator_names import (
    DEVICE_ALLOCATED,
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
)
from holdfast.api.reservation_names import ALLOCATED, IGNORED
from holdfast.scheduling.plugins.device_share import DeviceShare
from holdfast.scheduling.plugins.node_numa_resource import NodeNUMAResource
from holdfast.state.device_share.ledger import DeviceOptions
from holdfast.state.numa.pod_trials import NumaOptions
from holdfast.testing import typed
from holdfast.testing.conformance import check_plugin
from holdfast.testing.numa_builders import a_topology
from soak_size import SEED, TIMES

NUMA_NODES = {"a": 0, "b": 1, None: None}


def some_devices(random, node):
    """A Device of some GPUs and cards."""
    healthy = random.random() < 0.9
    pcies = [random.choice("ab") for _ in range(4)] if random.random() < 0.5 else [None] * 4
    gpus = [
        a_gpu(i, health=bool(i) or healthy, pcie=pcies[i], numa=NUMA_NODES[pcies[i]])
        for i in range(random.choice([1, 2, 4]))
    ]
    return a_device_object(node, *gpus, *[a_nic(i, pcie=pcies[i]) for i in range(2)])


def some_use(random):
    """The annotation of a pod or reservation."""
    percent = random.choice([20, 50, 100])
    amounts = {
        GPU_CORE: str(percent), GPU_MEMORY_RATIO: str(percent),
        GPU_MEMORY: str(percent * 2**34 // 100),
    }  # fmt: skip
    return {"gpu": [{"minor": random.randrange(3), "resources": amounts}]}


def annotate(obj, **annotations):
    """Return an object with more annotations."""
    notes = {**obj.metadata.annotations, **annotations}
    meta = msgspec.structs.replace(obj.metadata, annotations=notes)
    return msgspec.structs.replace(obj, metadata=meta)


def requesting_gpus(pod):
    """Return a pod that requests GPUs besides: without that an annotation does not count."""
    first, *rest = pod.spec.containers
    requests = {**first.resources.requests, GPU: "20"}
    resources = msgspec.structs.replace(first.resources, requests=requests)
    containers = (msgspec.structs.replace(first, resources=resources), *rest)
    return msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(pod.spec, containers=containers)
    )


def reserving_gpus(reservation):
    """Return a reservation that reserves GPUs besides."""
    status = reservation.status
    allocatable = {**status.allocatable, GPU: "100"}
    return msgspec.structs.replace(
        reservation, status=msgspec.structs.replace(status, allocatable=allocatable)
    )


def change_devices(cluster):
    """Add or change a Device, or the devices of a bound pod or of a reservation."""
    random = cluster.random
    use = {DEVICE_ALLOCATED: msgspec.json.encode(some_use(random)).decode()}
    held = [one for (kind, _), one in cluster.others.items() if kind == "Reservation"]
    match random.randrange(5):
        case 0 | 1 if cluster.nodes:
            made = typed(some_devices(random, random.choice([*cluster.nodes, "unknown"])))
            cluster.others[made.kind, made.name] = made
            cluster.world.upsert(made)
        case 2 if cluster.pods:
            pod = random.choice([*cluster.pods.values()])
            if held and random.random() < 0.5:
                one = random.choice(held)
                owned = {"name": one.name, "uid": one.uid}
                use[ALLOCATED] = msgspec.json.encode(owned).decode()
            cluster._set_pod(annotate(requesting_gpus(pod), **use))
        case 3 if held:
            made = annotate(reserving_gpus(random.choice(held)), **use)
            cluster.others[made.kind, made.name] = made
            cluster.world.upsert(made)
        case 4 if cluster.nodes:
            policy = random.choice(["None", "BestEffort", "Restricted", "SingleNUMANodePodLevel"])
            made = typed(a_topology(random.choice([*cluster.nodes]), policy=policy))
            cluster.others[made.kind, made.name] = made
            cluster.world.upsert(made)


def with_options(world):
    """Set the arguments that the plugins would set; both are asked about NUMA nodes."""
    world.numa.options["default-scheduler"] = NumaOptions()
    world.device_share.options["default-scheduler"] = DeviceOptions()
    return world


def with_devices(cluster):
    """Return a pod that requests devices; from now on events concern them, too."""
    if not hasattr(cluster, "devices_change"):
        cluster.devices_change, step = True, cluster.step

        def step_with_devices():
            step()
            change_devices(cluster)

        rebuilt = cluster.rebuilt
        cluster.step = step_with_devices
        cluster.rebuilt = lambda **more: with_options(rebuilt(**more))
        with_options(cluster.world)
        for _ in range(20):
            change_devices(cluster)
    random = cluster.random
    labels = {"app": random.choice("abc"), **random.choice([{}, {}, {IGNORED: "true"}])}
    asked = random.choice([{GPU: "30"}, {GPU: "100"}, {GPU: "200"}, {"rdma": "50", GPU: "50"}])
    return typed(a_gpu_pod(f"gpu-{random.random()}", requests=asked, labels=labels))


def test_device_share_conforms():
    check_plugin(DeviceShare, pods=with_devices, seed=SEED, clusters=2 * TIMES, steps=25 * TIMES)


def test_node_numa_resource_conforms_with_hints_of_devices():
    check_plugin(
        NodeNUMAResource, pods=with_devices, seed=SEED, clusters=2 * TIMES, steps=25 * TIMES
    )
