"""Find out before a scheduling cycle whether the PostFilter plugins will run in it.

That takes a run of the filters. Most pods fit, and those before them tell for how long: if n rows
were feasible for a pod, an equal one fits until n rows have changed, or an eighth of n where a
filter reads more than its row.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.columns.pod_info import PodInfo
from holdfast.engine.decision import feasible
from holdfast.engine.feasible_rows import Feasible
from holdfast.engine.next_tier import wants_better_tiers
from holdfast.engine.plugin_results import active_filters
from holdfast.engine.profile import Profile
from holdfast.framework.plugin import FilterPair
from holdfast.framework.rejection import Rejection
from holdfast.framework.world import World
from holdfast.shared_cache import SharedCache

_MAX_KNOWN = 4096
_ROWS_OF_A_CHANGE = 8
"""How many rows one changed row may make infeasible, where a filter reads other rows: a guess."""


class _Fit(NamedTuple):
    """Pods fit while the epochs are these and the journal is before this position."""

    stamp: int
    end: int

    def holds(self, world: World) -> bool:
        """Return whether pods of this spec still fit; nominated pods need a run of the filters."""
        nodes = world.nodes
        at, stamp = nodes.journal.seq, nodes.epochs.stamp
        return at < self.end and stamp == self.stamp and not world.nominations


def filters_for_post_filter(
    profile: Profile, pod: PodInfo, world: World, now: float
) -> tuple[FilterPair, ...]:
    """Return the filters and plans that PostFilter plugins will get; () if they will not run.

    A wrong answer is harmless: only preparations depend on it.
    """
    nodes = world.nodes
    known: SharedCache[_Fit]
    known = world.caches.setdefault((profile, "fitting pods"), SharedCache(_MAX_KNOWN))
    key = (pod.spec_key, nodes.label_group_of(pod).id, pod.is_reserve_pod)
    fit = known.get(key, pod.namespace)
    if fit is not None and fit.holds(world):
        return ()
    found = feasible(profile, pod, world, now)
    if isinstance(found, Rejection):
        return () if found.error else found.filters
    if found.pod_class.parts.may_have_tiers and wants_better_tiers(found):
        return active_filters(found.outcomes)
    count = (
        found.row_count if _depends_on_rows_alone(found) else found.row_count // _ROWS_OF_A_CHANGE
    )
    fit = _Fit(nodes.epochs.stamp, nodes.journal.seq + max(1, count))
    known.put(key, fit, pod.namespace)
    return ()


def _depends_on_rows_alone(found: Feasible) -> bool:
    """Return whether a change of one row makes at most that row infeasible."""
    only_kept = found.is_of_class and not found.pod_class.parts.filters_per_pod
    return only_kept and found.mask is None and found.whole_class is None
