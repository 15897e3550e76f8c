"""What plugins compute before the scheduling cycle of a pod, in short steps.

Each ``yield`` is a pause in which the world may change. ``scheduler.preparation`` decides which
pauses are used, and how long other pods wait.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

from holdfast.columns.pod_info import PodInfo
from holdfast.engine.decision import rows_to_filter
from holdfast.engine.decision_cache import decision_cache
from holdfast.engine.expected_rejection import filters_for_post_filter
from holdfast.engine.profile import Profile
from holdfast.framework.plugin import Plugin
from holdfast.framework.points import Point
from holdfast.framework.world import World


def prepare_in_steps(profile: Profile, pod: PodInfo, world: World, now: float) -> Iterator[None]:
    """Compute what the cycle of a pod will read, with pauses in which the world may change."""
    if pod.excess or not world.nodes.row_of:
        return  # no plugin is called for it
    yield from world.reservations.match_in_steps(pod)
    view = profile.view(pod, world, now)
    for plugin in profile.plugins_with(Plugin.prepare):
        rows = partial(rows_to_filter, profile, pod, world, now, plugin.name)
        yield from plugin.prepare(pod, view, rows)
    needing = {
        plugin.name
        for plugin in profile.plugins_with(Plugin.filter_needs_preparation)
        if plugin.filter_needs_preparation(pod, view)
    }
    if needing:
        yield from _prepare_filters(profile, needing, pod, world, now)
    for last in profile.plugins_with(Plugin.prepare_post_filter):
        if last.post_filter_needs_preparation(pod, view) and _runs_post_filter(profile, last):
            filters = filters_for_post_filter(profile, pod, world, now)
            if filters:
                # Another view: the world may have changed since.
                yield from last.prepare_post_filter(filters, profile.view(pod, world, now))


def _runs_post_filter(profile: Profile, plugin: Plugin) -> bool:
    """Return whether a plugin is enabled at PostFilter."""
    return plugin in profile.plugins_at(Point.POST_FILTER)


def _prepare_filters(
    profile: Profile,
    plugins: Collection[str],
    pod: PodInfo,
    world: World,
    now: float,
) -> Iterator[None]:
    """Prepare the plans that the pod's class has for these plugins."""
    cache = decision_cache(profile, world)
    # Another view than that of the plugins before, after which the world may have changed.
    view = profile.view(pod, world, now)
    for outcome in cache.pod_class(pod, view).outcomes:
        if outcome.use.name in plugins and not outcome.skip and outcome.reject is None:
            yield from outcome.plan.prepare_rows()
