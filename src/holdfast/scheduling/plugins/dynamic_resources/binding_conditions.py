"""Binding conditions: devices that their driver prepares after they are allocated (KEP-5007).

The driver reports conditions in the claim's ``status.devices``. A pod is bound when all conditions
of its devices are True. If a failure condition is True, or the time limit has passed since the
allocation, the claim is unavailable on every node: it is deallocated, and the pod is tried again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from holdfast.api.devices import DeviceResult, ResourceClaim
from holdfast.api.timestamps import seconds_of
from holdfast.scheduling.framework.plugin import ApiCall, ApiCalls, Placement
from holdfast.state.devices.claims import Claims, is_reserved_for
from holdfast.state.devices.errors import AllocationError

POLL_SECONDS = 5.0
PENDING = "BindingConditionsPending"
ALLOCATIONS = "scheduler_dra_bindingconditions_allocations_total"
WAIT_DURATION = "scheduler_dra_bindingconditions_wait_duration_seconds"


class Progress(Enum):
    """How far the devices of a claim are prepared."""

    READY = "ready"
    WAITING = "waiting"
    FAILED = "failed"


class BindingFailed(AllocationError):
    """A device was not prepared; ``status`` is a label of the metrics."""

    status = "failure"


class BindingTimeout(BindingFailed):
    """A device was not prepared within the time limit."""

    status = "timeout"


def progress_of(claim: ResourceClaim) -> Progress:
    """Return how far the devices of a claim are prepared; one that failed decides."""
    progress = Progress.READY
    for result in conditional_results(claim):
        if not _true_conditions(claim, result).isdisjoint(result.binding_failure_conditions):
            return Progress.FAILED
        if missing_conditions(claim, result):
            progress = Progress.WAITING
    return progress


def missing_conditions(claim: ResourceClaim, result: DeviceResult) -> list[str]:
    """Return the binding conditions of a device that its driver does not report as True."""
    true = _true_conditions(claim, result)
    return [condition for condition in result.binding_conditions if condition not in true]


def is_unavailable(claim: ResourceClaim, now: float, timeout: float) -> bool:
    """Return whether the devices of a claim failed, or are not prepared within the time limit."""
    progress = progress_of(claim)
    if progress is Progress.WAITING:
        return _is_timed_out(claim, now, timeout)
    return progress is Progress.FAILED


def conditional_results(claim: ResourceClaim) -> Iterator[DeviceResult]:
    """Return the allocated devices that have binding conditions."""
    return (result for result in claim.results if result.binding_conditions)


def wait_until_prepared(
    claims: Claims, reserved: Sequence[ResourceClaim], placement: Placement, timeout: float
) -> ApiCalls:
    """Wait for the devices of claims that are reserved for the pod.

    Raises BindingFailed after a failure condition, the time limit or a cancellation.
    """
    drivers = sorted({r.driver for claim in reserved for r in conditional_results(claim)})
    if not drivers:
        return
    waited, failure = 0.0, None
    # Plugins have no clock: a sleep returns the time.
    now: float = yield ApiCall("sleep", "", 0.0)
    while True:
        try:
            if _all_prepared(claims, reserved, placement, now, timeout):
                break
            if waited >= timeout:
                raise BindingTimeout("device binding timeout: context deadline exceeded")
        except BindingFailed as cause:
            failure = cause
            break
        if waited == 0:
            message = f"waiting for binding conditions for device on node {placement.node}"
            yield ApiCall("event", "", (PENDING, message))
        seconds = min(POLL_SECONDS, timeout - waited)
        now = yield ApiCall("sleep", "", seconds)
        waited += seconds
    for driver in drivers:
        status = "success" if failure is None else failure.status
        labels = (placement.pod.scheduler_name, driver, status)
        yield ApiCall("observe", ALLOCATIONS, (1.0, *labels))
        yield ApiCall("observe", WAIT_DURATION, (waited, *labels))
    if failure is not None:
        raise failure


def _all_prepared(
    claims: Claims,
    reserved: Sequence[ResourceClaim],
    placement: Placement,
    now: float,
    timeout: float,
) -> bool:
    """Return whether all devices are prepared; raise BindingFailed if one never will be."""
    if placement.abort_reason:
        raise BindingFailed(placement.abort_reason)
    prepared = True
    for claim in reserved:
        known = claims.get(claim.namespace, claim.name)
        if known is None or known.uid != claim.uid:
            raise BindingFailed(f"claim {claim.key} got deleted in the meantime")
        if known.status.allocation is None or not is_reserved_for(known, placement.pod.uid):
            raise BindingFailed(f"claim {claim.key} got deallocated elsewhere in the meantime")
        progress = progress_of(known)
        if progress is Progress.FAILED:
            raise BindingFailed(f"claim {claim.name} binding failed")
        if progress is Progress.WAITING and _is_timed_out(known, now, timeout):
            raise BindingTimeout(f"device binding timeout: claim={claim.name}")
        prepared = prepared and progress is Progress.READY
    return prepared


def _is_timed_out(claim: ResourceClaim, now: float, timeout: float) -> bool:
    """Return whether the time limit has passed since the allocation, if its time is known."""
    allocation = claim.status.allocation
    allocated = seconds_of(allocation.allocation_timestamp) if allocation is not None else None
    return allocated is not None and allocated + timeout < now


def _true_conditions(claim: ResourceClaim, result: DeviceResult) -> set[str]:
    """Return the types of the conditions that the driver reports as True for a device.

    ``status.devices`` is kept as it was stored: nothing is known about its types.
    """
    identity = (result.driver, result.pool, result.device)
    true: set[str] = set()
    for status in claim.status.devices:
        if (status.get("driver"), status.get("pool"), status.get("device")) != identity:
            continue
        if status.get("shareID") not in (None, result.share_id):
            continue
        listed = status.get("conditions")
        for condition in listed if isinstance(listed, list) else ():
            if isinstance(condition, dict) and condition.get("status") == "True":
                true.add(str(condition.get("type")))
    return true
