"""Read a pod as the scheduler needs it; versions of a placed pod with equal specs share it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

import msgspec

from holdfast.api.pod import (
    Affinity,
    Container,
    Pod,
    PodResourceClaim,
    PodSpec,
    ResourceRequirements,
    Volume,
)
from holdfast.api.requests import pod_request, request_nanos, round_up_nanos
from holdfast.api.validation.list_limits import POD_SPEC_TREE, first_excess, resource_excess
from holdfast.state.columns.affinity_terms import NO_TERMS, AffinityTerms, read_affinity_terms
from holdfast.state.columns.amounts import MAX_AMOUNT, RequestedAmounts
from holdfast.state.columns.interner import PODS, ResourceNames
from holdfast.state.columns.mounts import Mounts, mounts_of
from holdfast.state.columns.ports import ANY_ADDRESS, HostPort

_encode = msgspec.json.Encoder().encode  # MessagePack has no integers beyond 64 bits
_MAX_SPECS = 10_000
_NO_RESOURCES = ResourceRequirements()
_SMALL_SPEC_BYTES = 4096
"""The entries of lists are counted only in specs of more bytes."""


class _SpecInfo(NamedTuple):
    request: RequestedAmounts
    nonzero_millicores: int
    nonzero_bytes: int
    host_ports: frozenset[HostPort]
    mounts: Mounts
    spec_key: bytes
    """Shared by all pods of that spec."""
    spec_key_without_requests: bytes
    terms: dict[str, AffinityTerms] | None
    """Affinity terms by the pod's namespace, which a term without namespaces selects."""
    excess: str


# Values of the API refer to nothing but values, so no reference cycle contains a PodInfo.
class PodInfo(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One version of a pod, as plugins read it.

    ``request`` has resource ids (cpu in millicores, others in units, rounded up). ``mounts`` are
    claims and disks. ``spec_key`` is the part of the spec that matters to scheduling, as bytes and
    without the node's name: pods with equal keys need the same. ``spec_key_without_requests``
    leaves out resource requests too. ``is_reserve_pod``: not a pod object, but the template of a
    reservation with the reservation's name and uid. ``excess`` names a list of the spec that has
    too many entries; such a pod is not scheduled.
    """

    pod: Pod
    uid: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    priority: int
    scheduler_name: str
    request: RequestedAmounts
    nonzero_millicores: int
    nonzero_bytes: int
    host_ports: frozenset[HostPort]
    mounts: Mounts
    terminating: bool
    spec_key: bytes
    spec_key_without_requests: bytes = b""
    affinity_terms: AffinityTerms = NO_TERMS
    is_reserve_pod: bool = False
    excess: str = ""

    @classmethod
    def of(cls, pod: Pod, resources: ResourceNames, *, is_reserve_pod: bool = False) -> PodInfo:
        """Read a pod; without a uid, namespace and name identify it."""
        meta, spec = pod.metadata, pod.spec
        spec_info = _read_spec(pod, resources, _spec_key(pod))
        request = _with_slots(spec_info.request, pod) if is_reserve_pod else spec_info.request
        return cls(
            pod=pod, uid=meta.uid or f"{meta.namespace}/{meta.name}", namespace=meta.namespace,
            name=meta.name, labels=meta.labels, priority=spec.priority or 0,
            scheduler_name=spec.scheduler_name or "default-scheduler", request=request,
            nonzero_millicores=spec_info.nonzero_millicores, nonzero_bytes=spec_info.nonzero_bytes,
            host_ports=spec_info.host_ports, mounts=spec_info.mounts,
            terminating=meta.deletion_timestamp is not None, spec_key=spec_info.spec_key,
            spec_key_without_requests=spec_info.spec_key_without_requests,
            affinity_terms=_terms(spec_info, pod), is_reserve_pod=is_reserve_pod,
            excess=spec_info.excess,
        )  # fmt: skip

    def for_version(self, pod: Pod) -> PodInfo | None:
        """Return the information for another version of this pod, or None if it must be read again.

        Only labels and termination are taken from that version. So the specs must be equal but for
        the node's name, and neither version may be resized. The watch sends every pod that was
        bound here with the spec that was assumed. Reading it again was a part of the 37 µs that the
        events of a pod took; now they take 29.
        """
        meta, spec, known = pod.metadata, pod.spec, self.pod.spec
        if spec.node_name != known.node_name:
            spec = msgspec.structs.replace(spec, node_name=known.node_name)
        if spec != known or self.is_reserve_pod or _was_resized(pod) or _was_resized(self.pod):
            return None
        terminating = meta.deletion_timestamp is not None
        return msgspec.structs.replace(self, pod=pod, labels=meta.labels, terminating=terminating)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def pod_slots(self) -> int:
        """Pod slots needed in addition to the request; a reserve pod may request its slots."""
        return 0 if self.is_reserve_pod and any(r == PODS for r, _ in self.request) else 1

    def start_time_or(self, now: float) -> float:
        """Return the start time, or ``now`` if the pod has not started."""
        began = self.start_time
        return now if began == math.inf else began

    @property
    def start_time(self) -> float:
        """When the pod started, infinity if it has not."""
        began = self.pod.status.start_time
        return math.inf if began is None else _seconds(began)

    def is_equivalent_to(self, other: PodInfo) -> bool:
        """Return whether requests, ports, priority, terms and termination are equal."""
        return (
            self.request == other.request
            and self.nonzero_millicores == other.nonzero_millicores
            and self.nonzero_bytes == other.nonzero_bytes
            and self.host_ports == other.host_ports
            and self.terminating == other.terminating
            and self.priority == other.priority
            and (
                self.affinity_terms is other.affinity_terms
                or self.pod.spec.affinity == other.pod.spec.affinity
            )
        )


def start_times(pods: Sequence[PodInfo]) -> list[float]:
    """Return the start times of many pods; each distinct text is parsed once."""
    texts = [pod.pod.status.start_time for pod in pods]
    seconds = {text: math.inf if text is None else _seconds(text) for text in set(texts)}
    return [seconds[text] for text in texts]


@lru_cache(65536)
def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _with_slots(request: RequestedAmounts, pod: Pod) -> RequestedAmounts:
    """Add the pod slots a reservation requests; such a request of a pod is ignored."""
    pod_slots = round_up_nanos("pods", request_nanos(pod).get("pods", 0))
    return tuple(sorted((*request, (PODS, pod_slots)))) if pod_slots > 0 else request


def _spec_key(pod: Pod) -> bytes:
    """Return the spec as bytes, without the node's name and what does not matter to scheduling.

    So pods of one workload have one key, whichever node they are on.
    """
    spec = pod.spec
    volumes = _deciding_volumes(spec)
    if (
        spec.node_name
        or len(volumes) < len(spec.volumes)
        or spec.resource_claims
        or spec.scheduling_group is not None
        or spec.workload_ref is not None
    ):
        spec = _with_what_decides(spec, volumes)
    return _encode(spec) + _identity(pod, volumes)


def _spec_key_without_requests(pod: Pod) -> bytes:
    """Return the same without resource requests."""
    spec = pod.spec
    volumes = _deciding_volumes(spec)
    bare = msgspec.structs.replace(
        _with_what_decides(spec, volumes),
        containers=_without_amounts(spec.containers),
        init_containers=_without_amounts(spec.init_containers),
        resources=None,
        overhead={},
    )
    return _encode(bare) + _identity(pod, volumes)


def _with_what_decides(spec: PodSpec, volumes: tuple[Volume, ...]) -> PodSpec:
    """Return the spec with these volumes, without the fields that scheduling does not read."""
    return msgspec.structs.replace(
        spec, node_name="", volumes=volumes, resource_claims=_without_claim_names(spec),
        scheduling_group=None, workload_ref=None,
    )  # fmt: skip


def _without_amounts(containers: tuple[Container, ...]) -> tuple[Container, ...]:
    return tuple([msgspec.structs.replace(c, resources=_NO_RESOURCES) for c in containers])


def _identity(pod: Pod, volumes: tuple[Volume, ...]) -> bytes:
    """Return which pod it is if that matters: an ephemeral volume's claim belongs to one pod."""
    if volumes and any([volume.ephemeral is not None for volume in volumes]):
        return f"{pod.namespace}/{pod.name}/{pod.uid}".encode()
    return b""


def _deciding_volumes(spec: PodSpec) -> tuple[Volume, ...]:
    """Leave out volumes of which only the name is read.

    Kubernetes adds a volume for the service account token with a unique name to every pod; with it,
    no two pods would be of one class.
    """
    if not spec.volumes:
        return ()
    return tuple([volume for volume in spec.volumes if volume != Volume(name=volume.name)])


def _without_claim_names(spec: PodSpec) -> tuple[PodResourceClaim, ...]:
    """Leave out which claims a pod uses: that is read for every pod, and differs from pod to pod.

    With the names, pods with a separate claim each would make a class each.
    """
    return tuple([PodResourceClaim(name=entry.name) for entry in spec.resource_claims])


def _read_spec(pod: Pod, resources: ResourceNames, spec_key: bytes) -> _SpecInfo:
    """Read what the spec needs, or return what an equal spec needed."""
    if _was_resized(pod):
        return _compute(pod, resources, spec_key)
    spec_info: _SpecInfo | None = resources.spec_cache.get(spec_key)
    if spec_info is None:
        if len(resources.spec_cache) >= _MAX_SPECS:
            resources.spec_cache.clear()
            resources.terms_cache.clear()
        spec_info = resources.spec_cache[spec_key] = _compute(pod, resources, spec_key)
    return spec_info


def _was_resized(pod: Pod) -> bool:
    """Return whether the status may contain other requests than the spec.

    Kubelets copy the requests into the status of every running pod; the effective request must be
    computed only if that differs from the spec.
    """
    spec, status = pod.spec, pod.status
    if spec.resources is not None and (status.resources is not None or status.allocated_resources):
        return True
    for statuses, containers in (
        (status.container_statuses, spec.containers),
        (status.init_container_statuses, spec.init_containers),
    ):
        if not statuses:
            continue
        requests_by_name = {c.name: c.resources.requests for c in reversed(containers)}
        for status_of_container in statuses:
            if status_of_container.resources is None:
                continue
            requested = requests_by_name.get(status_of_container.name)
            allocated = status_of_container.allocated_resources
            if (
                requested is None
                or status_of_container.resources.requests != requested
                or (allocated and allocated != requested)
            ):
                return True
    return False


def _compute(pod: Pod, resources: ResourceNames, spec_key: bytes) -> _SpecInfo:
    requested = pod_request(pod)
    excess = _excess(pod, requested.amounts) if len(spec_key) > _SMALL_SPEC_BYTES else ""
    # Such a pod is not scheduled; if it is bound already, unknown resources are left out.
    number = resources.find if excess else resources.id_requested
    request: Counter[int] = Counter()
    for name, amount in requested.amounts.items():
        if amount > 0 and (id_ := number(name)) >= 0:
            request[id_] += min(amount, MAX_AMOUNT + 1)
    spec_key_without_requests = _spec_key_without_requests(pod)
    terms = (
        None
        if _has_no_pod_affinity(pod.spec.affinity)
        else resources.terms_cache.setdefault(spec_key_without_requests, {})
    )
    return _SpecInfo(
        tuple(sorted(request.items())), requested.nonzero_millicores, requested.nonzero_bytes,
        host_ports(pod), mounts_of(pod), spec_key, spec_key_without_requests, terms, excess,
    )  # fmt: skip


def _excess(pod: Pod, amounts: Mapping[str, int]) -> str:
    return first_excess(POD_SPEC_TREE, pod) or resource_excess(amounts)


def _has_no_pod_affinity(affinity: Affinity | None) -> bool:
    return affinity is None or not (affinity.pod_affinity or affinity.pod_anti_affinity)


def _terms(spec_info: _SpecInfo, pod: Pod) -> AffinityTerms:
    if spec_info.terms is None:
        return NO_TERMS
    namespace = pod.metadata.namespace
    terms = spec_info.terms.get(namespace)
    if terms is None:
        terms = spec_info.terms[namespace] = read_affinity_terms(pod.spec.affinity, namespace)
    return terms


def host_ports(pod: Pod) -> frozenset[HostPort]:
    """Return the host ports of containers and sidecars; other init containers have ended."""
    sidecars = (c for c in pod.spec.init_containers if c.restart_policy == "Always")
    return frozenset(
        (port.protocol or "TCP", port.host_port, port.host_ip or ANY_ADDRESS)
        for container in (*pod.spec.containers, *sidecars)
        for port in container.ports
        if port.host_port > 0
    )


def sum_of(pods: Iterable[PodInfo]) -> Counter[int]:
    """Return the requests of pods together by resource id, including pod slots."""
    total: Counter[int] = Counter()
    for pod in pods:
        total[PODS] += pod.pod_slots
        for resource, amount in pod.request:
            total[resource] += amount
    return total
