"""The plugin contract: each extension point is a small protocol, implement only those you need.

A plugin sees all nodes at once: it is asked about an array of rows and answers with an array.
It never does I/O. What must be written to the API server is *yielded* as a ``Call`` from
``pre_bind``, ``bind`` or ``undo_bind`` and the answer is sent back into the generator; whoever
drives it (the scheduler, a test, a what-if) decides what a call means.

One pod's way through a plugin::

    prepare ─┬─ Skip ───────── this plugin has nothing to say about this pod
             ├─ Reject ─────── no node will do
             └─ state
                  filter ───── which rows pass (0), fail but preemption may help (1), fail (2)
                  score, normalize, tier
                  reserve ──── enter the promise in the ledgers   ⇄ unreserve
                  permit ───── go on, or wait for a word, or not at all
                  pre_bind ─── write claims, annotations          ⇄ undo_bind
                  bind
                  post_bind ── the pod has its node
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from holdfast.framework.events import ClusterEvent
from holdfast.framework.making_room import (
    Limit,
    Limits,
    LimitsPods,
    NeedsRoom,
    RestsOnPods,
    RulesEviction,
)
from holdfast.framework.traits import Scope, Traits, misplaced
from holdfast.framework.values import (
    NONE,
    AnyRows,
    Call,
    Calls,
    Candidate,
    Change,
    Code,
    Effect,
    Narrow,
    Needs,
    Part,
    Placement,
    RawScores,
    Reject,
    Rows,
    Skip,
    State,
    Verdicts,
    Wait,
)

if TYPE_CHECKING:
    from holdfast.columns.pod_facts import PodFacts
    from holdfast.framework.view import View
    from holdfast.framework.waiting import Waiting


class Plugin(Protocol):
    """What every plugin has: a name, and what it declares of itself for all pods.

    The points below are the rest of the contract: implement those you need.
    """

    @property
    def name(self) -> str:
        """The name messages, metrics and weights go by."""
        ...

    @property
    def traits(self) -> Traits:
        """How long its answers hold and how it may be asked."""
        ...


@runtime_checkable
class PreEnqueues(Protocol):
    """Keep a pod out of the queue until something about it changes."""

    def pre_enqueue(self, pod: PodFacts, view: View) -> Reject | None:
        """Say why the pod must not be queued yet, or None."""
        ...


@runtime_checkable
class Prepares(Protocol):
    """Look at the pod once, before any node."""

    def prepare(self, pod: PodFacts, view: View) -> State | Skip | Reject | Narrow | Part:
        """Digest the pod; may rule itself out, or every node, or all but some rows.

        Unless the scope is CLUSTER the state serves every pod with the same ``reads``: it may
        keep arrays of the picture, but nothing of this pod alone, and not the view.
        """
        ...


@runtime_checkable
class Filters(Protocol):
    """Rule nodes out."""

    def reads(self, pod: PodFacts, view: View) -> Any:
        """Everything of the pod that filter and score depend on, hashable: the cache key."""
        ...

    def filter(self, state: State, rows: Rows, change: Change = NONE) -> Verdicts:
        """Answer for each row with 0, 1 or 2 (see Code).

        DOMAIN and CLUSTER plugins may also answer 4 (ERROR): it fails the whole attempt.
        """
        ...

    def reasons(self, state: State, row: int, change: Change = NONE) -> tuple[str, ...]:
        """Put a rejection into upstream's words; asked only when someone wants to know."""
        ...


@runtime_checkable
class Tallies(Protocol):
    """Count reasons over many rejected rows at once, so that nobody walks over nodes."""

    def tally(self, state: State, rows: Rows) -> Mapping[str, int]:
        """How many of these rows, all rejected by this plugin, give each reason."""
        ...


@runtime_checkable
class GroupsReasons(Protocol):
    """Tell rejected rows apart by their reasons, so that these are kept and not counted anew."""

    def groups(self, state: State, rows: AnyRows) -> NDArray[np.int64]:
        """A number for each of these rows; rows of the same number give the same reasons."""
        ...


@runtime_checkable
class Scores(Protocol):
    """Prefer some nodes."""

    def reads(self, pod: PodFacts, view: View) -> Any:
        """Everything of the pod that filter and score depend on, hashable: the cache key."""
        ...

    def score(self, state: State, rows: Rows) -> RawScores:
        """Raw score of each row; whole numbers, exact in float64."""
        ...


@runtime_checkable
class PreScores(Protocol):
    """Look at the feasible rows once before scoring; Skip leaves this plugin out of the sum."""

    def pre_score(self, state: State, feasible: Rows) -> Skip | Reject | None:
        """Prepare for scoring these rows."""
        ...


@runtime_checkable
class Normalizes(Protocol):
    """Bring raw scores of the feasible rows into 0..100."""

    def normalize(self, state: State, rows: Rows, raw: RawScores) -> RawScores:
        """Scores of ``rows`` in 0..100; rows are all the feasible ones."""
        ...


@runtime_checkable
class Scales(Protocol):
    """Normalize by the lowest and highest raw score alone, so that one row can be renewed."""

    def scale(self, state: State, raw: Any, low: float, high: float) -> Any:
        """Bring raw scores (an array, or one number) into 0..100, cell by cell."""
        ...


@runtime_checkable
class Tabulates(Protocol):
    """Score through a table, where rows are of few kinds: cheaper than score and normalize."""

    def tabulate(self, state: State, rows: Rows) -> tuple[Rows, RawScores] | None:
        """Where in a table each of ``rows`` finds its normalized score, and the table.

        Rows are all the feasible ones. None: there is no such table for them.
        """
        ...


@runtime_checkable
class ScalarTwin(Protocol):
    """Answer for one row in plain integers: what makes the next pod of a class cheap."""

    def row(self, state: State, row: int) -> tuple[int, float]:
        """The same verdict and raw score as filter and score give, for one row.

        A plugin that only filters answers 0 as its score, one that only scores 0 as verdict.
        """
        ...


@runtime_checkable
class JudgesOne(Protocol):
    """Answer for one row under a change in plain integers: what preemption asks by the thousand."""

    def verdict(self, state: State, row: int, change: Change) -> int:
        """The same verdict as filter gives, for one row."""
        ...


@runtime_checkable
class Tiers(Protocol):
    """Strict pools: a lower tier wins whatever the scores say."""

    def tier(self, state: State, rows: Rows) -> NDArray[np.int32]:
        """Tier of each row; only rows of the lowest feasible tier are ranked."""
        ...


@runtime_checkable
class AfterRejects(Protocol):
    """Do something about a pod that fits nowhere (PostFilter)."""

    def after_reject(self, state: State | None, rejection: Any, view: View) -> Effect:
        """Answer with an effect; its message becomes part of the pod's condition."""
        ...


@runtime_checkable
class Reserves(Protocol):
    """Enter and withdraw promises in the ledgers; in memory, at once, symmetrical."""

    def reserve(self, state: State, placement: Placement) -> Reject | None:
        """Enter the promise; a Reject undoes every plugin's reserve in reverse order."""
        ...

    def unreserve(self, state: State, placement: Placement) -> None:
        """Withdraw it; must be idempotent and never fail."""
        ...


@runtime_checkable
class Permits(Protocol):
    """Have the last word before a pod is bound: go on, wait, or not at all."""

    def permit(self, state: State, placement: Placement, waiting: Waiting) -> Wait | Reject | None:
        """None lets the pod go on; Wait keeps its room until a word comes, or time is up.

        The word is given through ``waiting``, which has every pod that waits now: by this plugin
        when another pod comes, or by whoever holds the scheduler. 15 minutes are the longest wait.
        """
        ...


@runtime_checkable
class PreBinds(Protocol):
    """Write to the API server before the pod is bound."""

    def pre_bind(self, state: State, placement: Placement) -> Calls:
        """Yield the writes in order; each yield returns the stored object."""
        ...

    def undo_bind(self, state: State, placement: Placement) -> Calls:
        """Yield the writes that undo pre_bind; errors are logged, not raised."""
        ...


@runtime_checkable
class Binds(Protocol):
    """Bind the pod."""

    def bind(self, state: State, placement: Placement) -> Calls | Skip:
        """Yield the binding call, or Skip to leave it to the next binder."""
        ...


@runtime_checkable
class PostBinds(Protocol):
    """Hear that a pod has its node."""

    def post_bind(self, state: State, placement: Placement) -> Calls | None:
        """Tidy up; writes may be yielded. Nothing can fail the pod any more, errors are logged."""
        ...


@runtime_checkable
class Hints(Protocol):
    """Name the events that may make a pod it rejected schedulable.

    It is asked about the events that ``Traits.hears`` names. A plugin without ``hint`` is taken to
    say yes to every event.
    """

    def hint(self, event: ClusterEvent, pod: PodFacts, view: View) -> bool:
        """Tell whether ``event`` is worth another try of ``pod``."""
        ...


@runtime_checkable
class Uncounts(Protocol):
    """Leave some resources to somebody else to count."""

    def uncounted(self, name: str) -> bool:
        """Tell whether this resource is one of them."""
        ...


def hears(plugin: Plugin, event: ClusterEvent) -> bool:
    """Tell whether a plugin is to be asked about such events; one without hints hears all."""
    return not implements(plugin, Hints) or plugin.traits.hear(event)


_IMPLEMENTED: dict[tuple[type, type], bool] = {}


def implements(plugin: Any, point: type) -> bool:
    """Tell whether a plugin has an extension point; asking a Protocol each time is slow."""
    key = (type(plugin), point)
    found = _IMPLEMENTED.get(key)
    if found is None:
        found = _IMPLEMENTED[key] = isinstance(plugin, point)
    return found


def concerned(plugin: Any, placement: Placement) -> bool:
    """Tell whether a placement is a plugin's business: it prepared for the pod, or never does."""
    return plugin.name in placement.states or not implements(plugin, Prepares)


__all__ = [
    "NONE",
    "AfterRejects",
    "AnyRows",
    "Binds",
    "Call",
    "Calls",
    "Candidate",
    "Change",
    "ClusterEvent",
    "Code",
    "Effect",
    "Filters",
    "GroupsReasons",
    "Hints",
    "JudgesOne",
    "Limit",
    "Limits",
    "LimitsPods",
    "Narrow",
    "Needs",
    "NeedsRoom",
    "Normalizes",
    "Part",
    "Permits",
    "Placement",
    "Plugin",
    "PostBinds",
    "PreBinds",
    "PreEnqueues",
    "PreScores",
    "Prepares",
    "RawScores",
    "Reject",
    "Reserves",
    "RestsOnPods",
    "Rows",
    "RulesEviction",
    "ScalarTwin",
    "Scales",
    "Scope",
    "Scores",
    "Skip",
    "State",
    "Tabulates",
    "Tallies",
    "Tiers",
    "Traits",
    "Uncounts",
    "Verdicts",
    "Wait",
    "concerned",
    "hears",
    "implements",
    "misplaced",
]  # fmt: skip
