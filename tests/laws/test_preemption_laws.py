"""Preemption over columns finds what trying every node by itself finds."""

from collections import Counter
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.api.reservation_names import DISABLE_PREEMPTIBLE as SPARED
from holdfast.capacity.reserve_pod import reserve_pod
from holdfast.columns import journal
from holdfast.engine.audit import Auditor
from holdfast.engine.decision import feasible
from holdfast.engine.profile import build_profile
from holdfast.framework.rejection import Rejection
from holdfast.framework.view import View
from holdfast.framework.world import World
from holdfast.plugins import REGISTRY
from holdfast.testing import a_node, a_pod, typed
from holdfast.testing.reference_preemption import preempt
from laws.busy_cluster import NOW, BusyCluster
from soak_size import law

LAW = law(15)
EVERYTHING = [(entry.name, 0) for entry in REGISTRY]
ROOM_ALONE = [("NodeUnschedulable", 0), ("TaintToleration", 0), ("NodeResourcesFit", 0),
              ("DefaultPreemption", 0), ("DefaultBinder", 0)]  # fmt: skip

NEIGHBOURS = [*ROOM_ALONE[:-2], ("NodePorts", 0), ("PodTopologySpread", 0),
              ("InterPodAffinity", 0), *ROOM_ALONE[-2:]]  # fmt: skip
"""Filters that look at who stands there, all of which can say so by limits."""


def by_name(candidates):
    return {c.node: (tuple(v.name for v in c.victims), c.violations) for c in candidates}


def compare(profile, pod, world):
    """Ask both about a pod, unless it fits or may not preempt; tells what there was to compare."""
    return both(profile, world.pod_info(pod), world)


def compare_reservation(profile, reservation, world):
    """The same for a reservation; those who are spared stay out of it."""
    world.upsert(reservation)
    pod_info = world.pod_info(reserve_pod(reservation), is_reserve_pod=True)
    try:
        return both(profile, pod_info, world, lambda pod: pod.labels.get(SPARED) == "true")
    finally:
        world.delete(reservation)


def both(profile, pod_info, world, spares=lambda _: False):
    rejection = feasible(profile, pod_info, world, NOW)
    if not isinstance(rejection, Rejection) or rejection.error or not rejection.nodes:
        return Counter()
    view = View(world, pod_info, NOW)
    plugin = next(p for p in profile.plugins if p.name == "DefaultPreemption")
    world.auditor = Auditor(world)
    effect = plugin.post_filter(None, rejection, view)
    world.auditor.raise_faults()
    if "not eligible" in effect.message:
        return Counter()
    wanted = preempt(rejection, view, spares)
    assert effect.message == wanted.message
    assert tuple(effect.tied_nodes) == wanted.best
    if not wanted.best:
        return Counter(nothing=1)
    assert effect.nominated_node == wanted.best[0]
    assert by_name(effect.candidates) == wanted.victims
    assert tuple(v.name for v in effect.victims) == wanted.victims[effect.nominated_node][0]
    assert all(world.nodes.pod(v.uid)[0] is v for v in effect.victims)
    guarded = sum(victims[1] for victims in wanted.victims.values())
    return Counter({"found": 1, "guarded victims": guarded})


def reserve(seed):
    """Let things happen, and reservations look for room."""
    cluster = BusyCluster(Random(seed), nodes=6)
    cluster.fill()
    args = {"Reservation": {"enablePreemption": True}}
    profile = build_profile("all", REGISTRY, enabled=EVERYTHING, args=args)
    seen = Counter()
    for _ in range(14):
        for _ in range(cluster.random.randint(1, 6)):
            cluster.step()
        seen += compare_reservation(profile, cluster.a_preempting_reservation(), cluster.world)
    return seen


@LAW
@given(seed=st.integers(0, 2**32), few=st.sampled_from([0, journal.FEW_ROWS]))
def test_reservations_find_what_trying_every_node_finds(seed, few):
    with patch.object(journal, "FEW_ROWS", few):
        reserve(seed)


def decided(profile, pod_info, world):
    """What is made of a pod, by node; pods that are nominated crowd their rows."""
    found = feasible(profile, pod_info, world, NOW)
    names = world.nodes.names
    if not isinstance(found, Rejection):
        return sorted(names[row] for row in found.rows.tolist()), found.preselected_row
    told = {
        names[row]: (int(found.codes[row]), found.plugin_at(row), found.reasons(row))
        for row in world.nodes.rows.tolist()
    }
    return found.message(), found.unschedulable_plugins, told


def live(seed, plugins):
    """Let things happen and compare, again and again: what is remembered shall have its chance."""
    cluster = BusyCluster(Random(seed), nodes=6)
    cluster.fill()
    profile = build_profile("all", REGISTRY, enabled=plugins)
    odd = 0.3 if plugins is NEIGHBOURS else 0.0
    pods = [cluster.a_preemptor(odd) for _ in range(3)]
    seen = Counter()
    for _ in range(14):
        for _ in range(cluster.random.randint(1, 6)):
            cluster.step()
        pod = cluster.random.choice(pods)
        seen += compare(profile, pod, cluster.world)
        pod_info, anew = cluster.world.pod_info(pod), cluster.world.fork()
        if cluster.random.random() < 0.3:
            pod_info = cluster.promise_again(pod_info)
            anew = cluster.world.fork()
        kept = decided(profile, pod_info, cluster.world)
        assert kept == decided(profile, anew.pod_info(pod_info.pod), anew)
    return seen


@LAW
@given(
    seed=st.integers(0, 2**32),
    few=st.sampled_from([0, journal.FEW_ROWS]),
    plugins=st.sampled_from([EVERYTHING, ROOM_ALONE, NEIGHBOURS, NEIGHBOURS]),
)
def test_columns_find_what_trying_every_node_finds(seed, few, plugins):
    """Few changed rows go one by one, many as arrays: with ``few`` 0 the arrays do it all."""
    with patch.object(journal, "FEW_ROWS", few):
        live(seed, plugins)


@pytest.mark.parametrize(
    "ask", [lambda seed: live(seed, EVERYTHING), lambda seed: live(seed, NEIGHBOURS), reserve]
)
def test_the_law_compares_something(ask):
    seen = sum(map(ask, range(6)), Counter())
    assert min(seen[what] for what in ("found", "nothing", "guarded victims")) > 3, seen


def test_the_only_one_it_must_be_near_to_may_go():
    """Then it is the first of its kind, and the first may go anywhere."""
    needed = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [needed]}}
    world = World()
    for name in "xy":
        world.upsert(typed(a_node(name, cpu="1", labels={"zone": name})))
    world.upsert(typed(a_pod("old", cpu="1", node="x", labels={"app": "a"})))
    world.upsert(typed(a_pod("other", cpu="1", node="y", labels={"app": "b"})))
    pod = typed(a_pod("p", cpu="1", priority=9, labels={"app": "a"}, affinity=near))
    assert compare(build_profile("all", REGISTRY, enabled=NEIGHBOURS), pod, world)["found"]
