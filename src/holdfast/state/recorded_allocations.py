"""Decide which annotations that record the allocations of bound pods are trusted.

Any client may have written them, if the policies of deploy/admission are absent. So an annotation
counts only as far as it can be true. That is decided when it is first read, and kept while the pod
is bound: later edits of the pod, of its labels or of owners change nothing. If this process has
bound the pod, what it wrote then counts.

A reservation counts if the pod is one of its owners, or a candidate that it may pre-allocate. A
pod in ``status.currentOwners`` counts as an owner: it matched when it was bound. A pod may be read
before the reservation that it names; then the decision waits. The ledgers limit the amounts by the
requests of the pod, which may change.

``reservation-current-owner`` is trusted as it is: it names a pod that may use what another pod of
its own namespace has.

Without this module a pod of 1m held all CPUs of a node, an edit gave away what a running container
uses, and a pod of another namespace ended a reservation. Everything is decided here, before any
ledger sees the pod, so that ledgers, controllers and ``holdfast explain`` cannot disagree (decision
0022). Nearly all pods have none of these annotations; they cost 0.2 µs per event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec

from holdfast.api.annotations import AllocatedReservation, allocated_reservation
from holdfast.api.koordinator_names import DEVICE_ALLOCATED, RESOURCE_STATUS
from holdfast.api.meta import ObjectMeta
from holdfast.api.pod import Pod
from holdfast.api.reservation import HOLDING, Reservation, ReservationOwner
from holdfast.api.reservation_names import (
    ALLOCATED,
    DRAWS,
    IGNORED,
    OWNER_NAMESPACES,
    PRE_ALLOCATABLE,
)
from holdfast.api.reservation_status import SCHEDULED
from holdfast.api.timestamps import seconds_of
from holdfast.state.reservations.owner_rules import compile_owners, uses_cluster_mode
from holdfast.state.reservations.reservation_annotations import annotated_allocations

RESERVATION_KEYS = (ALLOCATED, DRAWS)
IDENTITY_KEYS = (RESOURCE_STATUS, DEVICE_ALLOCATED)
_KEYS = frozenset((*RESERVATION_KEYS, *IDENTITY_KEYS))
NOT_AN_OWNER = "ignored: the pod is no owner of reservation {}, and was not pre-allocated by it"
TOO_MUCH = "ignored as far as it exceeds what the pod requests"
CHANGED = "ignored: it was changed after the pod was bound, and what was read first counts"
TOO_MANY = "ignored: it names more than 64 reservations"
MOST_RESERVATIONS = 64
DISPUTED = "ignored in part: a pod that was scheduled earlier, or a reservation, has the same"

Possible = Callable[[Pod, str, str], str]
"""Returns the part of the text under a key that does not exceed the requests of a pod."""
Stamp = tuple[int, str, str, tuple[ReservationOwner, ...]]


class Ignored(NamedTuple):
    """A key of a pod that is ignored, or of which a part is, and why."""

    pod: Pod
    key: str
    why: str


class Source(NamedTuple):
    """A reservation on a node, and a function that tells whether it owns a pod."""

    reservation: Reservation
    owns: Callable[[Pod], bool]

    @classmethod
    def of(cls, reservation: Reservation) -> Source:
        """Read the owners of a reservation."""
        return cls(
            reservation,
            lambda pod: any(rule.owns(pod) for rule in compile_owners(reservation) or ()),
        )

    @property
    def stamp(self) -> Stamp:
        """A value that changes with the rules about owners, and with the node.

        The rules are in the spec, or in an annotation if a pod acts as the reservation.
        """
        meta, status = self.reservation.metadata, self.reservation.status
        owners = self.reservation.spec.owners if self.reservation.is_pod else ()
        namespaces = meta.annotations.get(OWNER_NAMESPACES, "")
        return meta.generation or 0, namespaces, status.node_name, owners

    def has_used(self, uid: str) -> bool:
        """Tell whether its status says that a pod uses it."""
        return any(owner.uid == uid for owner in self.reservation.status.current_owners)

    def accepts(self, pod: Pod) -> bool:
        """Tell whether a pod can have been allocated from it."""
        reservation = self.reservation
        if pod.spec.node_name != reservation.status.node_name:
            return False
        if self.has_used(pod.uid):
            return True
        labels = pod.metadata.labels
        if labels.get(IGNORED) == "true":
            return False
        if self.owns(pod):
            return True
        candidate = reservation.spec.pre_allocation and uses_cluster_mode(reservation)
        return candidate and labels.get(PRE_ALLOCATABLE) == "true" and self._found(pod)

    def _found(self, pod: Pod) -> bool:
        """Tell whether a pod existed when the reservation was bound: it pre-allocates no others.

        Any user may give a pod the label of a candidate. A later pod of 1m on that node could claim
        to be pre-allocated, and the reservation ended.
        """
        scheduled = self.reservation.condition(SCHEDULED)
        bound = seconds_of(None if scheduled is None else scheduled.last_transition_time)
        created = seconds_of(pod.metadata.creation_timestamp)
        return bound is None or created is None or created <= bound


@dataclass(slots=True)
class _Record:
    """The decision about one pod. ``own``: this process bound it."""

    own: bool = False
    binding_to: str = ""
    """The node, until the Binding is confirmed; all but ``written`` is decided then."""
    written: dict[str, str] = field(default_factory=dict)
    """The annotations when they were first read."""
    texts: dict[str, str] = field(default_factory=dict)
    """The parts of the annotations about CPUs and devices that count."""
    claim: dict[str, str] = field(default_factory=dict)
    """The annotations about reservations that were decided about."""
    named: tuple[AllocatedReservation, ...] = ()
    too_many: bool = False
    """Whether they name so many reservations that none counts."""
    accepted: frozenset[str] = frozenset()
    refused: dict[str, Stamp] = field(default_factory=dict)
    believed: dict[str, str] = field(default_factory=dict)
    settled: bool = False
    """Whether all named reservations have accepted the pod."""


@dataclass(slots=True)
class RecordedAllocations:
    """Decides what is trusted, and remembers it while pods are bound.

    ``find`` returns the reservation of a uid, if it has a node; ``is_pre_allocated`` tells
    whether this process pre-allocates a pod for a reservation, by their uids.
    """

    find: Callable[[str], Source | None]
    is_pre_allocated: Callable[[str, str], bool] = lambda _pod, _reservation: False
    is_ours: Callable[[str], bool] = lambda _pod: False
    """Whether this process has bound a pod, and remembers it."""
    possible: Possible = lambda _pod, _key, text: text
    on_ignored: Callable[[Ignored], object] = lambda _ignored: None
    ignored: dict[str, tuple[Pod, dict[str, str]]] = field(default_factory=dict)
    """Bound pods with ignored keys, and why, by key; each key is reported once."""
    _records: dict[str, _Record] = field(default_factory=dict)
    _waiting: dict[str, dict[str, Pod]] = field(default_factory=dict)
    """Pods that name a reservation which has not accepted them, by its uid and theirs."""

    def expect(self, uid: str, node: str, annotations: Mapping[str, str]) -> None:
        """Note what this process writes with the Binding of a pod."""
        own = {key: text for key, text in annotations.items() if text and key in _KEYS}
        if own:
            self._records[uid] = _Record(True, node, own)

    def unexpect(self, uid: str) -> None:
        """Forget what this process would have written with a Binding."""
        record = self._records.get(uid)
        if record is not None and record.binding_to:
            del self._records[uid]

    def forget(self, uid: str) -> None:
        """Forget a pod that is not bound any more, or will not be bound."""
        self.ignored.pop(uid, None)
        record = self._records.pop(uid, None)
        for named in () if record is None else record.named:
            self._stop_waiting(named.uid, uid)

    def waiting_for(self, uid: str) -> tuple[Pod, ...]:
        """Return the pods that name a reservation which may accept them now.

        A user may have thousands of pods that name it and are refused. Reading one again costs 23
        µs, so it is done only if the rules that refused them have changed (``Source.stamp``).
        """
        pods = self._waiting.get(uid)
        if not pods or (source := self.find(uid)) is None:
            return ()
        stamp, records = source.stamp, self._records
        users = {owner.uid for owner in source.reservation.status.current_owners}
        waiting_pods = (
            pod
            for pod_uid, pod in pods.items()
            if pod_uid in users or records[pod_uid].refused.get(uid) != stamp
        )
        return tuple(waiting_pods)

    def named_by(self, uid: str) -> tuple[AllocatedReservation, ...]:
        """Return the reservations that a pod names, or named when it was decided about."""
        record = self._records.get(uid)
        return () if record is None else record.named

    def knows(self, uid: str) -> bool:
        """Tell whether anything was decided about a pod."""
        return uid in self._records

    def believed(self, pod: Pod, uid: str) -> Pod:
        """Return a bound pod with those annotations that are trusted."""
        annotations = pod.metadata.annotations
        record, confirms = self._records.get(uid), False
        if record is None:
            if annotations.keys().isdisjoint(_KEYS):
                return pod
            record = self._records[uid] = _Record(own=self.is_ours(uid))
        elif record.binding_to:
            bound_here, confirms = record.binding_to == pod.spec.node_name, True
            record = self._records[uid] = _confirmed(record.written) if bound_here else _Record()
        present = {key: text for key in _KEYS if (text := annotations.get(key))}
        if present == record.believed and record.settled:
            return pod
        # Another component, such as an extender, may bind for this process and write other keys.
        self._decide_identities(record, pod, uid, present, later=record.own and not confirms)
        self._decide_reservations(record, pod, uid, present)
        record.believed = {**record.texts, **_without_refused(record)}
        record.settled = len(record.accepted) == len(record.named)
        if record.believed == present:
            return pod
        kept = {key: text for key, text in annotations.items() if key not in _KEYS}
        meta = msgspec.structs.replace(pod.metadata, annotations=kept | record.believed)
        return msgspec.structs.replace(pod, metadata=meta)

    def copy_from(self, other: RecordedAllocations) -> None:
        """Take over everything that another instance has decided; later decisions are separate."""
        self._records = {
            uid: replace(
                record, written=dict(record.written), texts=dict(record.texts),
                refused=dict(record.refused),
            )
            for uid, record in other._records.items()
        }  # fmt: skip
        self._waiting = {uid: dict(pods) for uid, pods in other._waiting.items()}

    # --- internals ----------------------------------------------------------------------------

    def _decide_identities(
        self, record: _Record, pod: Pod, uid: str, present: Mapping[str, str], *, later: bool
    ) -> None:
        for key in IDENTITY_KEYS:
            if key in record.texts:
                if present.get(key) != record.written[key]:
                    self.report(pod, uid, key, CHANGED)
            elif key in present:
                record.written[key] = present[key]
                text = "" if later else self.possible(pod, key, present[key])
                record.texts[key] = text
                if text != present[key]:
                    self.report(pod, uid, key, CHANGED if later else TOO_MUCH)

    def _decide_reservations(
        self, record: _Record, pod: Pod, uid: str, present: Mapping[str, str]
    ) -> None:
        claim = _part(present, RESERVATION_KEYS)
        if claim != record.claim:
            if self._uses_some(record):
                for key in RESERVATION_KEYS:
                    if claim.get(key) != record.claim.get(key):
                        self.report(pod, uid, key, CHANGED)
            else:
                for named in record.named:
                    self._stop_waiting(named.uid, uid)
                record.claim, record.named, record.accepted = claim, _named(claim), frozenset()
                record.too_many = len(record.named) > MOST_RESERVATIONS
                if record.too_many:
                    record.named = ()
                    self.report(pod, uid, DRAWS, TOO_MANY)
        for named in record.named:
            if named.uid not in record.accepted:
                self._decide_reservation(record, pod, uid, named)

    def _decide_reservation(
        self, record: _Record, pod: Pod, uid: str, named: AllocatedReservation
    ) -> None:
        source = self.find(named.uid)
        accepted = self.is_pre_allocated(uid, named.uid)
        if not accepted and source is not None:
            if record.refused.get(named.uid) == source.stamp:
                accepted = source.has_used(uid) and source.accepts(pod)
            elif not (accepted := source.accepts(pod)):
                self._refuse(record, pod, uid, source)
        if accepted:
            record.accepted |= {named.uid}
            record.refused.pop(named.uid, None)
            self._stop_waiting(named.uid, uid)
        else:
            self._waiting.setdefault(named.uid, {})[uid] = pod

    def _refuse(self, record: _Record, pod: Pod, uid: str, source: Source) -> None:
        refused = source.reservation.uid
        record.refused[refused] = source.stamp
        why = NOT_AN_OWNER.format(source.reservation.name)
        for key, text in record.claim.items():
            if any(one.uid == refused for one in _references({key: text})):
                self.report(pod, uid, key, why)

    def _uses_some(self, record: _Record) -> bool:
        """Tell whether a reservation that accepted the pod holds resources: that is kept."""
        sources = (self.find(named.uid) for named in record.named if named.uid in record.accepted)
        return any(one is not None and one.reservation.phase in HOLDING for one in sources)

    def _stop_waiting(self, reservation: str, uid: str) -> None:
        pods = self._waiting.get(reservation)
        if pods is not None and pods.pop(uid, None) is not None and not pods:
            del self._waiting[reservation]

    def report(self, pod: Pod, uid: str, key: str, why: str) -> None:
        """Report once that a key of a pod is ignored, at least in part."""
        _, reported = self.ignored.setdefault(uid, (pod, {}))
        if key not in reported:
            reported[key] = why
            self.on_ignored(Ignored(pod, key, why))


def _confirmed(own: dict[str, str]) -> _Record:
    """Return the record of a pod that this process has bound, with what it wrote."""
    claim = _part(own, RESERVATION_KEYS)
    named = _named(claim)
    accepted = frozenset([one.uid for one in named])
    return _Record(
        own=True, written=own, texts=_part(own, IDENTITY_KEYS), claim=claim, named=named,
        accepted=accepted,
    )  # fmt: skip


def _part(annotations: Mapping[str, str], keys: Iterable[str]) -> dict[str, str]:
    return {key: annotations[key] for key in keys if key in annotations}


def _named(claim: Mapping[str, str]) -> tuple[AllocatedReservation, ...]:
    """Return the reservations that annotations name, each once."""
    if not claim:
        return ()
    by_uid = {one.uid: one for one in _references(claim) if one.uid}
    return tuple(by_uid.values())


def _references(claim: Mapping[str, str]) -> Iterable[AllocatedReservation]:
    written = _with(claim)
    if (allocated := allocated_reservation(written)) is not None:
        yield allocated
    for each in annotated_allocations(written):
        yield AllocatedReservation(each.name, each.uid)


def _with(claim: Mapping[str, str]) -> Pod:
    return Pod(metadata=ObjectMeta(annotations=dict(claim)))


def _without_refused(record: _Record) -> dict[str, str]:
    """Return the annotations about reservations without those that refused the pod.

    Unknown reservations hold nothing, so what a pod says of them has no effect.
    """
    claim, refused = record.claim, record.refused
    if record.too_many:
        return {}
    if refused.keys().isdisjoint([named.uid for named in record.named]):
        return claim
    annotations: dict[str, str] = {}
    allocated = allocated_reservation(_with(claim))
    if allocated is not None and allocated.uid not in refused:
        annotations[ALLOCATED] = claim[ALLOCATED]
    if draws := [one for one in annotated_allocations(_with(claim)) if one.uid not in refused]:
        annotations[DRAWS] = msgspec.json.encode(draws).decode()
    return annotations
