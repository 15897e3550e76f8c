"""Let plugins compute data for a pod before its scheduling cycle, in short steps.

A cycle cannot pause, and other pods wait while it runs. So what takes long (searches for devices,
ranks for preemption, counters of new selectors) is computed before. Each ``yield`` is a pause in
which the world may change; ``scheduler.preparation_turns`` decides which pauses are used, and how
long other pods wait.

Most pods need none of this, and asking all plugins cost 8 of the 100 µs of a plain pod. So
``needs_no_step`` remembers the classes for which no plugin had anything to do, until an epoch
changes. Preemption is prepared only if the PostFilter plugins will run, and finding that out takes
a run of the filters. The result is remembered, too: if n rows were feasible for a pod, an equal pod
fits until n rows have changed, or an eighth of n where a filter reads more than its row. With that,
the check costs 0.5 µs for a basic pod next to pods of lower priority.

Preemption is prepared because the first one of a process ranked all pods inside its cycle, which
took 275 ms for 150,000 pods, and 480 ms with budgets. To compute ranks for every pod that could
preempt would be worse: clusters that never preempt would pay, and each preemption makes the ranks
outdated (decision 0031).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from holdfast.runtime.shared_cache import SharedCache
from holdfast.scheduling.engine.decision import feasible, rows_to_filter
from holdfast.scheduling.engine.decision_cache import decision_cache
from holdfast.scheduling.engine.feasible_rows import Feasible
from holdfast.scheduling.engine.plugin_results import active_filters
from holdfast.scheduling.engine.post_filter import wants_better_tiers
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.plugin import FilterPair, Plugin, Rows
from holdfast.scheduling.framework.points import Point
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.state.columns.pod_info import PodInfo

_MAX_KNOWN = 4096
_ROWS_OF_A_CHANGE = 8
"""How many rows one changed row may make infeasible, where a filter reads other rows: a guess. If
it is too high, filters run needlessly; if too low, a preemption takes long in its cycle, once."""


def needs_no_step(profile: Profile, view: View) -> bool:
    """Return whether the cycle of a pod can begin at once; False if that is not known."""
    if view.pod.excess or not view.nodes.row_of:
        return True  # no plugin is called for it
    # The key of a class has the pod's reservations, so finding them comes first. With 300 terms of
    # affinity and 2,000 reservations it took 33 s in one step.
    if view.world.reservations.match_in_steps(view.pod) is not None:
        return False
    if not decision_cache(profile, view.world).is_prepared(view):
        return False
    return not _expecting_post_filter(profile, view)


def prepare_in_steps(profile: Profile, pod: PodInfo, world: World, now: float) -> Iterator[None]:
    """Compute what the cycle of a pod will read, with pauses in which the world may change.

    So after each part a new view is made: one from before a pause may have outdated reservations.
    What was computed before a pause may be outdated, too, so the caller repeats all of this until a
    run needs no pause.
    """
    if pod.excess or not world.nodes.row_of:
        return  # no plugin may see a pod whose lists are too long
    view = profile.view(pod, world, now)
    steps = world.reservations.match_in_steps(pod)
    idle = steps is None
    if steps is not None:
        yield from steps
        view = profile.view(pod, world, now)

    def rows_for(plugin: str) -> Rows:
        return rows_to_filter(profile, profile.view(pod, world, now), plugin)

    for plugin in profile.plugins_with(Plugin.prepare):
        name = plugin.name
        steps = plugin.prepare(pod, view, lambda name=name: rows_for(name))  # type: ignore[misc]
        if steps is not None:
            idle = False
            yield from steps
    needing = {
        plugin.name
        for plugin in profile.plugins_with(Plugin.filter_needs_preparation)
        if plugin.filter_needs_preparation(pod, view)
    }
    if needing:
        # Another view: the world may have changed since.
        yield from _prepare_rows(profile, needing, profile.view(pod, world, now))
    elif idle:
        decision_cache(profile, world).note_prepared(view)
    for plugin in _expecting_post_filter(profile, view):
        filters = _filters_for_post_filter(profile, profile.view(pod, world, now))
        if filters:
            yield from plugin.prepare_post_filter(filters, profile.view(pod, world, now))


def _prepare_rows(profile: Profile, plugins: Collection[str], view: View) -> Iterator[None]:
    """Prepare the plans that the pod's class has for these plugins."""
    for outcome in decision_cache(profile, view.world).pod_class(view.pod, view).outcomes:
        if outcome.use.name in plugins and not outcome.skip and outcome.reject is None:
            yield from outcome.plan.prepare_rows()


def _expecting_post_filter(profile: Profile, view: View) -> list[Plugin]:
    """Return the plugins whose ``post_filter`` may run for the pod, and then takes long."""
    return [
        plugin
        for plugin in profile.plugins_with(Plugin.prepare_post_filter)
        if plugin.post_filter_needs_preparation(view.pod, view)
        and plugin in profile.plugins_at(Point.POST_FILTER)
        and not _is_known_to_fit(profile, view)
    ]


class _Fit(NamedTuple):
    """Pods fit while the epochs are these and the journal is before this position."""

    stamp: int
    end: int


def _fitting(profile: Profile, world: World) -> SharedCache[_Fit]:
    known: SharedCache[_Fit]
    known = world.caches.setdefault((profile, "fitting pods"), SharedCache(_MAX_KNOWN))
    return known


def _spec_of(view: View) -> tuple[object, ...]:
    pod = view.pod
    return (pod.spec_key, view.nodes.label_group_of(pod).id, pod.is_reserve_pod)


def _is_known_to_fit(profile: Profile, view: View) -> bool:
    """Return whether pods of this spec still fit; nominated pods need a run of the filters.

    A wrong answer is harmless, so the key is shorter than that of a class: it leaves out what
    plugins read outside of the spec.
    """
    fit = _fitting(profile, view.world).get(_spec_of(view), view.pod.namespace)
    if fit is None or view.world.nominations:
        return False
    return view.nodes.journal.seq < fit.end and view.nodes.epochs.stamp == fit.stamp


def _filters_for_post_filter(profile: Profile, view: View) -> tuple[FilterPair, ...]:
    """Return the filters that PostFilter plugins will get; () if they will not run.

    A wrong answer is harmless: only preparations depend on it.
    """
    found = feasible(profile, view)
    if isinstance(found, Rejection):
        return () if found.error else found.filters
    if found.pod_class.parts.may_have_tiers and wants_better_tiers(found):
        return active_filters(found.outcomes)
    count = found.row_count
    if not _depends_on_rows_alone(found):
        count //= _ROWS_OF_A_CHANGE
    fit = _Fit(view.nodes.epochs.stamp, view.nodes.journal.seq + max(1, count))
    _fitting(profile, view.world).put(_spec_of(view), fit, view.pod.namespace)
    return ()


def _depends_on_rows_alone(found: Feasible) -> bool:
    """Return whether a change of one row makes at most that row infeasible."""
    only_kept = found.is_of_class and not found.pod_class.parts.filters_per_pod
    return only_kept and found.mask is None and found.whole_class is None
