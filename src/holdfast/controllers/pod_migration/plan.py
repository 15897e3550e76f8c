"""Plan the next step of a PodMigrationJob.

::

    Pending ──► Running ─┬─ ReservationFirst: create ─► scheduled ─► evict ─► bound ─► Succeeded
                         └─ EvictDirectly:                           evict ──────────► Succeeded
    any of them ──► Failed: its time is over, or pod or reservation do not allow it

The state is the job itself, so a job continues after a restart at any point. A step is planned from
the version that was written last, because the cache may be older: on a real control plane a second
attempt was planned from an older version.

The pod is evicted only if the reserved resources are or will be free (``_has_room``). Before, a
reservation that was Pending on a node, or Overcommitted, did not delay the eviction.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from holdfast.api import reservation_status
from holdfast.api.annotations import allocated_reservation
from holdfast.api.koordinator_names import EVICT_REASON
from holdfast.api.meta import Condition, controller_of
from holdfast.api.pod import Pod, PodSpec
from holdfast.api.pod_migration_job import EVICT_DIRECTLY, PENDING, RUNNING, PodMigrationJob
from holdfast.api.reservation import AVAILABLE, FAILED, SUCCEEDED, WAITING, Reservation
from holdfast.api.reservation import PENDING as NOT_SCHEDULED
from holdfast.controllers import conditions
from holdfast.controllers.pod_migration import job_status
from holdfast.controllers.pod_migration.job_fields import (
    ends_at,
    has_attempted_eviction,
    mode_of,
    pod_name,
    reservation_ref,
)
from holdfast.controllers.pod_migration.job_status import StatusChange, reference
from holdfast.controllers.pod_migration.reservation_template import find_template_excess
from holdfast.state.migration.pod_selection import is_unscheduled
from holdfast.state.reservations.owner_rules import compile_owners


class Action(Enum):
    """The action of a step after the change of the job's status."""

    WAIT = auto()
    """Do nothing until the pod, the reservation or the time changes."""
    CREATE = auto()
    """Create the reservation."""
    EVICT = auto()
    """Evict the pod."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The objects that a job refers to; None for those that do not exist."""

    pod: Pod | None = None
    """The pod with the name in the job; perhaps not the pod that the job was created for."""
    reservation: Reservation | None = None
    bound_pod: Pod | None = None
    """The first owner of the reservation."""


@dataclass(frozen=True, slots=True)
class Step:
    """The change of the job's status, then an action."""

    change: StatusChange
    action: Action = Action.WAIT


def plan_step(job: PodMigrationJob, facts: Facts, default_mode: str, now: float) -> Step:
    """Plan the next step of a job that has passed the arbitration."""
    change = StatusChange.of(job, now)
    if job.spec.paused or job.finished:
        return Step(change)
    end = ends_at(job)
    if end is not None and now >= end:
        change.fail(job_status.TIMEOUT, "Abort job caused by timeout")
        return Step(change)
    if job.phase == PENDING and not _begins(job, facts, change):
        return Step(change)
    if mode_of(job, default_mode) == EVICT_DIRECTLY:
        action = _evict(job, facts, change)
        if change.is_true(job_status.EVICTION):
            change.complete(f"Pod {pod_name(job)} has been evicted")
        return Step(change, action)
    return Step(change, _reserve_first(job, facts, change))


def is_left_over(job: PodMigrationJob, reservation: Reservation) -> bool:
    """Return whether a finished job has to delete its reservation.

    It deletes only the one that it made, never one that the user created for it, and none that a
    pod uses.
    """
    if reservation.phase == SUCCEEDED or reservation.status.current_owners:
        return False
    return is_made_by(job, reservation)


def is_made_by(job: PodMigrationJob, reservation: Reservation) -> bool:
    """Return whether a reservation was made by a job."""
    owners = reservation.metadata.owner_references
    return reservation.name == job.uid or any(o.uid == job.uid for o in owners)


def _begins(job: PodMigrationJob, facts: Facts, change: StatusChange) -> bool:
    ref = job.spec.pod_ref
    if ref is None or not (ref.namespace and ref.name):
        message = "Abort job caused by invalid PodRef: namespace and name are required"
        change.fail(job_status.INVALID_POD_REF, message)
        return False
    if _is_gone(job, facts):
        _fail_by_missing_pod(job, change)
        return False
    change.fields["phase"] = RUNNING
    return True


def _is_gone(job: PodMigrationJob, facts: Facts) -> bool:
    """Return whether the pod of the job does not exist any more; its uid is known from step 1."""
    ref = job.spec.pod_ref
    return facts.pod is None or (ref is not None and ref.uid not in ("", facts.pod.uid))


def _fail_by_missing_pod(job: PodMigrationJob, change: StatusChange) -> None:
    change.fail(job_status.MISSING_POD, f"Abort job caused by missing Pod {pod_name(job)}")


def _reserve_first(job: PodMigrationJob, facts: Facts, change: StatusChange) -> Action:
    ref = reservation_ref(job)
    if ref is None:
        return _create(job, facts, change)
    change.set(job_status.RESERVATION_CREATED, "True")
    reservation = facts.reservation
    if ref.kind not in ("", "Reservation"):
        message = f"spec.reservationOptions.reservationRef: a {ref.kind} is no Reservation"
        change.fail(job_status.MISSING_RESERVATION, message)
    elif reservation is None or ref.uid not in ("", reservation.uid):
        name = f'"{ref.namespace}/{ref.name}"'
        change.fail(
            job_status.MISSING_RESERVATION, f"Abort job caused by missing Reservation {name}"
        )
    elif not has_attempted_eviction(job) and not _is_for(reservation, facts.pod):
        message = f'Reservation "{reservation.name}" has no owner like Pod {pod_name(job)}'
        change.fail(job_status.FORBIDDEN, message)
    elif _migrates_pending_pod(reservation) and facts.pod is not None and _is_scheduled(facts.pod):
        _complete_pending_pod(job, facts.pod, change)
    elif _is_scheduled_reservation(reservation, change):
        return _move(job, reservation, facts, change)
    elif (
        reservation.phase == NOT_SCHEDULED
        and _is_gone(job, facts)
        and not has_attempted_eviction(job)
    ):
        _fail_by_missing_pod(job, change)  # otherwise room would be reserved for no pod
    return Action.WAIT


def _is_for(reservation: Reservation, pod: Pod | None) -> bool:
    """Return whether a reservation admits a pod like this as owner, or takes over the pod."""
    if pod is None or not reservation.spec.owners or reservation.spec.pre_allocation:
        return True
    return any(rule.owns(pod) for rule in compile_owners(reservation) or ())


def _create(job: PodMigrationJob, facts: Facts, change: StatusChange) -> Action:
    if facts.pod is None or _is_gone(job, facts):
        _fail_by_missing_pod(job, change)
        return Action.WAIT
    if not has_owners(job, facts.pod):
        change.fail(
            job_status.FORBIDDEN,
            f"Pod {pod_name(job)} has no controller that creates it again on another node, so "
            "nothing could use a reservation: set an owner with the name and namespace of the pod "
            "in spec.reservationOptions.template, or use mode EvictDirectly",
        )
        return Action.WAIT
    if excess := find_template_excess(job, facts.pod):
        change.set(job_status.RESERVATION_CREATED, "False", job_status.FORBIDDEN, excess)
        change.fail(job_status.FORBIDDEN, excess)
        return Action.WAIT
    return Action.CREATE


def has_owners(job: PodMigrationJob, pod: Pod) -> bool:
    """Return whether a reservation made for a pod would have owners."""
    options = job.spec.reservation_options
    template = (options.template if options is not None else None) or {}
    spec = template.get("spec")
    given = spec.get("owners") if isinstance(spec, dict) else None
    return bool(given) or controller_of(pod) is not None or is_unscheduled(pod)


def _unschedulable(reservation: Reservation) -> Condition | None:
    condition = reservation.condition(reservation_status.SCHEDULED)
    return (
        condition
        if condition is not None and condition.reason == reservation_status.UNSCHEDULABLE
        else None
    )


def _is_scheduled_reservation(reservation: Reservation, change: StatusChange) -> bool:
    """Return whether the reservation is on a node; if not, record why."""
    refused = _unschedulable(reservation)
    if (
        refused is not None
        and not change.is_true(job_status.RESERVATION_SCHEDULED)
        and change.set(
            job_status.RESERVATION_SCHEDULED, "False", job_status.UNSCHEDULABLE, refused.message
        )
    ):
        change.tell(job_status.UNSCHEDULABLE, refused.message, type_="Warning")
    if reservation.phase == NOT_SCHEDULED:
        return bool(reservation.status.node_name)
    ready = reservation.condition(reservation_status.READY)
    if (
        reservation.phase == FAILED
        and ready is not None
        and ready.reason == reservation_status.EXPIRED
    ):
        change.fail(job_status.RESERVATION_EXPIRED, "Reservation expired")
        return False
    if reservation.phase == FAILED or not reservation.status.node_name:
        change.fail(job_status.UNSCHEDULABLE, refused.message if refused is not None else "")
        return False
    return True


def _move(
    job: PodMigrationJob, reservation: Reservation, facts: Facts, change: StatusChange
) -> Action:
    node = reservation.status.node_name
    hands_over = reservation.spec.pre_allocation
    if (
        facts.pod is not None
        and facts.pod.spec.node_name == node
        and not hands_over
        and not _is_gone(job, facts)
        and not has_attempted_eviction(job)
        and not _migrates_pending_pod(reservation)
    ):
        message = (
            f'Scheduler assignes the Reservation "{reservation.name}" on the same node as the Pod'
        )
        change.fail(job_status.FORBIDDEN, message)
        return Action.WAIT
    if not job.status.node_name:
        change.fields["nodeName"] = node
        if change.set(job_status.RESERVATION_SCHEDULED, "True"):
            assigned = f'Assigned Reservation "{reservation.name}" to node "{node}"'
            change.tell(job_status.RESERVATION_SCHEDULED, assigned)
    if _migrates_pending_pod(reservation):
        _wait_for_pending_pod(job, reservation, facts, change)
        return Action.WAIT
    if not change.is_true(job_status.EVICTION):
        action = _evict(job, facts, change)
        if not change.is_true(job_status.EVICTION):
            return action
    _wait_for_binding(reservation, facts, change)
    return Action.WAIT


def _migrates_pending_pod(reservation: Reservation) -> bool:
    """Return whether a reservation is for one pod, which has no node yet.

    A reservation made for a pod with a node names that node, and is for the next pod with the same
    name: a pod of a StatefulSet has the name of its predecessor. When only the owners were
    compared, a job for such a pod was Succeeded at once without moving anything.
    """
    template = reservation.spec.template
    if template is not None and _names_node(template.spec):
        return False
    return any(o.object is not None and o.controller is None and o.label_selector is None
               for o in reservation.spec.owners)  # fmt: skip


def _names_node(spec: PodSpec) -> bool:
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    terms = required.node_selector_terms if required else ()
    return any(field.key == "metadata.name" for term in terms for field in term.match_fields)


def _is_scheduled(pod: Pod) -> bool:
    return conditions.is_true(pod.status.conditions, "PodScheduled")


def _wait_for_pending_pod(
    job: PodMigrationJob, reservation: Reservation, facts: Facts, change: StatusChange
) -> None:
    if facts.pod is None or _is_gone(job, facts):
        _fail_by_missing_pod(job, change)
    elif _is_scheduled(facts.pod):
        _complete_pending_pod(job, facts.pod, change)
    elif reservation.phase == SUCCEEDED and not _is_owner(facts.pod, reservation):
        change.fail(job_status.FORBIDDEN, "Reservation is already bound by another Pod")
    else:
        condition = conditions.find(facts.pod.status.conditions, "PodScheduled")
        message = condition.message if condition is not None else ""
        change.set(job_status.POD_SCHEDULED, "False", job_status.UNSCHEDULABLE, message)


def _is_owner(pod: Pod, reservation: Reservation) -> bool:
    return any(owner.uid == pod.uid for owner in reservation.status.current_owners)


def _complete_pending_pod(job: PodMigrationJob, pod: Pod, change: StatusChange) -> None:
    change.set(job_status.POD_SCHEDULED, "True")
    change.complete(f'Assign Pod {pod_name(job)} to node "{pod.spec.node_name}"')


def took_another_node(job: PodMigrationJob, pod: Pod | None, reservation: Reservation) -> bool:
    """Return whether the pending pod of a job runs without the reservation made for it."""
    if pod is None or not (_migrates_pending_pod(reservation) and is_made_by(job, reservation)):
        return False
    allocated = allocated_reservation(pod)
    return _is_scheduled(pod) and (allocated is None or allocated.uid != reservation.uid)


def _evict(job: PodMigrationJob, facts: Facts, change: StatusChange) -> Action:
    """Return EVICT if the pod is still to be evicted; record what is known about the eviction."""
    if change.is_true(job_status.EVICTION):
        return Action.WAIT
    if _is_gone(job, facts):
        if not has_attempted_eviction(job):
            _fail_by_missing_pod(job, change)
        elif change.set(job_status.EVICTION, "True", job_status.EVICT_COMPLETE):
            change.tell(job_status.EVICT_COMPLETE, f"Pod {pod_name(job)} has been evicted")
        return Action.WAIT
    if change.reason(job_status.EVICTION) == job_status.EVICTING:
        return Action.WAIT
    reservation = facts.reservation
    if reservation is not None and reservation.phase == SUCCEEDED:
        change.fail(job_status.FORBIDDEN, "Reservation is already bound by another Pod")
        return Action.WAIT
    return Action.EVICT if reservation is None or _has_room(reservation, facts) else Action.WAIT


def _has_room(reservation: Reservation, facts: Facts) -> bool:
    """Return whether the reserved resources are free, or will be after this pod has ended."""
    if reservation.phase == WAITING:
        return facts.pod is not None and facts.pod.spec.node_name == reservation.status.node_name
    ready = reservation.condition(reservation_status.READY)
    return reservation.phase == AVAILABLE and (ready is None or ready.status != "False")


def evicting(job: PodMigrationJob, pod: Pod, now: float) -> StatusChange:
    """Return the status after a pod was evicted."""
    change = StatusChange.of(job, now)
    reason = job.metadata.annotations.get(EVICT_REASON) or "NotSet"
    message = (
        f'Pod {pod_name(job)} evicted from node "{pod.spec.node_name}" by the reason "{reason}"'
    )
    if change.set(job_status.EVICTION, "False", job_status.EVICTING, message):
        change.tell(job_status.EVICTING, message)
    return change


def paused(job: PodMigrationJob, now: float) -> StatusChange:
    """Return the status of a job that is paused before its first step."""
    change = StatusChange.of(job, now)
    change.fields |= {"phase": PENDING, "status": "Paused"}
    return change


def not_created(job: PodMigrationJob, failure: str, now: float) -> StatusChange:
    """Return the status after the reservation could not be created."""
    change = StatusChange.of(job, now)
    message = f"Failed to create Reservation caused by {failure}"
    if change.set(
        job_status.RESERVATION_CREATED, "False", job_status.FAILED_CREATE_RESERVATION, message
    ):
        change.tell(job_status.FAILED_CREATE_RESERVATION, message, type_="Warning")
    return change


def _wait_for_binding(reservation: Reservation, facts: Facts, change: StatusChange) -> None:
    owners = reservation.status.current_owners
    if not owners:
        if not change.is_true(job_status.POD_BOUND_RESERVATION):
            change.set(job_status.POD_BOUND_RESERVATION, "False", job_status.WAIT_FOR_BINDING)
        return
    change.set(job_status.RESERVATION_BOUND, "True")
    change.fields["podRef"] = reference(owners[0])
    bound = facts.bound_pod
    if bound is not None and not conditions.is_true(bound.status.conditions, "Ready"):
        change.set(job_status.BOUND_POD_READY, "False", job_status.WAIT_FOR_READY)
        return
    change.set(job_status.BOUND_POD_READY, "True")
    name = f'"{owners[0].namespace}/{owners[0].name}"'
    message = f'Bind Pod {name} in Reservation "{reservation.name}"'
    change.set(job_status.POD_BOUND_RESERVATION, "True", "", message)
    change.complete(message)
