"""The ledger of classic DRA: claims, classes and negotiations in their newest known versions.

Objects arrive in two ways, by the watch and in responses to writes of the scheduler, in any order.
``NewestObjects`` keeps the newest version. It also remembers deleted uids: a response that arrives
after the deletion would bring the object back, and no further event would remove it.

A claim is reserved in memory from the decision on. Otherwise the writes of pods of one scheduler
would conflict with each other, and two pods that need the same two claims would wait for each other
(decision 0017).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast.api.classic_dra.claims import readable_entries
from holdfast.api.classic_dra.names import MAX_CONSUMERS
from holdfast.api.classic_dra.types import (
    ClassicClaim,
    ClassicClass,
    ClassicResources,
    PodScheduling,
    classic_resources,
)
from holdfast.api.meta import Object, is_controlled_by, is_newer
from holdfast.api.pod import Pod
from holdfast.api.pod_claim_errors import InvalidEntries
from holdfast.state.classic_dra.claim_state import has_room_for, is_shared
from holdfast.state.classic_dra.pod_claims import (
    ClassicClaimNotReady,
    ClassicPodClaim,
    claims_of_pod,
)
from holdfast.state.classic_dra.selector_masks import SelectorMasks
from holdfast.state.columns.consumers_in_flight import ConsumersInFlight
from holdfast.state.columns.node_table import NodeTable

_REMEMBERED_DELETIONS = 4096
T = TypeVar("T", bound=Object)


class ClassicLedger:
    """Claims, classes and PodSchedulings, and reservations that are not written yet.

    A claim is reserved for a pod *in flight* from the decision until the write is stored or the
    attempt fails. ``resources`` is None if the API server does not serve classic DRA.
    """

    takes: tuple[type[Object], ...] = (ClassicClaim, ClassicClass, PodScheduling)

    def __init__(self, nodes: NodeTable) -> None:
        self.resources: ClassicResources | None = classic_resources()
        self.selector_masks = SelectorMasks(nodes)
        self.claims: NewestObjects[ClassicClaim] = NewestObjects()
        self.classes: NewestObjects[ClassicClass] = NewestObjects()
        self.pod_schedulings: NewestObjects[PodScheduling] = NewestObjects()
        self.selected_nodes = SelectedNodes(nodes)
        self.consumers_in_flight = ConsumersInFlight()
        self._in_flight: dict[str, str] = {}

    def use_group_of(self, obj: Object) -> None:
        """Take the group of an object as the one that the API server serves."""
        self.resources = classic_resources(obj.api_version.partition("/")[0])

    def upsert(self, obj: Any) -> None:
        """Store an object unless a newer version is known."""
        before = self._selected_node(obj)
        self._of(obj).upsert(obj)
        self.selected_nodes.change(before, self._selected_node(obj))

    def delete(self, obj: Any) -> None:
        """Remove an object, if it is there."""
        before = self._selected_node(obj)
        self._of(obj).delete(obj)
        self.selected_nodes.change(before, self._selected_node(obj))

    def _selected_node(self, obj: Object) -> str:
        """Return the node of a known PodScheduling; "" for other objects."""
        known = self.pod_schedulings.get(obj.key) if isinstance(obj, PodScheduling) else None
        return "" if known is None else known.spec.selected_node

    def _of(self, obj: Object) -> NewestObjects[Any]:
        match obj:
            case ClassicClaim():
                return self.claims
            case ClassicClass():
                return self.classes
        return self.pod_schedulings

    def claims_of(self, pod: Pod) -> tuple[ClassicPodClaim, ...]:
        """Return a pod's claims; raises ClassicClaimNotReady or InvalidEntries."""
        return claims_of_pod(pod, self.claims.get)

    def ready_claims_of(self, pod: Pod) -> tuple[ClassicPodClaim, ...]:
        """Return a pod's claims; none if one of them is not ready or the entries are invalid."""
        try:
            return self.claims_of(pod)
        except (ClassicClaimNotReady, InvalidEntries):
            return ()

    def held_by(self, pod: Pod) -> tuple[ClassicPodClaim, ...]:
        """Return the claims that are reserved for a pod, whether it may use them or not."""
        return tuple(
            ClassicPodClaim(entry, claim)
            for entry in readable_entries(pod)
            if (claim := self.claims.get(f"{pod.namespace}/{entry.claim_name}")) is not None
            and claim.is_reserved_for(pod.uid)
        )

    def newest(self, claim: ClassicClaim) -> ClassicClaim:
        """Return the newest known version of a claim; of the same uid, so not a recreated one."""
        known = self.claims.get(claim.key)
        return known if known is not None and known.uid == claim.uid else claim

    def negotiation_of(self, pod: Pod) -> PodScheduling | None:
        """Return the PodScheduling of a pod's name; it may belong to an earlier pod."""
        return self.pod_schedulings.get(pod.key)

    def is_free_for(self, claim: ClassicClaim, uid: str) -> bool:
        """Return whether a pod, by uid, may use an allocated claim that others may use as well."""
        if self._in_flight.get(claim.uid, uid) != uid or not has_room_for(claim, uid):
            return False
        if not is_shared(claim) or claim.is_reserved_for(uid):
            return True
        count = self.consumers_in_flight.count(claim.uid, claim.status.reserved_for, besides=uid)
        return count < MAX_CONSUMERS

    def add_in_flight(self, claim: ClassicClaim, uid: str) -> None:
        """Reserve a claim for a pod before that is written, unless pods share the claim."""
        if not is_shared(claim):
            self._in_flight[claim.uid] = uid

    def remove_in_flight(self, claim: ClassicClaim, uid: str) -> None:
        """Remove the reservation in flight of a pod; one of another pod stays."""
        self.consumers_in_flight.remove(claim.uid, uid)
        if self._in_flight.get(claim.uid) == uid:
            del self._in_flight[claim.uid]

    def fork(self, nodes: NodeTable) -> ClassicLedger:
        """Return an independent copy over a forked node table."""
        copy = ClassicLedger(nodes)
        copy.resources = self.resources
        copy.claims, copy.classes = self.claims.fork(), self.classes.fork()
        copy.pod_schedulings = self.pod_schedulings.fork()
        for negotiation in copy.pod_schedulings:
            copy.selected_nodes.change("", negotiation.spec.selected_node)
        copy._in_flight = dict(self._in_flight)
        copy.consumers_in_flight = self.consumers_in_flight.fork()
        return copy


def is_owned(negotiation: PodScheduling, pod: Pod) -> bool:
    """Return whether a PodScheduling belongs to the pod, and not to an earlier one of its name."""
    return is_controlled_by(negotiation, pod)


class NewestObjects(Generic[T]):
    """The newest versions of objects of one kind, by key.

    An older version, or a version of a deleted object, is ignored.
    """

    __slots__ = ("_by_key", "_deleted")

    def __init__(self) -> None:
        self._by_key: dict[str, T] = {}
        self._deleted: OrderedDict[str, None] = OrderedDict()

    def __iter__(self) -> Iterator[T]:
        return iter(self._by_key.values())

    def get(self, key: str) -> T | None:
        """Return the newest known version of an object, or None."""
        return self._by_key.get(key)

    def upsert(self, obj: T) -> bool:
        """Store an object unless a newer version is known; return whether it was stored."""
        known = self._by_key.get(obj.key)
        if obj.uid in self._deleted or (known is not None and not is_newer(obj, known)):
            return False
        self._by_key[obj.key] = obj
        return True

    def delete(self, obj: T) -> None:
        """Remove an object; a late response to one of our own writes does not restore it."""
        if obj.uid:
            self._deleted[obj.uid] = None
            if len(self._deleted) > _REMEMBERED_DELETIONS:
                self._deleted.popitem(last=False)
        known = self._by_key.get(obj.key)
        if known is not None and known.uid == obj.uid:
            del self._by_key[obj.key]

    def fork(self) -> NewestObjects[T]:
        """Return an independent copy."""
        copy: NewestObjects[T] = NewestObjects()
        copy._by_key, copy._deleted = dict(self._by_key), self._deleted.copy()
        return copy


class SelectedNodes:
    """Counts of PodSchedulings by ``selectedNode``, as a column.

    Such pods use no resources of the node yet, so other scores do not count them. Without this
    column equal pods selected the same few nodes and were refused, which took 10 writes per pod.
    """

    __slots__ = ("_at", "_column", "_counts", "_nodes")

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._counts: dict[str, int] = {}
        self._column = np.zeros(0)
        self._at = (-1, -1)

    def change(self, old: str, new: str) -> None:
        """Move the count of a PodScheduling from one node to another; "" is no node."""
        if old == new:
            return
        for name, step in ((old, -1), (new, 1)):
            if not name:
                continue
            count = self._counts.pop(name, 0) + step
            if count:
                self._counts[name] = count
            row = self._nodes.row_of.get(name)
            if row is not None and row < len(self._column):
                self._column[row] = count

    def column(self) -> NDArray[np.float64]:
        """Return the counts of all rows; the array is shared."""
        now = (self._nodes.node_journal.seq, self._nodes.size)
        if self._at != now:
            self._at = now
            self._column = np.zeros(self._nodes.size)
            for name, count in self._counts.items():
                if (row := self._nodes.row_of.get(name)) is not None:
                    self._column[row] = count
        return self._column
