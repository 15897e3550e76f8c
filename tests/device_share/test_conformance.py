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
from holdfast.plugins.device_share import DeviceShare
from holdfast.testing import typed
from holdfast.testing.conformance import check_plugin
from soak_size import SEED, TIMES


def some_devices(random, node):
    """A Device of some GPUs and cards."""
    healthy = random.random() < 0.9
    pcies = [random.choice("ab") for _ in range(4)] if random.random() < 0.5 else [None] * 4
    gpus = [
        a_gpu(i, health=bool(i) or healthy, pcie=pcies[i]) for i in range(random.choice([1, 2, 4]))
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


def change_devices(cluster):
    """Add or change a Device, or the devices of a bound pod or of a reservation."""
    random = cluster.random
    use = {DEVICE_ALLOCATED: msgspec.json.encode(some_use(random)).decode()}
    held = [one for (kind, _), one in cluster.others.items() if kind == "Reservation"]
    match random.randrange(4):
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
            cluster._set_pod(annotate(pod, **use))
        case 3 if held:
            made = annotate(random.choice(held), **use)
            cluster.others[made.kind, made.name] = made
            cluster.world.upsert(made)


def with_devices(cluster):
    """Return a pod that requests devices; from now on events concern them, too."""
    if not hasattr(cluster, "devices_change"):
        cluster.devices_change, step = True, cluster.step

        def step_with_devices():
            step()
            change_devices(cluster)

        cluster.step = step_with_devices
        for _ in range(20):
            change_devices(cluster)
    random = cluster.random
    labels = {"app": random.choice("abc"), **random.choice([{}, {}, {IGNORED: "true"}])}
    asked = random.choice([{GPU: "30"}, {GPU: "100"}, {GPU: "200"}, {"rdma": "50", GPU: "50"}])
    return typed(a_gpu_pod(f"gpu-{random.random()}", requests=asked, labels=labels))


def test_device_share_conforms():
    check_plugin(DeviceShare, pods=with_devices, seed=SEED, clusters=2 * TIMES, steps=25 * TIMES)
