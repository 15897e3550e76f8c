"""Build states of nodes and requests of pods from few words."""

from holdfast.api.decode import convert_object
from holdfast.api.pod import Pod
from holdfast.api.requests import pod_request
from holdfast.api.shared_device import SharedDevices
from holdfast.state.device_share.allocations import SharedDeviceAllocation, use_of
from holdfast.state.device_share.candidates import DeviceRejection
from holdfast.state.device_share.choosing import choose_devices
from holdfast.state.device_share.node_devices import NodeDeviceState, inventory_of
from holdfast.state.device_share.pod_devices import pod_devices

KOORD = "koordinator.sh/"
ANNOTATION = "scheduling.koordinator.sh/"


def gpu(minor, *, memory="16Gi", **more):
    """Return a GPU of a Device; ``at``: its NUMA node and PCIe switch."""
    resources = {"gpu-core": "100", "gpu-memory": memory, "gpu-memory-ratio": "100"}
    return _device("gpu", minor, resources, **more)


def rdma(minor, **more):
    """Return an RDMA card of a Device."""
    return _device("rdma", minor, {"rdma": "100"}, **more)


def _device(kind, minor, resources, *, at=None, health=True, **more):
    if at is not None:
        more["topology"] = {"nodeID": at[0], "pcieID": at[1]}
    named = {KOORD + name: amount for name, amount in resources.items()}
    return {"type": kind, "minor": minor, "health": health, "resources": named, **more}


def node(*devices, node_labels=None, annotations=None, labels=None):
    """Return the state of a node with these devices, nothing of them used."""
    metadata = {"name": "n", "annotations": annotations or {}, "labels": labels or {}}
    raw = {"metadata": metadata, "spec": {"devices": list(devices)}}
    return NodeDeviceState(inventory_of(convert_object(raw, SharedDevices), node_labels or {}))


def asked(requests, *, annotations=None, labels=None):
    """Return what a pod with these requests asks."""
    named = {name if "/" in name else KOORD + name: str(a) for name, a in requests.items()}
    raw = {
        "metadata": {
            "annotations": {ANNOTATION + k: v for k, v in (annotations or {}).items()},
            "labels": labels or {},
        },
        "spec": {"containers": [{"name": "c", "resources": {"requests": named}}]},
    }
    pod = convert_object(raw, Pod)
    found = pod_devices(pod, pod_request(pod).amounts)
    assert found is not None
    return found


def using(state, allocations):
    """Return the state with these allocations added."""
    return NodeDeviceState(state.inventory, state.used.plus(use_of(allocations)))


def holding(state, **minors):
    """Return the state with amounts used: ``gpu={0: (50, 8, 50)}``."""
    allocations = {
        kind: tuple(SharedDeviceAllocation(minor, amounts) for minor, amounts in by_minor.items())
        for kind, by_minor in minors.items()
    }
    return using(state, allocations)


def minors(found):
    """Return the chosen minors by type, or the reasons."""
    if isinstance(found, DeviceRejection):
        return found.reasons
    return {kind: [one.minor for one in listed] for kind, listed in found.items()}


def chosen(state, requests, *args, annotations=None, **more):
    """Return the minors chosen for a pod, or the reasons."""
    return minors(choose_devices(state, asked(requests, annotations=annotations), *args, **more))
