"""Who owns a reservation (by object, by controller, by labels), and which offers a pod may own.

Reservations made for one workload have the same owners. They form a group that is asked once,
however many there are; and a group is filed under one thing every owner of it must have (a label
pair, a uid, a name), so that most pods ask no group at all.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from holdfast.api.labels import Selector, from_selector
from holdfast.api.meta import ObjectReference
from holdfast.api.pod import Pod
from holdfast.api.reservation import ControllerOwner, ReservationOwner
from holdfast.columns.label_groups import LabelGroup
from holdfast.errors import HoldfastError

LABEL = "label"
"""The sort of thing most owners are told by; asked about first, and cheaply."""
_NONE: tuple[OwnerGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnerRule:
    """One item of ``spec.owners``, ready to be asked."""

    object: ObjectReference | None
    controller: ControllerOwner | None
    selector: Selector | None

    def owns(self, pod: Pod) -> bool:
        """All given parts match; absent parts are true."""
        return (
            (self.object is None or _is_object(pod, self.object))
            and (self.controller is None or _is_made_by(pod, self.controller))
            and (self.selector is None or self.selector.matches(pod.metadata.labels))
        )

    @property
    def by_labels(self) -> bool:
        """Whether pods of one kind are owners together or not at all."""
        return self.object is None and self.controller is None

    def may_own(self, kind: LabelGroup) -> bool:
        """Whether pods of a kind may be owners; the selector's keys must be visible."""
        namespaces = [part.namespace for part in (self.object, self.controller) if part is not None]
        if any(namespace and namespace != kind.namespace for namespace in namespaces):
            return False
        return self.selector is None or self.selector.matches(kind.labels)

    @property
    def label_pair(self) -> tuple[str, str] | None:
        """A pair every owner must carry, to find the rule by; None: it must be asked each time."""
        for requirement in (self.selector.requirements or ()) if self.selector else ():
            if requirement.operator in ("=", "==", "in") and len(requirement.values) == 1:
                return requirement.key, requirement.values[0]
        return None


def compile_owners(owners: tuple[ReservationOwner, ...]) -> tuple[OwnerRule, ...] | None:
    """Prepare the owner rules; None when a selector is malformed: then nobody owns it."""
    rules = []
    for owner in owners:
        try:
            selector = None if owner.label_selector is None else from_selector(owner.label_selector)
        except HoldfastError:
            return None
        rules.append(OwnerRule(owner.object, owner.controller, selector))
    return tuple(rules)


def _is_object(pod: Pod, wanted: ObjectReference) -> bool:
    return (
        (not wanted.uid or wanted.uid == pod.uid)
        and (not wanted.name or wanted.name == pod.name)
        and (not wanted.namespace or wanted.namespace == pod.namespace)
        and (not wanted.api_version or wanted.api_version == (pod.api_version or "v1"))
    )


def _is_made_by(pod: Pod, wanted: ControllerOwner) -> bool:
    if wanted.namespace and wanted.namespace != pod.namespace:
        return False
    return any(
        (not wanted.uid or wanted.uid == ref.uid)
        and (not wanted.name or wanted.name == ref.name)
        and (not wanted.kind or wanted.kind == ref.kind)
        and (not wanted.api_version or wanted.api_version == ref.api_version)
        and (wanted.controller is None or wanted.controller == ref.controller)
        for ref in pod.metadata.owner_references
    )


@dataclass(slots=True, eq=False)
class OwnerGroup:
    """Offers with the same owners. ``rules`` is None when a selector is malformed: no owners."""

    number: int
    text: bytes
    rules: tuple[OwnerRule, ...] | None
    members: dict[int, None] = field(default_factory=dict)
    _slots: NDArray[np.intp] | None = None

    @property
    def slots(self) -> NDArray[np.intp]:
        """The members' slots, as a column."""
        if self._slots is None:
            self._slots = np.fromiter(self.members, np.intp, len(self.members))
        return self._slots

    def owned_by(self, pod: Pod) -> bool:
        """Whether the pod is one of the owners."""
        return self.rules is not None and any(rule.owns(pod) for rule in self.rules)

    @property
    def label_keys(self) -> frozenset[str]:
        """The pod labels that decide: pods that differ in them differ in class."""
        selectors = [rule.selector for rule in self.rules or () if rule.selector is not None]
        return frozenset(key for selector in selectors for key in selector.keys)


class OwnerIndex:
    """Every group of owners, filed under what its owners must have."""

    def __init__(self) -> None:
        self._groups: dict[bytes, OwnerGroup] = {}
        self._filed: dict[str, dict[Hashable, dict[int, OwnerGroup]]] = {}
        """By what sort of thing owners must have, then by that thing; no sort without groups."""
        self._next = 0

    def join(self, slot: int, owners: tuple[ReservationOwner, ...]) -> OwnerGroup:
        """Put an offer into the group of its owners."""
        text = msgspec.json.encode(owners)
        group = self._groups.get(text)
        if group is None:
            group = OwnerGroup(self._next, text, compile_owners(owners))
            self._next += 1
            self._groups[text] = group
            for sort, thing in map(_filed_under, group.rules or ()):
                filed = self._filed.setdefault(sort, {}).setdefault(thing, {})
                filed[group.number] = group
        group.members[slot] = None
        group._slots = None
        return group

    def leave(self, slot: int, group: OwnerGroup) -> None:
        """Take an offer out of its group; an empty group is gone."""
        del group.members[slot]
        group._slots = None
        if group.members:
            return
        del self._groups[group.text]
        for sort, thing in map(_filed_under, group.rules or ()):
            things = self._filed.get(sort, {})
            filed = things.get(thing, {})
            filed.pop(group.number, None)
            if not filed:
                things.pop(thing, None)
            if not things:
                self._filed.pop(sort, None)

    def owned_by(self, pod: Pod) -> Sequence[OwnerGroup]:
        """The groups the pod is an owner of, in the order they came."""
        found: dict[int, OwnerGroup] = {}
        # Asked for every pod there is: only what some group is filed under is looked for.
        for sort, things in self._filed.items():
            carried = pod.metadata.labels.items() if sort == LABEL else _carried(sort, pod)
            for thing in carried:
                if thing in things:
                    found.update(things[thing])
        if not found:
            return _NONE
        return [found[number] for number in sorted(found) if found[number].owned_by(pod)]

    def is_strange(self, labels: Mapping[str, str]) -> bool:
        """Whether nobody with these labels is an owner, whoever it is otherwise."""
        if self._filed.keys() - {LABEL}:
            return False
        return self._filed.get(LABEL, {}).keys().isdisjoint(labels.items())


def _filed_under(rule: OwnerRule) -> tuple[str, Hashable]:
    """One thing every owner by the rule has; the empty one, which everybody has, if need be."""
    if pair := rule.label_pair:
        return LABEL, pair
    if rule.object is not None and rule.object.uid:
        return "uid", rule.object.uid
    if rule.object is not None and rule.object.name:
        return "name", rule.object.name
    if rule.controller is not None and rule.controller.uid:
        return "controller", rule.controller.uid
    return "", ""


def _carried(sort: str, pod: Pod) -> Iterable[Hashable]:
    """The things of a sort a pod has, labels apart."""
    match sort:
        case "uid":
            return (pod.uid,)
        case "name":
            return (pod.name,)
        case "controller":
            return [reference.uid for reference in pod.metadata.owner_references]
    return ("",)
