"""Metrics of pods, reservations and resource policies, computed when a page is requested.

/metrics/resources lists the requests and limits of every pod, as upstream does; /metrics lists
reservations under Koordinator's metric names, and the units of resource policies.
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
from holdfast.runtime.errors import BadRequest, HoldfastError
from holdfast.scheduling.framework.world import World
from holdfast.state.resource_policies.unit_headroom import UnitHeadrooms

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
UNIT_PODS = "holdfast_resource_policy_pods"
UNIT_MAX_PODS = "holdfast_resource_policy_max_pods"
UNIT_HEADROOM = "holdfast_resource_policy_headroom"
UNIT_RESOURCE_HEADROOM = "holdfast_resource_policy_resource_headroom"
_UNIT_LABELS = ("namespace", "policy", "unit")
_UNITS = {"cpu": ("core", 1.0), "memory": ("Gi", 2.0**30)}
"""Unit of a resource and its size in base units; other resources are listed in base units."""


def resources_page(pods: Iterable[Pod]) -> bytes:
    """Render /metrics/resources for these pods."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_PodResources(pods))
    return generate_latest(registry)


class _PodResources(Collector):
    def __init__(self, pods: Iterable[Pod]) -> None:
        self._pods = pods

    def collect(self) -> Iterator[GaugeMetricFamily]:
        requests = GaugeMetricFamily(
            "kube_pod_resource_request", "Requests of a pod, with their unit.", labels=_LABELS
        )
        limits = GaugeMetricFamily(
            "kube_pod_resource_limit", "Limits of a pod, with their unit.", labels=_LABELS
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
        return  # a pod with an invalid amount is left out; the scheduler reports it
    spec = pod.spec
    priority = "" if spec.priority is None else str(spec.priority)
    pod_labels = (pod.namespace, pod.name, spec.node_name, spec.scheduler_name, priority)
    for resource, nanos in sorted(amounts.items()):
        if nanos:
            family.add_metric((*pod_labels, resource, _unit(resource)), nanos / _BILLION)


def _unit(resource: str) -> str:
    if resource == "cpu":
        return "cores"
    return "bytes" if resource in _BYTES or resource.startswith("hugepages-") else "integer"


class ReservationMetrics(Collector):
    """Collects the phase and the amounts of every reservation when /metrics is requested."""

    def __init__(self, reservations: Callable[[], Iterable[Reservation]]) -> None:
        self._reservations = reservations

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return no metrics in advance: there may be no reservations yet."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the phase and, for each resource, the allocatable and allocated amounts."""
        phases = GaugeMetricFamily(PHASE, _PHASE_HELP, labels=["name", "phase"])
        amounts = GaugeMetricFamily(
            RESOURCE, _RESOURCE_HELP, labels=["name", "resource", "type", "unit"]
        )
        for reservation in sorted(self._reservations(), key=lambda r: r.name):
            for phase in sorted(PHASES):
                # Koordinator has no phase Waiting: list it only for reservations that are in it.
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


class PolicyMetrics(Collector):
    """Collects the pods and the headroom of every unit of a resource policy.

    A unit without ``maxCount`` has no maximum and no headroom: the series are left out.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._headrooms = UnitHeadrooms(world.nodes)

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return no metrics in advance: there may be no policies yet."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the counted pods, the maximum and what is left of each unit."""
        pods = GaugeMetricFamily(
            UNIT_PODS, "Pods that count in a unit of a ResourcePolicy.", labels=_UNIT_LABELS
        )
        most = GaugeMetricFamily(
            UNIT_MAX_PODS, "maxCount of a unit of a ResourcePolicy.", labels=_UNIT_LABELS
        )
        left = GaugeMetricFamily(
            UNIT_HEADROOM,
            "Pods that maxCount of a unit of a ResourcePolicy still allows; with matchLabelKeys "
            "for the group of pods with the least.",
            labels=_UNIT_LABELS,
        )
        resources_left = GaugeMetricFamily(
            UNIT_RESOURCE_HEADROOM,
            "Requests that maxResources of a unit of a ResourcePolicy still allow, cpu in cores; "
            "with matchLabelKeys for the group of pods with the least.",
            labels=(*_UNIT_LABELS, "resource"),
        )
        for policy, units in self._headrooms.of(self._world.policies):
            for headroom in units:
                labels = (policy.object.namespace, policy.object.name, headroom.unit.name)
                pods.add_metric(labels, headroom.pods)
                if headroom.unit.max_count is not None and headroom.pods_left is not None:
                    most.add_metric(labels, headroom.unit.max_count)
                    left.add_metric(labels, headroom.pods_left)
                for resource, amount in sorted(headroom.resources_left.items()):
                    size = 1000.0 if resource == "cpu" else 1.0
                    resources_left.add_metric((*labels, resource), amount / size)
        yield from (pods, most, left, resources_left)


def _number(amount: AmountText) -> float:
    try:
        return float(Quantity.parse(amount))
    except BadRequest:
        return 0.0
