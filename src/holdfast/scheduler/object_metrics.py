"""Metrics of pods and reservations, made from the objects when the page is asked for.

/metrics/resources tells what every pod asks for and may at most use, as upstream does; /metrics
tells of reservations under the reference's names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from holdfast.api.pod import Pod
from holdfast.api.quantity import AmountText, Quantity
from holdfast.api.requests import Nanos, PodResourcesOptions, limit_nanos, request_nanos
from holdfast.api.reservation import PHASES, WAITING, Reservation
from holdfast.errors import BadRequest, HoldfastError

_LABELS = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")
_BYTES = frozenset({"memory", "storage", "ephemeral-storage"})
_BILLION = 1_000_000_000
PHASE = "scheduler_reservation_status_phase"
RESOURCE = "scheduler_reservation_resource"
_PHASE_HELP = (
    "[ALPHA] The current number of reservations in each status phase "
    "(e.g. Pending, Available, Succeeded, Failed)"
)
_RESOURCE_HELP = (
    "Resource metrics for a reservation, including allocatable, allocated, and utilization "
    "with unit."
)
_UNITS = {"cpu": ("core", 1.0), "memory": ("Gi", 2.0**30)}
"""The unit of a resource and how much of it that is; the others are told as they are."""


def resources_page(pods: Iterable[Pod]) -> bytes:
    """Render the page for the pods there are."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_PodResources(pods))
    return generate_latest(registry)


class _PodResources(Collector):
    def __init__(self, pods: Iterable[Pod]) -> None:
        self._pods = pods

    def collect(self) -> Iterator[GaugeMetricFamily]:
        requests = GaugeMetricFamily(
            "kube_pod_resource_request", "What a pod asks for, with its unit.", labels=_LABELS
        )
        limits = GaugeMetricFamily(
            "kube_pod_resource_limit", "What a pod may at most use, with its unit.", labels=_LABELS
        )
        for pod in self._pods:
            if not pod.finished:
                _add(requests, pod, request_nanos)
                _add(limits, pod, _limits)
        yield requests
        yield limits


def _limits(pod: Pod) -> Nanos:
    return limit_nanos(pod, PodResourcesOptions(status=False))


def _add(family: GaugeMetricFamily, pod: Pod, read: Callable[[Pod], Nanos]) -> None:
    try:
        amounts = read(pod)
    except HoldfastError:
        return  # it makes no sense; whoever schedules it says so
    spec = pod.spec
    priority = "" if spec.priority is None else str(spec.priority)
    who = (pod.namespace, pod.name, spec.node_name, spec.scheduler_name, priority)
    for resource, nanos in sorted(amounts.items()):
        if nanos:
            family.add_metric((*who, resource, _unit(resource)), nanos / _BILLION)


def _unit(resource: str) -> str:
    if resource == "cpu":
        return "cores"
    return "bytes" if resource in _BYTES or resource.startswith("hugepages-") else "integer"


class ReservationMetrics(Collector):
    """What a metrics page says of every reservation there is just now."""

    def __init__(self, reservations: Callable[[], Iterable[Reservation]]) -> None:
        self._reservations = reservations

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Name nothing beforehand: there may be no reservations yet."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Tell of each reservation its phase, and of what it holds how much is used."""
        phases = GaugeMetricFamily(PHASE, _PHASE_HELP, labels=["name", "phase"])
        amounts = GaugeMetricFamily(
            RESOURCE, _RESOURCE_HELP, labels=["name", "resource", "type", "unit"]
        )
        for reservation in sorted(self._reservations(), key=lambda r: r.name):
            for phase in sorted(PHASES):
                # The reference knows no Waiting: it is told while it is true.
                if phase != WAITING or reservation.phase == WAITING:
                    phases.add_metric([reservation.name, phase], float(reservation.phase == phase))
            _add_amounts(amounts, reservation)
        yield phases
        yield amounts


def _add_amounts(family: GaugeMetricFamily, reservation: Reservation) -> None:
    status = reservation.status
    for name in sorted(status.allocatable):
        unit, size = _UNITS.get(name, ("raw", 1.0))
        held = _number(status.allocatable[name]) / size
        used = _number(status.allocated.get(name, 0)) / size
        family.add_metric([reservation.name, name, "allocatable", unit], held)
        family.add_metric([reservation.name, name, "allocated", unit], used)
        if held > 0:
            family.add_metric([reservation.name, name, "utilization", "ratio"], used / held)


def _number(amount: AmountText) -> float:
    try:
        return float(Quantity.parse(amount))
    except BadRequest:
        return 0.0
