"""How much a pod asks for.

Containers run together and are summed. Init containers run one after the other before them, so
each counts only if it needs more than the rest; a sidecar (an init container that restarts
always) stays and counts in both. What the pod itself asks for replaces the sum, and overhead
comes on top. A pod that was resized in place also holds what its status says it still has.

Amounts are added in nanos, as exact integers, and rounded up once at the end, because two
containers of half a millicore ask for one millicore, not two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from holdfast.api.pod import Container, ContainerStatus, Pod, ResourceAmounts, Resources
from holdfast.api.quantity import MAX_INT64, NANO, AmountText, Quantity
from holdfast.api.resource_names import CPU, MEMORY, is_counted, is_pod_level

DEFAULT_MILLICORES = 100
DEFAULT_BYTES = 200 * 1024 * 1024

Nanos = dict[str, int]
_DEFAULTS: Nanos = {CPU: DEFAULT_MILLICORES * 10**6, MEMORY: DEFAULT_BYTES * 10**9}


@lru_cache(maxsize=65536)
def nanos(text: AmountText) -> int:
    """Read an amount in billionths, exactly."""
    return Quantity.parse(text).scaled(NANO)


@dataclass(frozen=True, slots=True)
class PodResourcesOptions:
    """Which parts of a pod to read.

    ``status`` counts what a resize has not given back yet (a pod on no node has no such status).
    ``missing`` stands in, in nanos, for what a container does not mention; a written 0 stays.
    """

    status: bool = True
    pod_level: bool = True
    overhead: bool = True
    missing: Mapping[str, int] = field(default_factory=dict)


AS_SCHEDULED = PodResourcesOptions()


@dataclass(frozen=True, slots=True)
class PodRequest:
    """What a pod asks for, as the scheduler counts it: cpu in millicores, the rest in units.

    The non-zero pair is what scoring takes: a container that does not mention cpu or memory
    counts as if it asked for a little.
    """

    amounts: Mapping[str, int]
    nonzero_millicores: int
    nonzero_bytes: int


def pod_request(pod: Pod, reading: PodResourcesOptions = AS_SCHEDULED) -> PodRequest:
    """Work out what a pod asks for; only resources that the scheduler counts appear."""
    real = nonzero = request_nanos(pod, reading)
    if not _mentions_everything(pod):
        whole_pod = reading.pod_level and asks_as_a_pod(pod)
        missing = {k: v for k, v in _DEFAULTS.items() if not (whole_pod and k in real)}
        nonzero = request_nanos(pod, replace(reading, missing=missing))
    return PodRequest(
        {name: whole(name, amount) for name, amount in real.items() if is_counted(name)},
        whole(CPU, nonzero.get(CPU, 0)),
        whole(MEMORY, nonzero.get(MEMORY, 0)),
    )


def _mentions_everything(pod: Pod) -> bool:
    """Tell quickly that no default can play a part: every container names cpu and memory."""
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        if CPU not in container.resources.requests or MEMORY not in container.resources.requests:
            return False
    return not resize_is_infeasible(pod)


def whole(name: str, amount: int) -> int:
    """Round nanos up to millicores (cpu) or units (all else), within int64."""
    return min(-(-amount // (10**6 if name == CPU else 10**9)), MAX_INT64)


def asks_as_a_pod(pod: Pod) -> bool:
    """Tell whether the pod as a whole asks for something it may ask for."""
    own = pod.spec.resources
    return own is not None and any(map(is_pod_level, own.requests))


def request_nanos(pod: Pod, reading: PodResourcesOptions = AS_SCHEDULED) -> Nanos:
    """Work out the exact request of a pod, every resource it names."""
    total = container_request_nanos(pod, reading)
    own = pod.spec.resources
    if reading.pod_level and own is not None:
        given, kept = _pod_status(pod, reading)
        effective = _held(pod, own.requests, given, kept)
        total |= {name: effective.get(name, 0) for name in own.requests if is_pod_level(name)}
    if reading.overhead and pod.spec.overhead:
        _add(total, _read(pod.spec.overhead))
    return total


def limit_nanos(pod: Pod, reading: PodResourcesOptions = AS_SCHEDULED) -> Nanos:
    """Work out the exact limit of a pod; overhead is added only where there is a limit."""
    total = container_limit_nanos(pod, reading)
    own = pod.spec.resources
    if reading.pod_level and own is not None:
        given, _ = _pod_status(pod, reading)
        effective = _limited(pod, own.limits, given)
        total |= {name: effective.get(name, 0) for name in own.limits if is_pod_level(name)}
    if reading.overhead:
        _add(total, {k: v for k, v in _read(pod.spec.overhead).items() if total.get(k)})
    return total


def container_request_nanos(pod: Pod, reading: PodResourcesOptions = AS_SCHEDULED) -> Nanos:
    """Work out what the containers of a pod ask for together."""

    def asked(container: Container, status: ContainerStatus | None) -> Nanos:
        given, kept = (status.resources, status.allocated_resources) if status else (None, {})
        found = _held(pod, container.resources.requests, given, kept)
        return {**reading.missing, **found} if reading.missing else found

    return _aggregate(pod, asked, reading)


def container_limit_nanos(pod: Pod, reading: PodResourcesOptions = AS_SCHEDULED) -> Nanos:
    """Work out what the containers of a pod may use together."""

    def allowed(container: Container, status: ContainerStatus | None) -> Nanos:
        return _limited(pod, container.resources.limits, status.resources if status else None)

    return _aggregate(pod, allowed, reading)


def _aggregate(
    pod: Pod,
    part: Callable[[Container, ContainerStatus | None], Nanos],
    reading: PodResourcesOptions,
) -> Nanos:
    statuses = _statuses(pod) if reading.status else {}
    total: Nanos = {}
    for container in pod.spec.containers:
        _add(total, part(container, statuses.get(container.name)))
    if not pod.spec.init_containers:
        return total
    peak: Nanos = {}
    sidecars: Nanos = {}
    for container in pod.spec.init_containers:
        if container.restart_policy == "Always":
            own = part(container, statuses.get(container.name))
            _add(total, own)
            _add(sidecars, own)
            _raise(peak, sidecars)
        else:
            step = part(container, None)
            _add(step, sidecars)
            _raise(peak, step)
    _raise(total, peak)
    return total


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    status = pod.status
    if not status.container_statuses and not status.init_container_statuses:
        return {}
    return {s.name: s for s in (*status.container_statuses, *status.init_container_statuses)}


def _pod_status(pod: Pod, reading: PodResourcesOptions) -> tuple[Resources | None, ResourceAmounts]:
    return (pod.status.resources, pod.status.allocated_resources) if reading.status else (None, {})


def _held(
    pod: Pod, asked: ResourceAmounts, given: Resources | None, kept: ResourceAmounts
) -> Nanos:
    """Take the most of what is asked for, in use and promised; an infeasible wish is ignored."""
    if given is None:
        return _read(asked)
    most = {} if resize_is_infeasible(pod) else _read(asked)
    _raise(most, _read(given.requests))
    _raise(most, _read(kept))
    return most


def _limited(pod: Pod, allowed: ResourceAmounts, given: Resources | None) -> Nanos:
    if given is None:
        return _read(allowed)
    most = {} if resize_is_infeasible(pod) else _read(allowed)
    _raise(most, _read(given.limits))
    return most


def resize_is_infeasible(pod: Pod) -> bool:
    """Tell whether the node said that it can never grant the resize asked for."""
    pending = (c for c in pod.status.conditions if c.type == "PodResizePending")
    return next((c.reason == "Infeasible" for c in pending), False)


def _read(amounts: ResourceAmounts) -> Nanos:
    return {name: nanos(text) for name, text in amounts.items()}


def _add(total: Nanos, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: Nanos, other: Mapping[str, int]) -> None:
    """Lift each entry to the other's where that is more."""
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount
