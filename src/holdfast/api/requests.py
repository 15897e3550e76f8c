"""Resource requests and limits of pods.

Requests of containers are summed up. Init containers run one after the other before them, so the
largest request counts if it exceeds that sum; a sidecar keeps running and counts in both. Pod-level
requests replace the sum, and overhead is added. A pod that is being resized in place also counts
the resources in its status.

Amounts are added in nanos, as exact integers, and rounded up once at the end: two containers of
half a millicore request one millicore, not two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from holdfast.api.pod import Container, ContainerStatus, Pod, ResourceAmounts, ResourceRequirements
from holdfast.api.quantity import BINARY_SI, DECIMAL_SI, MAX_INT64, NANO, AmountText, Quantity
from holdfast.api.resource_names import CPU, MEMORY, is_counted, is_pod_level

DEFAULT_MILLICORES = 100
DEFAULT_BYTES = 200 * 1024 * 1024

Nanos = dict[str, int]
_DEFAULTS: Nanos = {CPU: DEFAULT_MILLICORES * 10**6, MEMORY: DEFAULT_BYTES * 10**9}


@lru_cache(maxsize=65536)
def nanos(text: AmountText) -> int:
    """Parse a quantity into billionths, exactly."""
    return Quantity.parse(text).scaled(NANO)


def nanos_text(name: str, amount: int) -> str:
    """Write an amount in nanos as a quantity.

    >>> nanos_text("cpu", 15 * 10**8), nanos_text("memory", 2**31 * 10**9)
    ('1500m', '2Gi')
    """
    return str(Quantity(amount, NANO, DECIMAL_SI if name == CPU else BINARY_SI))


@dataclass(frozen=True, slots=True)
class PodResourcesOptions:
    """Options for the parts of a pod that count.

    ``status``: the resources of a resize that is not complete; only pods on a node have them.
    ``missing``: default requests, in nanos, of containers without one; a request of 0 stays.
    """

    status: bool = True
    pod_level: bool = True
    overhead: bool = True
    missing: Mapping[str, int] = field(default_factory=dict)


AS_SCHEDULED = PodResourcesOptions()


@dataclass(frozen=True, slots=True)
class PodRequest:
    """A pod's request as the scheduler counts it: cpu in millicores, the rest in whole units.

    The non-zero pair is for scoring: containers without cpu or memory requests count with default
    requests.
    """

    amounts: Mapping[str, int]
    nonzero_millicores: int
    nonzero_bytes: int


def pod_request(pod: Pod, options: PodResourcesOptions = AS_SCHEDULED) -> PodRequest:
    """Return a pod's request, with only the resources that the scheduler counts."""
    real = nonzero = request_nanos(pod, options)
    if not _requests_cpu_and_memory(pod):
        whole_pod = options.pod_level and has_pod_level_requests(pod)
        missing = {k: v for k, v in _DEFAULTS.items() if not (whole_pod and k in real)}
        nonzero = request_nanos(pod, replace(options, missing=missing))
    return PodRequest(
        {name: round_up_nanos(name, amount) for name, amount in real.items() if is_counted(name)},
        round_up_nanos(CPU, nonzero.get(CPU, 0)),
        round_up_nanos(MEMORY, nonzero.get(MEMORY, 0)),
    )


def _requests_cpu_and_memory(pod: Pod) -> bool:
    """Return whether every container requests cpu and memory, so that no default applies."""
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        if CPU not in container.resources.requests or MEMORY not in container.resources.requests:
            return False
    return not resize_is_infeasible(pod)


def round_up_nanos(name: str, amount: int) -> int:
    """Round nanos up to millicores (cpu) or whole units (all else), capped to int64."""
    return min(-(-amount // (10**6 if name == CPU else 10**9)), MAX_INT64)


def has_pod_level_requests(pod: Pod) -> bool:
    """Return whether the pod has pod-level requests of supported resources."""
    own = pod.spec.resources
    return own is not None and any(map(is_pod_level, own.requests))


def request_nanos(pod: Pod, options: PodResourcesOptions = AS_SCHEDULED) -> Nanos:
    """Return the exact request of a pod in nanos, with every resource it names."""
    total = container_request_nanos(pod, options)
    own = pod.spec.resources
    if options.pod_level and own is not None:
        actual, allocated = _pod_status(pod, options)
        effective = _effective_request(pod, own.requests, actual, allocated)
        total |= {name: effective.get(name, 0) for name in own.requests if is_pod_level(name)}
    if options.overhead and pod.spec.overhead:
        _add(total, _read(pod.spec.overhead))
    return total


def limit_nanos(pod: Pod, options: PodResourcesOptions = AS_SCHEDULED) -> Nanos:
    """Return the exact limit of a pod in nanos; overhead is added only where there is a limit."""
    total = container_limit_nanos(pod, options)
    own = pod.spec.resources
    if options.pod_level and own is not None:
        actual, _ = _pod_status(pod, options)
        effective = _effective_limit(pod, own.limits, actual)
        total |= {name: effective.get(name, 0) for name in own.limits if is_pod_level(name)}
    if options.overhead:
        _add(total, {k: v for k, v in _read(pod.spec.overhead).items() if total.get(k)})
    return total


def container_request_nanos(pod: Pod, options: PodResourcesOptions = AS_SCHEDULED) -> Nanos:
    """Return the request of all containers of a pod in nanos."""

    def requested(container: Container, status: ContainerStatus | None) -> Nanos:
        actual, allocated = (status.resources, status.allocated_resources) if status else (None, {})
        request = _effective_request(pod, container.resources.requests, actual, allocated)
        return {**options.missing, **request} if options.missing else request

    return _aggregate(pod, requested, options)


def container_limit_nanos(pod: Pod, options: PodResourcesOptions = AS_SCHEDULED) -> Nanos:
    """Return the limit of all containers of a pod in nanos."""

    def allowed(container: Container, status: ContainerStatus | None) -> Nanos:
        return _effective_limit(
            pod, container.resources.limits, status.resources if status else None
        )

    return _aggregate(pod, allowed, options)


def _aggregate(
    pod: Pod,
    part: Callable[[Container, ContainerStatus | None], Nanos],
    options: PodResourcesOptions,
) -> Nanos:
    statuses = _statuses(pod) if options.status else {}
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


def _pod_status(
    pod: Pod, options: PodResourcesOptions
) -> tuple[ResourceRequirements | None, ResourceAmounts]:
    return (pod.status.resources, pod.status.allocated_resources) if options.status else (None, {})


def _effective_request(
    pod: Pod,
    requested: ResourceAmounts,
    actual: ResourceRequirements | None,
    allocated: ResourceAmounts,
) -> Nanos:
    """Return the maximum of requested, actual and allocated; an infeasible request is ignored."""
    if actual is None:
        return _read(requested)
    most = {} if resize_is_infeasible(pod) else _read(requested)
    _raise(most, _read(actual.requests))
    _raise(most, _read(allocated))
    return most


def _effective_limit(
    pod: Pod, allowed: ResourceAmounts, actual: ResourceRequirements | None
) -> Nanos:
    if actual is None:
        return _read(allowed)
    most = {} if resize_is_infeasible(pod) else _read(allowed)
    _raise(most, _read(actual.limits))
    return most


def resize_is_infeasible(pod: Pod) -> bool:
    """Return whether the node reported the pending resize as infeasible."""
    pending = (c for c in pod.status.conditions if c.type == "PodResizePending")
    return next((c.reason == "Infeasible" for c in pending), False)


def _read(amounts: ResourceAmounts) -> Nanos:
    return {name: nanos(text) for name, text in amounts.items()}


def _add(total: Nanos, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: Nanos, other: Mapping[str, int]) -> None:
    """Set each entry to the larger one of the two mappings."""
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount
