"""The permanent filters, which exclude pods from migration, and the order of the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.api.decode import convert_object
from holdfast.api.defaults.pods import qos_class as kubernetes_qos_class
from holdfast.api.deletion_cost import parse_deletion_cost
from holdfast.api.koordinator_names import EVICTION_COST
from holdfast.api.koordinator_qos import (
    BATCH,
    BE,
    FREE,
    LS,
    LSE,
    LSR,
    MID,
    PROD,
    SYSTEM,
    priority_class,
    qos_class,
)
from holdfast.api.labels import from_selector
from holdfast.api.meta import LabelSelector
from holdfast.api.pod import Pod
from holdfast.api.timestamps import seconds_of
from holdfast.runtime.settings import MigrationSettings
from holdfast.state.migration.limits import EVICT, Workload, max_of_workload

MAX_EVICTION_COST = 2**31 - 1
SYSTEM_CRITICAL_PRIORITY = 2_000_000_000
_MIRROR, _SOURCE = "kubernetes.io/config.mirror", "kubernetes.io/config.source"


@dataclass(frozen=True, slots=True)
class MigrationCandidate:
    """A pod that is to migrate, and its workload, if it has one."""

    pod: Pod
    workload: Workload | None = None
    has_local_storage: bool = False


def has_local_volumes(raw_pod: Mapping[str, Any]) -> bool:
    """Return whether a raw pod has local storage, which is lost when it moves."""
    volumes = (raw_pod.get("spec") or {}).get("volumes") or ()
    return any("emptyDir" in volume or "hostPath" in volume for volume in volumes)


def is_unscheduled(pod: Pod) -> bool:
    """Return whether a pod waits for a node: it migrates without an eviction."""
    return not pod.spec.node_name and pod.status.phase in ("", "Pending")


def eviction_cost(pod: Pod) -> int:
    """Return the eviction cost of a pod; a malformed one counts as 0.

    >>> eviction_cost(Pod())
    0
    """
    try:
        cost = int(pod.metadata.annotations.get(EVICTION_COST, "0"))
    except ValueError:
        return 0
    return cost if -(2**31) <= cost <= MAX_EVICTION_COST else 0


def find_obstacle(candidate: MigrationCandidate, settings: MigrationSettings) -> str:
    """Return why a pod may never migrate, "" if it may."""
    pod = candidate.pod
    if pod.terminating:
        return "it is terminating"
    if EVICT in pod.metadata.annotations:
        return ""
    return next(_obstacles(candidate, settings), "")


def _obstacles(candidate: MigrationCandidate, settings: MigrationSettings) -> Iterator[str]:
    pod = candidate.pod
    if eviction_cost(pod) == MAX_EVICTION_COST:
        yield f"its annotation {EVICTION_COST} is {MAX_EVICTION_COST}"
    yield from _of_selection(pod, settings)
    yield from _of_owner(pod, settings)
    priority = pod.spec.priority or 0
    if not settings.evict_system_critical_pods:
        if priority >= SYSTEM_CRITICAL_PRIORITY:
            yield f"its priority {priority} is system critical"
        threshold = settings.priority_threshold
        if threshold is not None and priority >= threshold:
            yield f"its priority {priority} is not below the threshold {threshold}"
    if candidate.has_local_storage and not settings.evict_local_storage_pods:
        yield "it has local storage"
    if settings.ignore_pvc_pods and any(v.persistent_volume_claim for v in pod.spec.volumes):
        yield "it has a PersistentVolumeClaim"
    if candidate.workload is not None and not settings.skip_check_expected_replicas:
        yield from _of_replicas(candidate.workload, settings)


def _of_selection(pod: Pod, settings: MigrationSettings) -> Iterator[str]:
    included, excluded = settings.included_namespaces, settings.excluded_namespaces
    if (included and pod.namespace not in included) or pod.namespace in excluded:
        yield f"pods of namespace {pod.namespace} do not migrate"
    if settings.label_selector is not None:
        selector = from_selector(convert_object(dict(settings.label_selector), LabelSelector))
        if not selector.matches(pod.metadata.labels):
            yield "the label selector of the controller does not select it"


def _of_owner(pod: Pod, settings: MigrationSettings) -> Iterator[str]:
    notes, owners = pod.metadata.annotations, pod.metadata.owner_references
    if any(owner.kind == "DaemonSet" for owner in owners):
        yield "it belongs to a DaemonSet"
    if _MIRROR in notes:
        yield "it is a mirror pod"
    if notes.get(_SOURCE, "api") != "api":
        yield "it is a static pod"
    bare_is_allowed = settings.evict_all_bare_pods or (
        settings.evict_failed_bare_pods and pod.status.phase == "Failed"
    )
    if not owners and not bare_is_allowed and not is_unscheduled(pod):
        yield "it is a bare pod, which no controller creates again"


def _of_replicas(workload: Workload, settings: MigrationSettings) -> Iterator[str]:
    replicas = workload.replicas
    if replicas == 1:
        yield "its workload has 1 replica"
        return
    for limit, name in (
        (settings.max_per_workload, "maxMigratingPerWorkload"),
        (settings.max_unavailable_per_workload, "maxUnavailablePerWorkload"),
    ):
        if max_of_workload(replicas, limit) == replicas:
            yield f"its workload has {replicas} replicas, as many as {name}"


_PRIORITY_CLASSES = {FREE: 1, BATCH: 2, MID: 3, PROD: 4, "": 5}
_KUBERNETES_QOS = {"BestEffort": 1, "Burstable": 2, "Guaranteed": 3}
_QOS = {BE: 1, LS: 2, LSR: 3, LSE: 4, SYSTEM: 4, "": 5}
_DEFAULT_QOS = {"BestEffort": BE, "Burstable": LS, "Guaranteed": LSR}


def pod_rank(pod: Pod) -> tuple[float, ...]:
    """Return the sort key of a pod; the pod with the lower key migrates first."""
    spec, labels = pod.spec, pod.metadata.labels
    kubernetes = kubernetes_qos_class(msgspec.json.decode(msgspec.json.encode(spec)))
    priority = priority_class(labels, spec.priority, kubernetes)
    return (
        _PRIORITY_CLASSES[priority],
        spec.priority or 0,
        _KUBERNETES_QOS[kubernetes],
        _QOS[qos_class(labels) or _DEFAULT_QOS[kubernetes]],
        parse_deletion_cost(pod.metadata.annotations) or 0,
        eviction_cost(pod),
        -(seconds_of(pod.metadata.creation_timestamp) or 0.0),
    )
