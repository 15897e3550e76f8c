"""Filter results for a row without some pods equal those after the pods are removed."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.scheduling.engine.decision_cache import DecisionCache
from holdfast.scheduling.engine.nominated_pods import run_filter_plugins
from holdfast.scheduling.engine.plugin_results import active_filters
from holdfast.scheduling.framework.plugin import PodChange
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from laws import random_worlds as worlds
from soak_size import law

PROFILE = default_profiles()["default-scheduler"]


def filters(world, pod):
    """Return the filters of a pod, or None if PreFilter rejected it."""
    pod_info, cache = world.pod_info(pod), DecisionCache(PROFILE)
    view = View(world, pod_info, 0.0)
    active = cache.outcomes_for(cache.pod_class(pod_info, view), view)
    return None if any(p.reject is not None for p in active) else active_filters(active)


@law(80)
@given(data=st.data(), objects=worlds.clusters(), asking=worlds.pods("asking"))
def test_a_hypothetical_removal_equals_a_real_one(data, objects, asking):
    """With overused and Restricted reservations, pod slots, and pods that use several."""
    world = World()
    for obj in objects:
        world.upsert(obj)
    there = {row: [*world.nodes.pods_on(row).values()] for row in world.nodes.row_of.values()}
    drawn = set(world.reservations.rows_with_allocations().tolist())
    rows = sorted(row for row in drawn or there if there[row])
    if not rows or (before := filters(world, asking)) is None:
        return
    row = data.draw(st.sampled_from(rows))
    gone = data.draw(st.lists(st.sampled_from(there[row]), min_size=1, unique=True))
    expected = run_filter_plugins(before, row, PodChange(removed={row: gone}))
    for pod in gone:
        world.delete(pod.pod)
    after = filters(world, asking)
    if after is None:
        return
    if expected is None:
        assert run_filter_plugins(after, row) is None, (
            "the row passed without the pods, but not after they were removed"
        )
    else:
        assert run_filter_plugins(after, row) is not None, (
            "the row failed without the pods, but not after they were removed"
        )
