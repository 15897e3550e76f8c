"""Warn of Koordinator's labels, annotations and kinds that the scheduler cannot use.

The scheduler reads them with the same functions. Only contradictory shares of GPUs are refused, as
by Koordinator's webhook, and only if its gate is on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

import msgspec

from holdfast.api import field_errors
from holdfast.api import koordinator_names as names
from holdfast.api.decode import JsonMapping, JsonObject, convert_object
from holdfast.api.json_fields import map_at, maps_at, text_at
from holdfast.api.node_resource_topology import NodeResourceTopology
from holdfast.api.pod import Pod
from holdfast.api.quantity import AmountText, units
from holdfast.api.requests import pod_request
from holdfast.api.shared_device import SharedDevices
from holdfast.runtime.errors import BadRequest, Cause
from holdfast.runtime.feature_gates import Feature
from holdfast.server.descriptor import AdmissionPlugin
from holdfast.server.operation import Operation
from holdfast.state.device_share.partitions import partition_table
from holdfast.state.device_share.pod_devices import pod_devices
from holdfast.state.device_share.requests import RESOURCES
from holdfast.state.numa.pod_request import read_request
from holdfast.state.numa.topology import read_topology
from holdfast.state.reservations.operating_pods import annotated_owners

_POD_ANNOTATIONS = frozenset(
    {
        names.RESOURCE_SPEC,
        names.NUMA_TOPOLOGY_SPEC,
        names.DEVICE_ALLOCATE_HINT,
        names.DEVICE_JOINT_ALLOCATE,
        names.GPU_PARTITION_SPEC,
    }
)
_DOMAIN = "koordinator.sh/"


def check_gpu_shares(op: Operation, new: JsonObject, old: JsonObject | None) -> Iterable[Cause]:
    """Return contradictions in the requests of a new pod for GPUs, if the gate is on."""
    if old is not None or not op.context.feature_gates.enabled(Feature.POD_DEVICE_RESOURCE):
        return ()
    return gpu_share_errors(new)


def gpu_share_errors(pod: JsonObject) -> Iterator[Cause]:
    """Yield contradictions in the requests of a pod for GPUs, with Koordinator's messages."""
    for index, container in enumerate(maps_at(map_at(pod, "spec"), "containers")):
        requests = map_at(map_at(container, "resources"), "requests")
        path = f"spec.containers[{index}].resources.requests"
        with suppress(BadRequest):  # a malformed amount is reported already
            if names.GPU in requests and names.GPU_SHARED in requests:
                message = "Forbidden declare GPU and GPU share at same time"
                yield field_errors.forbidden(path, message)
            elif names.GPU in requests:
                yield from _gpu_errors(requests[names.GPU], path)
            elif names.GPU_SHARED in requests:
                yield from _share_errors(requests, path)


def _gpu_errors(amount: AmountText, path: str) -> Iterator[Cause]:
    percent = units(amount)
    if not percent:
        message = "the requested GPU must be greater than zero"
        yield field_errors.invalid(path, str(amount), message)
    elif percent > 100 and percent % 100:
        message = "the requested GPU must be percentage of 100"
        yield field_errors.invalid(path, str(amount), message)


def _share_errors(requests: JsonMapping, path: str) -> Iterator[Cause]:
    shared, memory, ratio, core, npu = (
        units(requests.get(name, 0))
        for name in (
            names.GPU_SHARED,
            names.GPU_MEMORY,
            names.GPU_MEMORY_RATIO,
            names.GPU_CORE,
            "huawei.com/npu-core",
        )
    )
    if not shared:
        message = "the requested GPU must be greater than zero"
        yield field_errors.invalid(path, str(requests[names.GPU_SHARED]), message)
    if npu:
        return
    if not memory and not ratio:
        yield field_errors.forbidden(path, "GPU memory and GPU memory ratio all is zero")
    if memory and ratio:
        message = "declare GPU memory and GPU memory ratio at same time"
        yield field_errors.forbidden(path, message)
    for name, percent in (("gpuCore", core), ("gpuMemoryRatio", ratio)):
        if shared and percent % shared:
            message = f"the requested {name} must multiple of shared"
            yield field_errors.invalid(path, str(percent), message)


def _warn_of_pod(op: Operation, new: JsonObject, old: JsonObject | None) -> None:
    """Warn if the scheduler cannot read what a new pod asks of CPUs, NUMA nodes or devices."""
    if old is None or map_at(old, "metadata") != map_at(new, "metadata"):
        _warn_of_owners(op, new)
    if old is not None or not _asks_for_koordinator(new):
        return
    try:
        pod = convert_object(new, Pod)
        amounts = pod_request(pod).amounts
        meta = pod.metadata
        for read in (
            lambda: read_request(meta.labels, meta.annotations, pod.spec.priority, amounts),
            lambda: pod_devices(pod, amounts),
        ):
            try:
                read()
            except BadRequest as error:
                op.warnings.append(f"the pod cannot be scheduled: {error.message}")
    except (BadRequest, msgspec.ValidationError):
        return  # validation reports it


def _warn_of_owners(op: Operation, new: JsonObject) -> None:
    """Warn if a pod is to act as a reservation, but its owners cannot be read."""
    if text_at(map_at(map_at(new, "metadata"), "labels"), names.OPERATING_MODE) != "Reservation":
        return
    try:
        annotated_owners(convert_object(new, Pod))
    except BadRequest as error:
        op.warnings.append(f"the pod does not act as a reservation: {error.message}")
    except msgspec.ValidationError:
        return  # validation reports it


def _asks_for_koordinator(pod: JsonObject) -> bool:
    annotations = pod["metadata"].get("annotations")
    if annotations and not _POD_ANNOTATIONS.isdisjoint(annotations):
        return True
    return any(
        name.startswith(_DOMAIN)
        for container in maps_at(map_at(pod, "spec"), "containers")
        for name in map_at(map_at(container, "resources"), "requests")
    )


def _warn_of_topology(op: Operation, new: JsonObject, old: JsonObject | None) -> None:
    """Warn of annotations and zones that count as absent because they cannot be read."""
    try:
        faults = read_topology(convert_object(new, NodeResourceTopology)).faults
    except (BadRequest, msgspec.ValidationError):
        return
    op.warnings.extend(f"counts as absent: {fault}" for fault in faults)


def _warn_of_devices(op: Operation, new: JsonObject, old: JsonObject | None) -> None:
    """Warn of devices of an unknown type, and of a partition table that cannot be read."""
    for index, device in enumerate(maps_at(map_at(new, "spec"), "devices")):
        if (kind := text_at(device, "type")) not in RESOURCES:
            known = ", ".join(RESOURCES)
            op.warnings.append(f'spec.devices[{index}].type: "{kind}" is not used: one of {known}')
    if names.GPU_PARTITIONS not in map_at(new["metadata"], "annotations"):
        return
    try:
        typed = convert_object(new, SharedDevices)
    except (BadRequest, msgspec.ValidationError):
        return
    if partition_table(typed, {})[0] is None:
        path = f"metadata.annotations[{names.GPU_PARTITIONS}]"
        op.warnings.append(f"{path}: cannot be read, so that it counts as absent")


def _warn_of_job(op: Operation, new: JsonObject, old: JsonObject | None) -> None:
    """Warn of a job that will fail because it does not name a pod."""
    if old is not None:
        return
    pod = map_at(map_at(new, "spec"), "podRef")
    for part in ("namespace", "name"):
        if not text_at(pod, part):
            message = "is needed: the job will fail with reason InvalidPodRef"
            op.warnings.append(f"spec.podRef.{part}: {message}")


POD_WARNINGS = AdmissionPlugin(validate=_warn_of_pod)
TOPOLOGY_WARNINGS = AdmissionPlugin(validate=_warn_of_topology)
DEVICE_WARNINGS = AdmissionPlugin(validate=_warn_of_devices)
JOB_WARNINGS = AdmissionPlugin(validate=_warn_of_job)
