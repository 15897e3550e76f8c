"""An index of reservations by their owners.

Reservations with the same owners form a group, which is matched once. A group is indexed by one
property that every owner must have (a label pair, a uid, a name), so that most pods match no group.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from holdfast.api.pod import Pod
from holdfast.api.reservation import Reservation
from holdfast.api.reservation_names import OWNER_NAMESPACES
from holdfast.state.reservations.owner_rules import OwnerRule, compile_owners

LABEL = "label"
"""The kind of index key of most owner rules."""
_NONE: tuple[OwnerGroup, ...] = ()


@dataclass(slots=True, eq=False)
class OwnerGroup:
    """Reservations with the same owners; ``rules`` is None if they are malformed."""

    number: int
    text: bytes
    rules: tuple[OwnerRule, ...] | None
    members: dict[int, None] = field(default_factory=dict)
    _slots: NDArray[np.intp] | None = None

    @property
    def slots(self) -> NDArray[np.intp]:
        """The slots of the members, as an array."""
        if self._slots is None:
            self._slots = np.fromiter(self.members, np.intp, len(self.members))
        return self._slots

    def owned_by(self, pod: Pod) -> bool:
        """Tell whether the pod is one of the owners."""
        return self.rules is not None and any(rule.owns(pod) for rule in self.rules)

    @property
    def label_keys(self) -> frozenset[str]:
        """The label keys the rules read; pods that differ in them are of different classes."""
        selectors = [rule.selector for rule in self.rules or () if rule.selector is not None]
        return frozenset(key for selector in selectors for key in selector.keys)


class OwnerIndex:
    """All groups, indexed by a property that their owners must have."""

    def __init__(self) -> None:
        self._groups: dict[bytes, OwnerGroup] = {}
        self._filed: dict[str, dict[Hashable, dict[int, OwnerGroup]]] = {}
        """Groups by the kind of their index key, then by the key."""
        self._next = 0

    def add(self, slot: int, reservation: Reservation) -> OwnerGroup:
        """Add a reservation to the group of its owners."""
        namespaces = reservation.metadata.annotations.get(OWNER_NAMESPACES)
        text = msgspec.json.encode((reservation.spec.owners, namespaces))
        group = self._groups.get(text)
        if group is None:
            group = OwnerGroup(self._next, text, compile_owners(reservation))
            self._next += 1
            self._groups[text] = group
            for sort, thing in map(_filed_under, group.rules or ()):
                filed = self._filed.setdefault(sort, {}).setdefault(thing, {})
                filed[group.number] = group
        group.members[slot] = None
        group._slots = None
        return group

    def remove(self, slot: int, group: OwnerGroup) -> None:
        """Remove a reservation from its group, and the group if it is empty."""
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
        """Return the groups the pod is an owner of, in the order of creation."""
        groups: dict[int, OwnerGroup] = {}
        # This runs for every pod, so only kinds of keys that some group has are looked up.
        for sort, things in self._filed.items():
            carried = pod.metadata.labels.items() if sort == LABEL else _carried(sort, pod)
            for thing in carried:
                if thing in things:
                    groups.update(things[thing])
        if not groups:
            return _NONE
        return [groups[number] for number in sorted(groups) if groups[number].owned_by(pod)]

    def has_no_owner_rule(self, labels: Mapping[str, str]) -> bool:
        """Tell whether no pod with these labels can be an owner, whatever its name is."""
        if self._filed.keys() - {LABEL}:
            return False
        return self._filed.get(LABEL, {}).keys().isdisjoint(labels.items())


def _filed_under(rule: OwnerRule) -> tuple[str, Hashable]:
    """Return the kind and value of a key every owner of the rule has; ("", "") if there is none."""
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
    """Return the keys of one kind that a pod has, except labels."""
    match sort:
        case "uid":
            return (pod.uid,)
        case "name":
            return (pod.name,)
        case "controller":
            return [reference.uid for reference in pod.metadata.owner_references]
    return ("",)
