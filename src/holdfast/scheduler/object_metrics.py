"""/metrics/resources: what every pod asks for and may at most use, as upstream tells it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from holdfast.api.pod import Container, Pod
from holdfast.api.requests import request_nanos
from holdfast.errors import HoldfastError

_LABELS = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")
_BYTES = frozenset({"memory", "storage", "ephemeral-storage"})
_BILLION = 1_000_000_000


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
                _add(requests, pod, pod)
                _add(limits, pod, _by_limits(pod))
        yield requests
        yield limits


def _add(family: GaugeMetricFamily, pod: Pod, asking: Pod) -> None:
    try:
        amounts = request_nanos(asking)
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


def _by_limits(pod: Pod) -> Pod:
    """The same pod asking for its limits."""
    spec = pod.spec
    own = spec.resources
    changed = msgspec.structs.replace(
        spec,
        containers=tuple(map(_limited, spec.containers)),
        init_containers=tuple(map(_limited, spec.init_containers)),
        resources=own and msgspec.structs.replace(own, requests=own.limits),
    )
    return msgspec.structs.replace(pod, spec=changed, status=type(pod.status)())


def _limited(container: Container) -> Container:
    resources = container.resources
    asked = msgspec.structs.replace(resources, requests=resources.limits)
    return msgspec.structs.replace(container, resources=asked)
