"""The plugin contract: each extension point is a small protocol, implement only those you need.

A plugin sees all nodes at once: it is asked about an array of rows and answers with an array.
It never does I/O. What must be written to the API server is *yielded* as a ``Call`` from
``pre_bind``, ``bind`` or ``undo_bind`` and the answer is sent back into the generator; whoever
drives it (the scheduler, a test, a what-if) decides what a call means.

One pod's way through a plugin::

    pre_enqueue ────────────── keep the pod out of the queue until something about it changes
    prepare ─┬─ Skip ───────── this plugin has nothing to say about this pod
             ├─ Reject ─────── no node will do
             └─ state
                  filter ───── which rows pass (0), fail but preemption may help (1), fail (2)
                  │  └─ no row passes: reasons, after_reject; then hint, event by event
                  pre_score, score, normalize, tier
                  reserve ──── enter the promise in the ledgers   ⇄ unreserve
                  permit ───── go on, or wait for a word, or not at all
                  pre_bind ─── write claims, annotations          ⇄ undo_bind
                  bind
                  post_bind ── the pod has its node

This module is for every author. All that makes a plugin faster and is optional stands in
``fast_paths``; what a filter that looks at the pods of a node may tell preemption, in
``making_room``. Both can be imported from here.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.framework.events import ClusterEvent
from holdfast.framework.fast_paths import (
    GroupsReasons,
    JudgesOne,
    ReadsBeyondSpec,
    ScalarTwin,
    Scales,
    Tabulates,
    Tallies,
)
from holdfast.framework.making_room import (
    Limit,
    Limits,
    LimitsPods,
    NeedsRoom,
    RestsOnPods,
    RulesEviction,
)
from holdfast.framework.traits import Plugin, Scope, Traits, implements
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
    from holdfast.columns.pod_info import PodInfo
    from holdfast.framework.rejection import Rejection
    from holdfast.framework.view import View
    from holdfast.framework.waiting import Waiting


class PreEnqueues(Plugin, Protocol):
    """Keep a pod out of the queue until something about it changes."""

    def pre_enqueue(self, pod: PodInfo, view: View) -> Reject | None:
        """Say why the pod must not be queued yet, or None."""
        ...


class Prepares(Plugin, Protocol):
    """Look at the pod once, before any node."""

    def prepare(self, pod: PodInfo, view: View) -> State | Skip | Reject | Narrow | Part:
        """Digest the pod; may rule itself out, or every node, or all but some rows.

        Unless the scope is CLUSTER the state serves every pod with the same ``reads``: it may
        keep arrays of the picture, but nothing of this pod alone, and not the view.
        """
        ...


class Filters(Plugin, Protocol):
    """Rule nodes out."""

    def reads(self, pod: PodInfo, view: View) -> Hashable:
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


class AfterRejects(Plugin, Protocol):
    """Do something about a pod that fits nowhere (PostFilter)."""

    def after_reject(self, state: State | None, rejection: Rejection, view: View) -> Effect:
        """Answer with an effect; its message becomes part of the pod's condition."""
        ...


class Hints(Plugin, Protocol):
    """Name the events that may make a pod it rejected schedulable.

    It is asked about the events that ``Traits.hears`` names. A plugin without ``hint`` is taken to
    say yes to every event.
    """

    def hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Tell whether ``event`` is worth another try of ``pod``."""
        ...


class PreScores(Plugin, Protocol):
    """Look at the feasible rows once before scoring; Skip leaves this plugin out of the sum."""

    def pre_score(self, state: State, feasible: Rows) -> Skip | Reject | None:
        """Prepare for scoring these rows."""
        ...


class Scores(Plugin, Protocol):
    """Prefer some nodes."""

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Everything of the pod that filter and score depend on, hashable: the cache key."""
        ...

    def score(self, state: State, rows: Rows) -> RawScores:
        """Raw score of each row; whole numbers, exact in float64."""
        ...


class Normalizes(Plugin, Protocol):
    """Bring raw scores of the feasible rows into 0..100."""

    def normalize(self, state: State, rows: Rows, raw: RawScores) -> RawScores:
        """Scores of ``rows`` in 0..100; rows are all the feasible ones."""
        ...


class Tiers(Plugin, Protocol):
    """Strict pools: a lower tier wins whatever the scores say."""

    def tier(self, state: State, rows: Rows) -> NDArray[np.int32]:
        """Tier of each row; only rows of the lowest feasible tier are ranked."""
        ...


class Reserves(Plugin, Protocol):
    """Enter and withdraw promises in the ledgers; in memory, at once, symmetrical."""

    def reserve(self, state: State, placement: Placement) -> Reject | None:
        """Enter the promise; a Reject undoes every plugin's reserve in reverse order."""
        ...

    def unreserve(self, state: State, placement: Placement) -> None:
        """Withdraw it; must be idempotent and never fail."""
        ...


class Permits(Plugin, Protocol):
    """Have the last word before a pod is bound: go on, wait, or not at all."""

    def permit(self, state: State, placement: Placement, waiting: Waiting) -> Wait | Reject | None:
        """None lets the pod go on; Wait keeps its room until a word comes, or time is up.

        The word is given through ``waiting``, which has every pod that waits now: by this plugin
        when another pod comes, or by whoever holds the scheduler. 15 minutes are the longest wait.
        """
        ...


class PreBinds(Plugin, Protocol):
    """Write to the API server before the pod is bound."""

    def pre_bind(self, state: State, placement: Placement) -> Calls:
        """Yield the writes in order; each yield returns the stored object."""
        ...

    def undo_bind(self, state: State, placement: Placement) -> Calls:
        """Yield the writes that undo pre_bind; errors are logged, not raised."""
        ...


class Binds(Plugin, Protocol):
    """Bind the pod."""

    def bind(self, state: State, placement: Placement) -> Calls | Skip:
        """Yield the binding call, or Skip to leave it to the next binder."""
        ...


class PostBinds(Plugin, Protocol):
    """Hear that a pod has its node."""

    def post_bind(self, state: State, placement: Placement) -> Calls | None:
        """Tidy up; writes may be yielded. Nothing can fail the pod any more, errors are logged."""
        ...


def hears(plugin: Plugin, event: ClusterEvent) -> bool:
    """Tell whether a plugin is to be asked about such events; one without hints hears all."""
    return not implements(plugin, Hints) or plugin.traits.hear(event)


def concerned(plugin: Plugin, placement: Placement) -> bool:
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
    "ReadsBeyondSpec",
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
    "Verdicts",
    "Wait",
    "concerned",
    "hears",
    "implements",
]  # fmt: skip
