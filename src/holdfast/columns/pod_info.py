"""What the scheduler reads of a pod, digested once per version of the pod."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

import msgspec

from holdfast.api.pod import Affinity, Container, Pod, PodSpec, Resources, Volume
from holdfast.api.requests import pod_request, request_nanos, round_up_nanos
from holdfast.columns.amounts import MOST, RequestedAmounts
from holdfast.columns.interner import PODS, ResourceNames
from holdfast.columns.mounts import Mounts, mounts_of
from holdfast.columns.ports import ANY_ADDRESS, HostPort
from holdfast.columns.terms import NO_TERMS, PodTerms, read_terms
from holdfast.validation.list_limits import POD_SPEC_TREE, first_excess, resource_excess

_encode = msgspec.json.Encoder().encode  # MessagePack has no integers beyond 64 bits
_MOST_DIGESTS = 10_000
_NOTHING = Resources()
_SMALL = 4096
"""Lists are counted in specs of more bytes; those of smaller ones cannot be long."""


class _Digest(NamedTuple):
    request: RequestedAmounts
    nonzero_millicores: int
    nonzero_bytes: int
    host_ports: frozenset[HostPort]
    mounts: Mounts
    shape: bytes
    """One copy of the bytes for all pods of that spec."""
    frame: bytes
    terms: dict[str, PodTerms] | None
    """Pod affinity by the pod's namespace, which a term may mean without naming it."""
    excess: str


@dataclass(frozen=True, slots=True, eq=False)
class PodInfo:
    """A pod in the scheduler's terms; two versions of a pod are two facts.

    ``request`` is in resource ids (cpu in millicores, others in units, rounded up). ``mounts`` are
    its claims and disks. ``shape`` is what of the spec can matter, as bytes, but for the node it
    names: pods of equal shape ask for the same things. ``frame`` is the same without what the pod
    asks for. ``stands_in``: it is no real pod but stands for a reservation, whose name and uid it
    has. ``excess`` names a list of the spec that has too many entries; such a pod is not placed.
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
    shape: bytes
    frame: bytes = b""
    terms: PodTerms = NO_TERMS
    stands_in: bool = False
    excess: str = ""

    @classmethod
    def of(cls, pod: Pod, resources: ResourceNames, *, stands_in: bool = False) -> PodInfo:
        """Digest a pod; one without a uid goes by its namespace and name."""
        meta, spec = pod.metadata, pod.spec
        digest = _digest(pod, resources, _shape(pod))
        request = _with_slots(digest.request, pod) if stands_in else digest.request
        return cls(
            pod=pod, uid=meta.uid or f"{meta.namespace}/{meta.name}", namespace=meta.namespace,
            name=meta.name, labels=meta.labels, priority=spec.priority or 0,
            scheduler_name=spec.scheduler_name or "default-scheduler", request=request,
            nonzero_millicores=digest.nonzero_millicores, nonzero_bytes=digest.nonzero_bytes,
            host_ports=digest.host_ports, mounts=digest.mounts,
            terminating=meta.deletion_timestamp is not None, shape=digest.shape,
            frame=digest.frame, terms=_terms(digest, pod), stands_in=stands_in,
            excess=digest.excess,
        )  # fmt: skip

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def slots(self) -> int:
        """Pod slots it takes besides what it requests of them, as a reserve pod may."""
        return 0 if self.stands_in and any(r == PODS for r, _ in self.request) else 1

    def started(self, now: float) -> float:
        """When the pod started; one that has not counts as starting now."""
        began = self.began
        return now if began == math.inf else began

    @property
    def began(self) -> float:
        """When the pod started, infinity if it has not."""
        began = self.pod.status.start_time
        return math.inf if began is None else _moment(began)

    def weighs_like(self, other: PodInfo) -> bool:
        """Tell whether the two are of the same weight: same room, ports, priority, terms."""
        return (
            self.request == other.request
            and self.nonzero_millicores == other.nonzero_millicores
            and self.nonzero_bytes == other.nonzero_bytes
            and self.host_ports == other.host_ports
            and self.terminating == other.terminating
            and self.priority == other.priority
            and (self.terms is other.terms or self.pod.spec.affinity == other.pod.spec.affinity)
        )


def beginnings(pods: Sequence[PodInfo]) -> list[float]:
    """When each of many pods started; many do at the same second."""
    texts = [pod.pod.status.start_time for pod in pods]
    moments = {text: math.inf if text is None else _moment(text) for text in set(texts)}
    return [moments[text] for text in texts]


@lru_cache(65536)
def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _with_slots(request: RequestedAmounts, pod: Pod) -> RequestedAmounts:
    """Add the pod slots a reservation asks for; of a real pod such a request counts nothing."""
    slots = round_up_nanos("pods", request_nanos(pod).get("pods", 0))
    return tuple(sorted((*request, (PODS, slots)))) if slots > 0 else request


def _shape(pod: Pod) -> bytes:
    """The spec as bytes, without what decides nothing and without the node it is on.

    Pods of a workload then are of one shape wherever they stand.
    """
    spec = pod.spec
    volumes = _deciding_volumes(spec)
    if spec.node_name or len(volumes) < len(spec.volumes):
        spec = msgspec.structs.replace(spec, node_name="", volumes=volumes)
    return _encode(spec) + _identity(pod, volumes)


def _frame(pod: Pod) -> bytes:
    """The same without what the pod asks for."""
    spec = pod.spec
    volumes = _deciding_volumes(spec)
    bare = msgspec.structs.replace(
        spec,
        node_name="",
        volumes=volumes,
        containers=_without_amounts(spec.containers),
        init_containers=_without_amounts(spec.init_containers),
        resources=None,
        overhead={},
    )
    return _encode(bare) + _identity(pod, volumes)


def _without_amounts(containers: tuple[Container, ...]) -> tuple[Container, ...]:
    return tuple([msgspec.structs.replace(c, resources=_NOTHING) for c in containers])


def _identity(pod: Pod, volumes: tuple[Volume, ...]) -> bytes:
    """Which pod it is, if that matters: the claim behind an ephemeral volume is the pod's own."""
    if volumes and any([volume.ephemeral is not None for volume in volumes]):
        return f"{pod.namespace}/{pod.name}/{pod.uid}".encode()
    return b""


def _deciding_volumes(spec: PodSpec) -> tuple[Volume, ...]:
    """Leave out volumes of which we read nothing but a name.

    Kubernetes gives every pod a volume for its token, under a name of its own: with it no two
    pods would be of one class.
    """
    if not spec.volumes:
        return ()
    return tuple([volume for volume in spec.volumes if volume != Volume(name=volume.name)])


def _digest(pod: Pod, resources: ResourceNames, shape: bytes) -> _Digest:
    """Work out what the spec asks for, or remember it from an equal one."""
    if _was_resized(pod):
        return _work_out(pod, resources, shape)
    digest: _Digest | None = resources.digests.get(shape)
    if digest is None:
        if len(resources.digests) >= _MOST_DIGESTS:
            resources.digests.clear()
            resources.terms.clear()
        digest = resources.digests[shape] = _work_out(pod, resources, shape)
    return digest


def _was_resized(pod: Pod) -> bool:
    """Tell whether the status may say something else about requests than the spec.

    Kubelets repeat in the status of every running pod what it was given; only where that is not
    what it asks for, or not in the same words, it must be worked out.
    """
    spec, status = pod.spec, pod.status
    if spec.resources is not None and (status.resources is not None or status.allocated_resources):
        return True
    for statuses, containers in (
        (status.container_statuses, spec.containers),
        (status.init_container_statuses, spec.init_containers),
    ):
        asked_by = {c.name: c.resources.requests for c in reversed(containers)} if statuses else {}
        for told in statuses:
            if told.resources is None:
                continue
            asked = asked_by.get(told.name)
            kept = told.allocated_resources
            if asked is None or told.resources.requests != asked or (kept and kept != asked):
                return True
    return False


def _work_out(pod: Pod, resources: ResourceNames, shape: bytes) -> _Digest:
    asked = pod_request(pod)
    excess = _excess(pod, asked.amounts) if len(shape) > _SMALL else ""
    # Such a pod is not placed by us; where it stands already, resources of no node are left out.
    number = resources.find if excess else resources.id
    request = sorted(
        (id_, min(amount, MOST + 1))
        for name, amount in asked.amounts.items()
        if amount > 0 and (id_ := number(name)) >= 0
    )
    frame = _frame(pod)
    terms = None if _unattached(pod.spec.affinity) else resources.terms.setdefault(frame, {})
    return _Digest(
        tuple(request), asked.nonzero_millicores, asked.nonzero_bytes, _host_ports(pod),
        mounts_of(pod), shape, frame, terms, excess,
    )  # fmt: skip


def _excess(pod: Pod, amounts: Mapping[str, int]) -> str:
    return first_excess(POD_SPEC_TREE, pod) or resource_excess(amounts)


def _unattached(affinity: Affinity | None) -> bool:
    return affinity is None or not (affinity.pod_affinity or affinity.pod_anti_affinity)


def _terms(digest: _Digest, pod: Pod) -> PodTerms:
    if digest.terms is None:
        return NO_TERMS
    namespace = pod.metadata.namespace
    found = digest.terms.get(namespace)
    if found is None:
        found = digest.terms[namespace] = read_terms(pod.spec.affinity, namespace)
    return found


def _host_ports(pod: Pod) -> frozenset[HostPort]:
    """Ports taken on the node by containers and sidecars; ordinary init containers are gone."""
    sidecars = (c for c in pod.spec.init_containers if c.restart_policy == "Always")
    return frozenset(
        (port.protocol or "TCP", port.host_port, port.host_ip or ANY_ADDRESS)
        for container in (*pod.spec.containers, *sidecars)
        for port in container.ports
        if port.host_port > 0
    )


def sum_of(pods: Iterable[PodInfo]) -> Counter[int]:
    """What pods take together, by resource id; pod slots among them."""
    total: Counter[int] = Counter()
    for pod in pods:
        total[PODS] += pod.slots
        for resource, amount in pod.request:
            total[resource] += amount
    return total
