"""For owners the reserve pods of their reservations do not exist."""

from random import Random

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.scheduling.engine.plugin_results import run_pre_filter
from holdfast.scheduling.engine.plugin_use import PluginUse
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.engine.scoring import score_rows
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from holdfast.scheduling.plugins.node_ports import NodePorts
from holdfast.scheduling.plugins.node_volume_limits import NodeVolumeLimits
from holdfast.scheduling.plugins.pod_topology_spread import PodTopologySpread
from holdfast.scheduling.plugins.volume_restrictions import VolumeRestrictions
from holdfast.testing.random_cluster import RandomCluster
from laws import random_worlds as worlds
from soak_size import law

LAW = law(30)
LOOKING = (NodePorts, InterPodAffinity, PodTopologySpread, VolumeRestrictions, NodeVolumeLimits)


def the_world(objects):
    world = World()
    for obj in objects:
        world.upsert(obj)
    return world


def seen(world, pod):
    """Return the results of the affinity and spread plugins, by node."""
    pod_info = world.pod_info(pod)
    rows, told = world.nodes.rows, {}
    for plugin in (make({}) for make in LOOKING):
        made = run_pre_filter(PluginUse(plugin), pod_info, View(world, pod_info, 0.0))
        verdicts = np.zeros(len(rows), np.int8)
        scores = np.zeros(len(rows))
        if made.filters:
            verdicts = made.plan.filter(rows)
        for score in score_rows(Profile("p", (plugin,)), [made], rows) if made.scores else ():
            scores = score.normalized
        reject = None if made.reject is None else made.reject.reasons
        told[plugin.name] = {
            world.nodes.names[row]: (int(verdicts[i]), float(scores[i]), reject)
            for i, row in enumerate(rows.tolist())
        }
    return told


def matched(world, pod):
    """Return the uids of the reservations that a pod may use."""
    match = world.match(world.pod_info(pod))
    return set() if match is None else {world.reservations.at(int(s)).uid for s in match.slots}


@LAW
@given(objects=worlds.clusters(), asking=worlds.pods("asking"))
def test_results_for_an_owner_equal_those_without_its_reservations(objects, asking):
    world = the_world(objects)
    mine = matched(world, asking)
    assume(mine)
    without = the_world([obj for obj in objects if obj.uid not in mine])
    assert seen(world, asking) == seen(without, asking)


@LAW
@given(seed=st.integers(0, 2**32))
def test_they_stay_equal_through_random_events(seed):
    cluster = RandomCluster(Random(seed), nodes=5)
    asking = cluster.a_waiting_pod()
    for _ in range(12):
        for _ in range(3):
            cluster.step()
        mine = matched(cluster.world, asking)
        if not mine:
            continue
        without = cluster.rebuilt()
        for obj in cluster.others.values():
            if obj.uid in mine:
                without.delete(obj)
        assert seen(cluster.world, asking) == seen(without, asking)
