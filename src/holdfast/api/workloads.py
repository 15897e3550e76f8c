"""Namespaces, workloads, services, priority classes, disruption budgets and events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.api.meta import Condition, LabelSelector, Object, ObjectReference, Struct


class NamespaceSpec(Struct, frozen=True):
    """The finalizers of a namespace."""

    finalizers: tuple[str, ...] = ()


class NamespaceStatus(Struct, frozen=True):
    """The phase (Active or Terminating) and conditions of a namespace."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Namespace(Object, frozen=True):
    """A namespace."""

    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class ReplicaSetSpec(Struct, frozen=True):
    """Replicas, selector and template; the template is raw because it is only copied."""

    replicas: int = 1
    min_ready_seconds: int = 0
    selector: LabelSelector = LabelSelector()
    template: dict[str, Any] = {}


class ReplicaSetStatus(Struct, frozen=True):
    """Counts of replicas and conditions."""

    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(Object, frozen=True):
    """A ReplicaSet."""

    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class StatefulSetSpec(Struct, frozen=True):
    """Replicas and selector; no other field is read."""

    replicas: int = 1
    selector: LabelSelector = LabelSelector()


class StatefulSet(Object, frozen=True):
    """A StatefulSet."""

    spec: StatefulSetSpec = StatefulSetSpec()


class PodSelectorSpec(Struct, frozen=True):
    """A map of labels that selects pods; None selects no pods."""

    selector: dict[str, str] | None = None


class ReplicationController(Object, frozen=True):
    """A ReplicationController."""

    spec: PodSelectorSpec = PodSelectorSpec()


class ServicePort(Struct, frozen=True):
    """A port of a Service; ``node_port`` is 0 until one is set."""

    node_port: int = 0


class ServiceSpec(PodSelectorSpec, frozen=True):
    """The selected pods, and the fields that quotas count."""

    type: str = ""
    ports: tuple[ServicePort, ...] = ()
    allocate_load_balancer_node_ports: bool | None = None


class Service(Object, frozen=True):
    """A Service."""

    spec: ServiceSpec = ServiceSpec()


class DeploymentSpec(Struct, frozen=True):
    """Replicas, selector, template and strategy; the last two are raw."""

    replicas: int = 1
    selector: LabelSelector = LabelSelector()
    template: dict[str, Any] = {}
    strategy: dict[str, Any] = {}
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    paused: bool = False
    progress_deadline_seconds: int | None = None


class DeploymentStatus(Struct, frozen=True):
    """Progress of the rollout."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    conditions: tuple[Condition, ...] = ()
    collision_count: int | None = None


class Deployment(Object, frozen=True):
    """A Deployment."""

    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class PriorityClass(Object, frozen=True):
    """A named pod priority."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None
    description: str = ""


SYSTEM_PRIORITIES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""The priority classes of every cluster, with their values."""
KOORDINATOR_PRIORITIES = {
    "koord-prod": 9999, "koord-mid": 7999, "koord-batch": 5999, "koord-free": 3999,
}  # fmt: skip
"""Koordinator's priority classes: the highest value of the range of each."""


class PodDisruptionBudgetSpec(Struct, frozen=True):
    """The selected pods, and how many must stay available."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudgetStatus(Struct, frozen=True):
    """How many more pods may be evicted now."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] = {}


class PodDisruptionBudget(Object, frozen=True):
    """A PodDisruptionBudget."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class EventSource(Struct, frozen=True):
    """The component that reported an event."""

    component: str = ""
    host: str = ""


class Event(Object, frozen=True):
    """An event of an object."""

    involved_object: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    reason: str = ""
    message: str = ""
    type: str = ""
    action: str = ""
    source: EventSource = EventSource()
    reporting_component: str = ""
    reporting_instance: str = ""
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    count: int = 0

    @property
    def last_seen(self) -> str:
        """When it happened last, in RFC 3339; "" if unknown."""
        return self.last_timestamp or self.event_time or self.metadata.creation_timestamp or ""


POD_TEMPLATE_HASH = "pod-template-hash"
"""The label by which a Deployment tells the pods of its ReplicaSets apart."""


def same_template(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two pod templates are equal without the label ``POD_TEMPLATE_HASH``.

    >>> same_template({"metadata": {"labels": {POD_TEMPLATE_HASH: "x"}}}, {"spec": {}})
    True
    """
    return bool(comparable_template(one) == comparable_template(other))


def comparable_template(template: Mapping[str, Any]) -> Any:
    """Return a template without ``POD_TEMPLATE_HASH``, null values and empty maps and lists."""
    meta = dict(template.get("metadata") or {})
    meta["labels"] = {k: v for k, v in (meta.get("labels") or {}).items() if k != POD_TEMPLATE_HASH}
    return _without_empty({**template, "metadata": meta})


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {k: _without_empty(v) for k, v in value.items()}
        return {k: v for k, v in kept.items() if v is not None and v not in ({}, [])}
    return [_without_empty(v) for v in value] if isinstance(value, list) else value


def resolve_int_or_percent(value: int | str, total: int, *, up: bool) -> int:
    """Return a count, or a percentage of ``total`` rounded up or down.

    >>> resolve_int_or_percent("25%", 10, up=True), resolve_int_or_percent("25%", 10, up=False)
    (3, 2)
    """
    if isinstance(value, int):
        return value
    hundredths = int(value.removesuffix("%")) * total
    return -(-hundredths // 100) if up else hundredths // 100
