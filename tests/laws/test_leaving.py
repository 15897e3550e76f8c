"""What filters say of a row without some pods holds once those pods have left."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.engine.decision_cache import DecisionCache
from holdfast.engine.nominated_pods import run_filter_plugins
from holdfast.engine.plugin_results import active_filters
from holdfast.framework.plugin import PodChange
from holdfast.framework.view import View
from holdfast.framework.world import World
from holdfast.plugins import default_profiles
from laws import random_worlds as worlds
from soak_size import law

PROFILE = default_profiles()["default-scheduler"]


def filters(world, pod):
    """What filters for a pod, or None if preparing turned it away."""
    pod_info, memory = world.pod_info(pod), DecisionCache(PROFILE)
    view = View(world, pod_info, 0.0)
    active = memory.pre_filter_per_pod(memory.pod_class(pod_info, view), pod_info, view)
    return None if any(p.reject is not None for p in active) else active_filters(active)


@law(80)
@given(data=st.data(), objects=worlds.clusters(), asking=worlds.pods("asking"))
def test_a_victim_gives_back_what_its_leaving_does(data, objects, asking):
    """Offers that owners overdraw or that limit them, pod slots, several draws of one pod."""
    world = World()
    for obj in objects:
        world.upsert(obj)
    there = {row: [*world.nodes.pods_on(row).values()] for row in world.nodes.row_of.values()}
    drawn = set(world.offers.rows_drawn().tolist())
    rows = sorted(row for row in drawn or there if there[row])
    if not rows or (before := filters(world, asking)) is None:
        return
    row = data.draw(st.sampled_from(rows))
    gone = data.draw(st.lists(st.sampled_from(there[row]), min_size=1, unique=True))
    promised = run_filter_plugins(before, row, PodChange(removed={row: gone}))
    for pod in gone:
        world.delete(pod.pod)
    after = filters(world, asking)
    if after is None:
        return
    if promised is None:
        assert run_filter_plugins(after, row) is None, (
            "the dry run saw room that eviction does not make"
        )
    else:
        assert run_filter_plugins(after, row) is not None, (
            "eviction makes room that the dry run did not see"
        )
