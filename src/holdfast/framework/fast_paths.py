"""Optional methods for plugins that must be fast: the same answers at a lower cost.

Nothing here changes what a plugin decides. ``check_plugin`` compares these methods with the
ordinary ones that they replace, except ``prepare`` and ``prepare_post_filter``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.framework.events import ClusterEvent
from holdfast.framework.traits import Plugin
from holdfast.framework.values import AnyRows, PodChange, RawScores, Rows, State

if TYPE_CHECKING:
    from holdfast.columns.pod_info import PodInfo
    from holdfast.framework.plugin import FilterPlugin
    from holdfast.framework.view import View


class OutsideSpecKeyPlugin(Plugin, Protocol):
    """A cheap part of the cache key, for plugins with the trait ``reads_outside_spec``."""

    def key_outside_spec(self, pod: PodInfo, view: View) -> Hashable:
        """Return the part of ``reads`` outside the pod's spec, namespace and visible labels."""
        ...


class PreparePlugin(Plugin, Protocol):
    """Compute in short steps what ``filter`` or ``post_filter`` would otherwise compute at once."""

    def prepare(self, pod: PodInfo, view: View, rows: Callable[[], Rows]) -> Iterator[None]:
        """Compute it; yield before it begins, and at least every few milliseconds.

        What comes before the first yield runs for every pod before its turn, so it must be short;
        if nothing takes long, there is no yield.
        ``rows`` returns the rows that ``filter`` will get: calling it runs the filters before.
        Other tasks may run, and the world may change, after each step. Nothing may be returned or
        decided: without this method the results are the same.
        """
        ...


class PrepareFilterPlugin(Plugin, Protocol):
    """Compute in short steps what ``filter`` and ``score`` read, in a state that pods share."""

    def filter_needs_preparation(self, pod: PodInfo, view: View) -> bool:
        """Return whether they may take long for the pod; called before every cycle, so be quick."""
        ...

    def prepare_filter(self, state: State) -> Iterator[None]:
        """Compute the results of all rows; yield as in ``prepare``.

        The state is the one that the cycle will use. Most calls find it prepared: return at once.
        """
        ...


class PreparePostFilterPlugin(Plugin, Protocol):
    """Compute in short steps what ``post_filter`` reads, for a pod that the filters will reject."""

    def post_filter_needs_preparation(self, pod: PodInfo, view: View) -> bool:
        """Return whether ``post_filter`` may take long; called before every cycle, so be quick."""
        ...

    def prepare_post_filter(
        self, filters: Sequence[tuple[FilterPlugin, State]], view: View
    ) -> Iterator[None]:
        """Compute it for the pod of the view; yield as in ``prepare``.

        ``filters`` are those of the pod with their states.
        """
        ...


class FilterAndScoreRowPlugin(Plugin, Protocol):
    """Filter and score one row in plain integers; after a placement only one row has changed."""

    def filter_and_score_row(self, state: State, row: int) -> tuple[int, float]:
        """Return the verdict of ``filter`` and the raw score of ``score`` for one row.

        The part that the plugin does not implement is 0.
        """
        ...


class FilterRowPlugin(Plugin, Protocol):
    """Filter one row under hypothetical pod changes; preemption does this thousands of times."""

    def filter_row(self, state: State, row: int, change: PodChange) -> int:
        """Return the verdict of ``filter`` for one row."""
        ...


class NormalizeByRangePlugin(Plugin, Protocol):
    """Normalize with the lowest and highest raw score only, so that one row can be updated."""

    def normalize_by_range(self, state: State, raw: Any, low: float, high: float) -> Any:
        """Return raw scores, an array or one number, in 0..100; each element by itself."""
        ...


class ScoreTablePlugin(Plugin, Protocol):
    """Score by a lookup table, where many rows share few scores; replaces score and normalize."""

    def score_table(self, state: State, rows: Rows) -> tuple[Rows, RawScores] | None:
        """Return an index per row into a table of normalized scores, and the table.

        ``rows`` are all feasible rows. None: use ``score`` and ``normalize_score``.
        """
        ...


class TierRowsPlugin(Plugin, Protocol):
    """List the rows of each tier, where tiers change more rarely than pods do.

    Results are then cached by tier; this replaces ``filter`` and ``tier`` for pods that fit.
    """

    def tier_rows(self, state: State) -> Sequence[Rows] | None:
        """Return the rows that pass ``filter``, an array a tier, the best first.

        Rows are ascending, and those of one tier have the same score. An array is the same object
        as before unless its rows have changed. None: use ``filter`` and ``tier``.
        """
        ...


class CountReasonsPlugin(Plugin, Protocol):
    """Count the reasons of many rejected rows at once, without a loop over nodes."""

    def count_reasons(self, state: State, rows: Rows) -> Mapping[str, int]:
        """Return the number of ``rows`` per reason; this plugin rejected all of them."""
        ...


class ReasonGroupsPlugin(Plugin, Protocol):
    """Group rejected rows by their reasons, so that reasons are computed once per group."""

    def reason_groups(self, state: State, rows: AnyRows) -> NDArray[np.int64]:
        """Return a group number per row; rows of one group have the same reasons."""
        ...


class EventKeysPlugin(Plugin, Protocol):
    """Find the rejected pods that an event concerns by keys, where each event concerns few pods.

    ``queueing_hint`` is called only for pods that have a key of the event.
    """

    def pod_keys(self, pod: PodInfo) -> Collection[Hashable]:
        """Return the keys of a pod; they depend on the pod alone."""
        ...

    def event_keys(self, event: ClusterEvent) -> Collection[Hashable] | None:
        """Return the keys of the pods that the event may help; None: any pod."""
        ...
