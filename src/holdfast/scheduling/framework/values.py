"""Arguments and results of plugin methods: codes, pod changes, API calls, placements."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from holdfast.scheduling.framework.plan import PodPlan, Reserver
    from holdfast.scheduling.framework.points import Point
    from holdfast.state.columns.pod_info import PodInfo

Rows = NDArray[np.intp]
AnyRows = Rows | slice
"""Some rows as an array, or all as a slice for plugins with the trait ``accepts_slices``."""
Verdicts = NDArray[np.int8]
RawScores = NDArray[np.float64]


def rows_at(rows: AnyRows, positions: NDArray[np.intp]) -> list[int]:
    """Return the rows at positions of an array or a slice."""
    selected_rows: Rows = (
        positions + (rows.start or 0) if isinstance(rows, slice) else rows[positions]
    )
    listed: list[int] = selected_rows.tolist()
    return listed


_MANY_ROWS = 128
"""From this number on a mask is faster than a loop; measured."""


def positions_of(wanted: Set[int], rows: AnyRows) -> list[tuple[int, int]]:
    """Return the wanted rows that are in ``rows``, as (position in ``rows``, row)."""
    if isinstance(rows, slice):
        start, stop = rows.start or 0, math.inf if rows.stop is None else rows.stop
        return [(row - start, row) for row in wanted if start <= row < stop]
    if not wanted:
        return []
    if len(rows) < _MANY_ROWS:
        return [(i, row) for i, row in enumerate(rows.tolist()) if row in wanted]
    listed = np.fromiter(wanted, np.intp, len(wanted))
    mask = np.zeros(1 + max(int(rows.max()), int(listed.max())), np.bool_)
    mask[listed] = True
    positions: Rows = mask[rows].nonzero()[0]
    return [*zip(positions.tolist(), rows[positions].tolist(), strict=True)]


class Code(IntEnum):
    """The result for a pod, on one node or as a whole; it decides how the pod is queued again."""

    PASS = 0
    """Upstream's Success."""
    UNSCHEDULABLE = 1
    """Wait for an event that a queueing hint selects; preemption may help on this node."""
    UNRESOLVABLE = 2
    """Wait for an event that a queueing hint selects; preemption cannot help on this node."""
    PENDING = 3
    """Wait for something outside the scheduler; the event that reports it skips backoff."""
    ERROR = 4
    """The attempt failed: retry after error backoff; no plugin has rejected the pod."""
    SKIP = 5
    """The plugin does not take part for this pod."""
    WAIT = 6
    """Permit only: the pod is assumed and waits for approval."""

    @property
    def upstream_name(self) -> str:
        """The name of the code in kube-scheduler, for metrics and explanations."""
        return _UPSTREAM_NAMES[self]


_UPSTREAM_NAMES = {
    Code.PASS: "Success", Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNRESOLVABLE: "UnschedulableAndUnresolvable", Code.PENDING: "Pending",
    Code.ERROR: "Error", Code.SKIP: "Skip", Code.WAIT: "Wait",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Skip:
    """The plugin has no plan for the pod; from ``pre_score``: no scores; from ``bind``: no bind."""


@dataclass(frozen=True, slots=True)
class Reject:
    """The pod is rejected; the code and the reasons hold for every node.

    ``retry_at``, from ``pre_filter``, ``reserve``, ``permit`` or ``pre_bind``, is when the pod is
    tried again even without an event; seconds since the epoch.
    """

    code: Code
    reasons: tuple[str, ...]
    retry_at: float | None = None


def finite_time(time: float | None) -> float | None:
    """Return the time of a plugin, or None if it will never come.

    >>> finite_time(12), finite_time(float("inf")), finite_time(None)
    (12.0, None, None)
    """
    return float(time) if time is not None and math.isfinite(time) else None


@dataclass(frozen=True, slots=True)
class Wait:
    """Permit only: keep the pod assumed until it is allowed; reject it after ``seconds``."""

    seconds: float


@dataclass(frozen=True, slots=True)
class PodChange:
    """Pods that are hypothetically added to and removed from rows.

    Used for nominated pods, preemption victims and simulations, like upstream's AddPod and
    RemovePod. ``added`` and ``removed`` map a row to pods. The empty change is ``NO_CHANGE``.
    """

    added: Mapping[int, Sequence[PodInfo]] = field(default_factory=dict)
    removed: Mapping[int, Sequence[PodInfo]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)

    def positions_in(self, rows: AnyRows) -> list[tuple[int, int]]:
        """Return the changed rows that are in ``rows``, as (position in ``rows``, row)."""
        return positions_of({*self.added, *self.removed}, rows)

    def freed_resources(self, row: int) -> tuple[dict[int, int], int]:
        """Return what the change frees on a row (negative: uses) per resource id, and pod slots."""
        amounts: dict[int, int] = {}
        removed, added = self.removed.get(row, ()), self.added.get(row, ())
        for sign, pods in ((1, removed), (-1, added)):
            for pod in pods:
                for resource, amount in pod.request:
                    amounts[resource] = amounts.get(resource, 0) + sign * amount
        return amounts, len(removed) - len(added)


NO_CHANGE = PodChange()


@dataclass(frozen=True, slots=True)
class RequiredResources:
    """What must be free on a row, in addition to a pod slot: amounts by resource id.

    A resource in ``ignored_if_absent`` is not required on nodes that have none of it. Nothing is
    known about ``unknown_rows`` (None: no rows).
    """

    amounts: tuple[tuple[int, int], ...]
    ignored_if_absent: frozenset[int] = frozenset()
    unknown_rows: NDArray[np.bool_] | None = None


class ApiCall(msgspec.Struct, frozen=True):
    """An API request that a plugin yields; the stored object is sent back to it.

    ``verb`` is create, update, patch, delete, get or bind; ``path`` is built by ``Resource.path``.
    ``body`` is encoded as JSON. The response is decoded as ``returns``: raw JSON, a typed object,
    or None if the plugin does not read it. If the request fails, its HoldfastError is raised in the
    generator. Four verbs send nothing: sleep waits ``body`` seconds and sends back the time, in
    seconds since the epoch; event records ``body``, a reason and a message, as a normal event of
    the pod; observe adds ``body``, a value and the label values, to the scheduler's metric
    ``path``; turn waits until no other generator has the turn of ``path``, and keeps it until the
    next turn call ("" takes none) or the end.
    """

    verb: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    returns: type[Any] | None = dict


ApiCalls = Generator[ApiCall, Any, None]
PreBindCalls = Generator[ApiCall, Any, Reject | None]
"""Requests in order; at the end None, or a Reject."""
END_TURN = ApiCall("turn", "")
"""Lets the next generator have the turn before this one has ended."""
MERGE_PATCH = "application/merge-patch+json"
"""The content type of a JSON merge patch."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node where the pod fits without the victims; these are sorted, most important first."""

    node: str
    victims: tuple[PodInfo, ...]
    violations: int
    """Number of victims whose eviction violates a PodDisruptionBudget."""


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """What the scheduler is to do for a pod that fits on no node."""

    plugin: str
    """The name of the plugin that returned it; several are joined by commas."""
    message: str = ""
    nominated_node: str | None = None
    """Node to nominate; "" clears the nomination, None keeps it."""
    victims: tuple[PodInfo, ...] = ()
    calls: tuple[ApiCall, ...] = ()
    """Requests to send now, such as the deallocation of a claim. A typed response (``returns``) is
    stored in the world before the pod is tried again."""
    code: Code = Code.UNSCHEDULABLE
    """After PASS (success), UNRESOLVABLE and ERROR no further plugin is called."""
    candidates: Sequence[Candidate] = ()
    """For explanations: all nodes where preemption helps. May be computed when it is first read,
    so read it before the world changes."""
    tied_nodes: Sequence[str] = ()
    """The candidates that are as good as the chosen one; computed like ``candidates``."""
    events: tuple[tuple[str, str], ...] = ()
    """(reason, message) of warning events to record for the pod."""
    victims_terminating: bool = False
    """Nothing is to be done: victims of an earlier preemption are still terminating."""
    violations: int = 0
    """How many of the victims violate a PodDisruptionBudget."""
    unless_cheaper: bool = False
    """Further plugins are called after PASS, too: one whose victims cost less is preferred."""
    requeueing_plugins: frozenset[str] = frozenset()
    """Plugins whose queueing hints requeue the pod, in addition to those that rejected a node."""


class Placement(msgspec.Struct):
    """A decision: this pod on that node, with the plan of each plugin.

    Reservers add to ``annotations``, which are sent in the Binding: the pod has them from the
    moment it is bound.
    """

    pod: PodInfo
    row: int
    node: str
    plans: Mapping[str, PodPlan]
    annotations: dict[str, str] = {}
    reservation: str = ""
    """The uid of the reservation that the pod uses; "" for none. The plugin that allocates
    reservations sets it in ``reserve``, for the plugins after it."""
    pre_allocated: tuple[PodInfo, ...] = ()
    """The running pods whose resources a reservation takes over; set as ``reservation`` is."""
    now: float = 0.0
    """When it was decided; for timestamps in written objects."""
    events: list[tuple[str, str]] = []
    """(reason, message) of events to record when the pod is bound."""
    pods_to_activate: set[str] = set()
    """Uids of pods to move to the active queue."""
    nominated_node: str = ""
    """Node that the pod was nominated to before."""
    abort_reason: str = ""
    """If not "": why the pod must not be bound any more."""
    pod_is_deleted: bool = False
    """Set before ``undo_pre_bind`` if the pod was deleted during its binding cycle."""
    reservers: Mapping[Point, Sequence[tuple[str, Reserver]]] | None = None
    """The plans by their points of Reserver, with the names of plugins; the profile sets it."""
