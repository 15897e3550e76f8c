"""The plan of a plugin for a pod: the object that its ``pre_filter`` returns.

A plan derives from one or several of five classes. ``filter`` with ``reason`` or ``reasons``,
``score`` and ``tier`` must be written; every other method has a default that is correct, and often
slow or silent. Its docstring says what an author gains by writing it.

=================  =================================================================
NodeFilter         reject nodes
NodeScorer         prefer some nodes to others
Tiers              divide nodes into tiers that are compared before any score
PreemptionRules    tell preemption how the verdicts depend on pods (``preemption_rules``)
Reserver           reserve resources for a placed pod, and write before it is bound
=================  =================================================================

Unless the plugin's scope is CLUSTER, a plan is shared by all pods with the same ``reads``: it may
hold arrays of the columns, but neither the view nor data of a single pod.

All optional methods are here. Before, each had a protocol: with 47 protocols an author looked for
them in several modules, and 21 protocols had one implementer or none (decision 0023). The engine
looks up once which methods a class of plans has, never per pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.scheduling.framework.values import (
    NO_CHANGE,
    AnyRows,
    ApiCalls,
    Placement,
    PodChange,
    PreBindCalls,
    RawScores,
    Reject,
    Rows,
    Skip,
    Verdicts,
)

if TYPE_CHECKING:
    from holdfast.state.columns.pod_info import PodInfo


class PodPlan:
    """The plan of one plugin for a pod; derive from the classes below, not from this one."""

    __slots__ = ()

    allowed_rows: Rows | None = None
    """The plugin rejects all rows except these; None: any row may be suitable."""
    row_scope: bool = False
    """The results for this plan depend on the row alone, although the plugin's scope is DOMAIN, so
    they are cached."""

    def prepare_rows(self) -> Iterator[None]:
        """Compute in short steps what ``filter`` and ``score`` read; yield as ``Plugin.prepare``.

        Called if ``filter_needs_preparation`` of the plugin returned True. The scheduling cycle
        uses the same plan. Most calls find it prepared: return at once.
        """
        return iter(())


class NodeFilter(PodPlan):
    """Reject nodes: ``filter``, and ``reason`` or ``reasons``."""

    __slots__ = ()

    filters: bool = True
    """Whether it filters this pod; False for a plan that only scores it."""
    reason: str
    """The reason of every rejected row, if there is only one; else write ``reasons``. It has no
    default: a dataclass would inherit that."""

    def filter(self, rows: Rows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Return 0, 1 or 2 per row (see Code), with pods hypothetically added and removed.

        DOMAIN and CLUSTER plugins may also return 4 (ERROR): it fails the whole attempt.
        ``rows`` may be a slice if the plugin has the trait ``accepts_slices`` (``AnyRows``).
        """
        raise NotImplementedError

    def reasons(self, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return why a row is rejected; called only when a message is written."""
        return (self.reason,)

    def filter_row(self, row: int, change: PodChange = NO_CHANGE) -> int:
        """Return the verdict of one row.

        For speed: after a placement one row has changed, and preemption calls this thousands of
        times.
        """
        return int(self.filter(np.array([row], np.intp), change)[0])

    def filter_each(self, rows: Rows) -> Verdicts:
        """Return what ``filter`` returns for each of the rows alone.

        For a filter that stops at the first row with an error, because that error fails the pod.
        For preemption only that row is no candidate: when preemption called ``filter``, one node
        with an incomplete device pool removed the candidates on all other nodes.
        """
        return self.filter(rows)

    def count_reasons(self, rows: Rows) -> Mapping[str, int]:
        """Return the number of rows per reason; all of them are rejected.

        For speed: without it ``reasons`` is called for each of thousands of rows, unless there is
        only one reason or there are ``reason_groups``.
        """
        if type(self).reasons is NodeFilter.reasons:
            return {self.reason: len(rows)}
        groups = self.reason_groups(rows)
        if groups is None:
            return Counter(reason for row in rows.tolist() for reason in self.reasons(row))
        counts = Counter[str]()
        _, first, sizes = np.unique(groups, return_index=True, return_counts=True)
        for row, size in zip(rows[first].tolist(), sizes.tolist(), strict=True):
            for reason in self.reasons(row):
                counts[reason] += size
        return counts

    def reason_groups(self, rows: AnyRows) -> NDArray[np.int64] | None:
        """Return a group number per row; rows of one group have the same reasons.

        For speed: then ``reasons`` is called once per group. None: the groups are not known.
        """
        return None

    def explain(self, rows: Rows) -> Mapping[str, Any] | None:
        """Return JSON data about rows that it rejects; it may take a second for all.

        For ``holdfast why`` and ``explain``, where ``reasons`` are not enough.
        """
        return None

    def retry_at(self, pod: PodInfo, rows: Rows) -> float | None:
        """Return the earliest time at which the verdict of a row may change without an event.

        The pod is tried again then. ``rows`` are rows that it rejects. The time is after
        ``view.now``, in seconds since the epoch; None: time changes nothing. ``reads`` must tell by
        ``view.now`` whether it has come, for example as a bool; that needs the trait
        ``reads_outside_spec`` or the scope CLUSTER.
        """
        return None

    def condition_reason(self, rows: Rows) -> str:
        """Return the reason of the PodScheduled condition of a pod that it rejects on all nodes.

        "" for Unschedulable. It is meant for autoscalers, for example; an event of that reason is
        recorded as well. Other plugins may reject some of the nodes, too: if the nodes of a full
        unit also lack CPU, a node that an autoscaler adds still does not help. ``rows`` are the
        rows of all nodes.
        """
        return ""


class NodeScorer(PodPlan):
    """Prefer some nodes: ``score``, and ``normalize_score`` or ``normalize_by_range``."""

    __slots__ = ()

    scores: bool = True
    """Whether it scores this pod; False for a plan that only filters it."""
    score_error: str = ""
    """Why the pod cannot be scored: if nodes must be compared, the attempt fails with this."""

    def score(self, rows: Rows) -> RawScores:
        """Return the raw score of each row; whole numbers, exact in float64.

        In 0..100, unless a method below normalizes them.
        """
        raise NotImplementedError

    def score_row(self, row: int) -> float:
        """Return the raw score of one row.

        For speed: after a placement only one row has changed.
        """
        return float(self.score(np.array([row], np.intp))[0])

    def pre_score(self, feasible: Rows) -> Skip | Reject | None:
        """Look at the feasible rows once before scoring; Skip leaves it out of the weighted sum.

        A Reject fails the attempt with an error.
        A plan with ``scores`` False, of a plugin of scope CLUSTER, may have this as well: it is
        called if there are two or more feasible rows, and may keep them for Reserve.
        """
        return None

    def normalize_score(self, rows: Rows, raw: RawScores) -> RawScores:
        """Return the scores in 0..100 of ``rows``, which are all feasible rows."""
        return raw

    def normalize_by_range(self, raw: Any, low: float, high: float) -> Any:
        """Return raw scores, an array or one number, in 0..100; each element by itself.

        For speed, instead of ``normalize_score``: as only the lowest and the highest raw score
        matter, one row can be updated.
        """
        return raw

    def score_table(self, rows: Rows) -> tuple[Rows, RawScores] | None:
        """Return an index per row into a table of normalized scores, and the table.

        For speed, where many rows share few scores; replaces ``score`` and ``normalize_score``.
        ``rows`` are all feasible rows. None: use those two methods.
        """
        return None


class Tiers(PodPlan):
    """Divide nodes into strict tiers: the lowest tier wins whatever the scores are."""

    __slots__ = ()

    def tier(self, rows: Rows) -> NDArray[np.int32]:
        """Return the tier of each row; only rows of the lowest feasible tier are compared."""
        raise NotImplementedError

    def tier_rows(self) -> Sequence[Rows] | None:
        """Return the rows that pass ``filter``, one array per tier, the best tier first.

        For speed, where tiers change more rarely than pods do: only the best tier is evaluated.
        Rows are ascending, and those of one tier have the same score. An array is the same object
        as before unless its rows have changed. None: use ``filter`` and ``tier``.
        """
        return None

    def preempts_before_next_tier(self) -> bool:
        """Return whether to preempt in better tiers before the pod is placed in a lower one.

        If preemption helps in a better tier, the pod is nominated there and waits; else it is
        placed in the same attempt.
        """
        return False


class Reserver(PodPlan):
    """Reserve resources for a placed pod in the ledgers, and write before and after it is bound.

    ``reserve`` and ``unreserve`` do not wait. The other methods yield their writes.
    """

    __slots__ = ()

    def reserve(self, placement: Placement) -> Reject | None:
        """Reserve; after a Reject ``unreserve`` of every plugin is called in reverse order."""
        return None

    def unreserve(self, placement: Placement) -> None:
        """Undo ``reserve``; must be idempotent and must not fail."""

    def pre_bind(self, placement: Placement) -> PreBindCalls:
        """Yield the writes in order; each yield returns the stored object.

        It may return a Reject of the code UNSCHEDULABLE or UNRESOLVABLE if the pod has to wait for
        something that others change, a quota for example: the writes are undone, and an event of
        this plugin or ``retry_at`` requeues the pod. Events during the attempt are not evaluated,
        so ``retry_at`` should be set. With ``may_end_pending`` it may also return PENDING.
        """
        yield from ()
        return None

    def undo_pre_bind(self, placement: Placement) -> ApiCalls:
        """Yield the writes that undo ``pre_bind``; errors are logged, not raised."""
        yield from ()

    def pre_bind_pre_flight(self, placement: Placement) -> bool:
        """Return whether ``pre_bind`` yields any call for this placement, or may end pending.

        If not, ``pre_bind`` is not called, and the pod's expected node is not written before. That
        saves one of three requests per pod (decision 0030).
        """
        return True

    def may_end_pending(self, placement: Placement) -> bool:
        """Return whether ``pre_bind`` may return ``Reject(Code.PENDING, reasons)``.

        In that case it writes something that another component answers. The attempt ends, and the
        pod waits for an event of this plugin. Its writes stay; those of plugins before it are
        undone, and all plugins unreserve. Events since the pod was popped are kept.
        """
        return False

    def writes_nominated_node(self, placement: Placement) -> bool:
        """Return whether ``pre_bind`` writes ``nominatedNodeName`` before it waits.

        It does so with a patch of the pod's status that it sends anyway.
        """
        return False

    def post_bind(self, placement: Placement) -> ApiCalls | None:
        """Clean up after the pod is bound; writes may be yielded, errors are logged."""
        return None
