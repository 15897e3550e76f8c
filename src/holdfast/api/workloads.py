"""Workloads and cluster furniture that controllers and plugins read."""

from __future__ import annotations

from typing import Any

from holdfast.api.meta import Condition, LabelSelector, Object, ObjectReference, Struct


class NamespaceSpec(Struct, frozen=True):
    """Finalizers of the namespace itself."""

    finalizers: tuple[str, ...] = ()


class NamespaceStatus(Struct, frozen=True):
    """Active or Terminating."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Namespace(Object, frozen=True):
    """A namespace."""

    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class ReplicaSetSpec(Struct, frozen=True):
    """How many pods of which template; the template stays raw, it is only copied."""

    replicas: int = 1
    min_ready_seconds: int = 0
    selector: LabelSelector = LabelSelector()
    template: dict[str, Any] = {}


class ReplicaSetStatus(Struct, frozen=True):
    """How many there are."""

    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(Object, frozen=True):
    """Keeps a number of equal pods alive."""

    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class StatefulSetSpec(Struct, frozen=True):
    """Which pods belong to it; the rest is its controller's business."""

    selector: LabelSelector = LabelSelector()


class StatefulSet(Object, frozen=True):
    """Keeps pods with names of their own alive."""

    spec: StatefulSetSpec = StatefulSetSpec()


class LabelledPods(Struct, frozen=True):
    """Pods that carry all of these labels; None selects no pod at all."""

    selector: dict[str, str] | None = None


class ReplicationController(Object, frozen=True):
    """What there was before ReplicaSets."""

    spec: LabelledPods = LabelledPods()


class Service(Object, frozen=True):
    """One address for several pods."""

    spec: LabelledPods = LabelledPods()


class DeploymentSpec(Struct, frozen=True):
    """How many pods of which template; strategy stays raw."""

    replicas: int = 1
    selector: LabelSelector = LabelSelector()
    template: dict[str, Any] = {}
    strategy: dict[str, Any] = {}
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    paused: bool = False
    progress_deadline_seconds: int | None = None


class DeploymentStatus(Struct, frozen=True):
    """How far the roll-out is."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    conditions: tuple[Condition, ...] = ()
    collision_count: int | None = None


class Deployment(Object, frozen=True):
    """Rolls ReplicaSets."""

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
"""The priority classes that every cluster has, with their values."""


class PodDisruptionBudgetSpec(Struct, frozen=True):
    """Which pods, and how many must stay."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudgetStatus(Struct, frozen=True):
    """How many more may be disturbed now."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] = {}


class PodDisruptionBudget(Object, frozen=True):
    """Limits voluntary disruption."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class EventSource(Struct, frozen=True):
    """Who noticed."""

    component: str = ""
    host: str = ""


class Event(Object, frozen=True):
    """Something that happened to an object."""

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
