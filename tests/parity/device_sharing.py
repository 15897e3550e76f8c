"""Read the devices, requests and allocations of Koordinator's DeviceShare records."""

import msgspec

from holdfast.api.decode import convert_object
from holdfast.api.pod import Pod
from holdfast.api.quantity import units
from holdfast.api.requests import pod_request
from holdfast.api.shared_device import SharedDevices, VirtualFunction
from holdfast.state.device_share.allocation_annotation import allocations_text, read_allocations
from holdfast.state.device_share.allocations import DeviceUse, SharedDeviceAllocation, use_of
from holdfast.state.device_share.node_devices import NodeDeviceState, inventory_of
from holdfast.state.device_share.pod_devices import pod_devices
from holdfast.state.device_share.requests import RESOURCES
from holdfast.state.device_share.scoring import ScoringStrategy

ALLOCATED = "scheduling.koordinator.sh/device-allocated"
JOINT = "scheduling.koordinator.sh/device-joint-allocate"
HINT = "scheduling.koordinator.sh/device-allocate-hint"


def amounts(kind, resources):
    """Return the amounts of one device in the order of RESOURCES."""
    return tuple(units(resources.get(name, 0)) for name in RESOURCES[kind])


def use(by_type):
    """Return the use that a record lists by type and minor."""
    return use_of(
        {
            kind: tuple(
                SharedDeviceAllocation(int(minor), amounts(kind, resources))
                for minor, resources in (by_minor or {}).items()
            )
            for kind, by_minor in (by_type or {}).items()
        }
    )


def allocations(listed):
    """Return the allocations of a record, each type in ascending order of minors."""
    return {
        kind: tuple(
            SharedDeviceAllocation(
                one["minor"],
                amounts(kind, one["resources"]),
                tuple(
                    VirtualFunction(minor=vf.get("minor", 0), bus_id=vf["busID"])
                    for vf in one.get("extension", {}).get("vfs", ())
                ),
            )
            for one in sorted(ones, key=lambda one: one["minor"])
        )
        for kind, ones in (listed or {}).items()
        if ones
    }


def state_of(given):
    """Return the state of the node: from a Device, or from a cache of total and used."""
    labels = given.get("node", {}).get("metadata", {}).get("labels", {})
    if "device" in given:
        device = convert_object(given["device"], SharedDevices)
        held = use_of(allocations(given.get("assignedDevices")))
        return NodeDeviceState(inventory_of(device, labels), held)
    return cached_state(given["nodeDevice"], labels)


def cached_state(cache, labels=None):
    """Return the state that a record describes by deviceTotal, deviceUsed and deviceInfos."""
    vfs = frozenset(
        (kind, int(minor), bus)
        for kind, held in (cache.get("vfAllocations") or {}).items()
        for minor, buses in (held.get("allocatedVFs") or {}).items()
        for bus in buses
    )
    held = use(cache.get("deviceUsed"))
    inventory = inventory_of(device_object(cache), labels or {})
    return NodeDeviceState(inventory, DeviceUse(held.amounts, vfs))


def device_object(cache, name=""):
    """Return a Device with the devices of deviceTotal and deviceInfos."""
    infos = {
        (kind, info["minor"]): info
        for kind, listed in (cache.get("deviceInfos") or {}).items()
        for info in listed
    }
    devices = [
        {
            **infos.get((kind, int(minor)), {}),
            "type": kind,
            "minor": int(minor),
            "health": True,
            "resources": resources,
        }
        for kind, by_minor in (cache.get("deviceTotal") or {}).items()
        for minor, resources in by_minor.items()
    ]
    raw = {"metadata": {"name": name}, "spec": {"devices": devices}}
    return convert_object(raw, SharedDevices)


def asked_by(given):
    """Return what the pod of a record asks; some records list only its requests by type."""
    raw = given.get("pod") or {"metadata": {}, "spec": {}}
    written = {HINT: given.get("hints"), JOINT: given.get("jointAllocate")}
    annotations = {k: msgspec.json.encode(v).decode() for k, v in written.items() if v}
    metadata = {**raw["metadata"], "annotations": raw["metadata"].get("annotations", annotations)}
    pod = convert_object({**raw, "metadata": metadata}, Pod)
    request = dict(pod_request(pod).amounts)
    for resources in (given.get("podRequests") or {}).values():
        request |= {name: units(amount) for name, amount in resources.items()}
    if "koordinator.sh/gpu-memory-ratio" in request:
        # Requests after the conversion may have bytes too, which then do not count.
        request.pop("koordinator.sh/gpu-memory", None)
    return pod_devices(pod, request)


def strategy_of(given):
    """Return the scoring strategy of a record, None if it has none."""
    written = given.get("scoringStrategy")
    if not written:
        return None
    if isinstance(written, str):
        return ScoringStrategy(written.split()[0])
    weights = tuple((one["name"], one["weight"]) for one in written["resources"])
    return ScoringStrategy(written["type"], weights)


def written_and_read(found):
    """Return allocations after a way through the annotation."""
    return read_allocations({ALLOCATED: allocations_text(found, {})})


def hinted(requests, hints, pod=None):
    """Return what a pod asks with these requests and hints for types of devices."""
    given = pod or {"metadata": {}, "spec": {}}
    written = msgspec.json.encode({kind: hint for kind, hint in hints.items() if hint}).decode()
    annotations = {**given["metadata"].get("annotations", {}), HINT: written}
    raw = {**given, "metadata": {**given["metadata"], "annotations": annotations}}
    amounts_of = {name: units(amount) for name, amount in requests.items()}
    return pod_devices(convert_object(raw, Pod), amounts_of)
