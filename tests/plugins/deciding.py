"""Helpers that build a world, decide in it and read the result."""

import numpy as np

from holdfast.scheduling.engine.decision import decide
from holdfast.scheduling.engine.explanation import explain
from holdfast.scheduling.engine.post_filter import run_post_filter_plugins
from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing import a_node, typed

PROFILE = default_profiles()["default-scheduler"]
NC = "no new claims to deallocate, preemption: "


def a_world(*objects):
    world = World()
    for obj in objects:
        world.upsert(typed(obj) if isinstance(obj, dict) else obj)
    return world


def small_nodes(count, **more):
    """Identical empty nodes of 4 CPU and 8 Gi, as the scenarios want them."""
    return [a_node(f"n{i}", cpu="4", memory="8Gi", **more) for i in range(1, count + 1)]


def outcome(world, pod, profile=PROFILE, seed=0):
    pod_info = world.pod_info(typed(pod))
    return decide(profile, profile.view(pod_info, world, 0.0), np.random.default_rng(seed))


def node_of(world, pod, profile=PROFILE):
    found = outcome(world, pod, profile)
    assert isinstance(found, Placement), found.message()
    return found.node


def whole_message(world, pod, profile=PROFILE):
    """The fit error with what PostFilter adds."""
    found = outcome(world, pod, profile)
    assert isinstance(found, Rejection)
    effect = run_post_filter_plugins(profile, found, world, 0.0)
    return " ".join(part for part in (found.message(), effect.message) if part)


def explained(world, pod, **options):
    return explain(PROFILE, typed(pod), world, 0.0, **options)


def scores(world, pod, plugin, kind="raw"):
    """One plugin's scores, by node."""
    return {
        node["name"]: node["scores"].get(plugin, {}).get(kind)
        for node in explained(world, pod)["nodes"]
        if node["feasible"]
    }


def feasible_nodes(world, pod):
    return {node["name"] for node in explained(world, pod)["nodes"] if node["feasible"]}
