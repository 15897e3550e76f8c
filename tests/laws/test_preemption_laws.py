"""Preemption over columns equals the simple reference."""

from collections import Counter
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.api.reservation_names import DISABLE_PREEMPTIBLE as PROTECTED
from holdfast.scheduling.engine.audit import Auditor
from holdfast.scheduling.engine.decision import feasible
from holdfast.scheduling.engine.profile import build_profile
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import REGISTRY
from holdfast.state.columns import journal
from holdfast.state.reservations.reserve_pod import reserve_pod
from holdfast.testing import a_node, a_pod, typed
from holdfast.testing.reference_preemption import preempt
from laws.busy_cluster import NOW, BusyCluster
from soak_size import law

LAW = law(8)
EVERYTHING = [(entry.name, 0) for entry in REGISTRY]
RESOURCES_ONLY = [("NodeUnschedulable", 0), ("TaintToleration", 0), ("NodeResourcesFit", 0),
              ("DefaultPreemption", 0), ("DefaultBinder", 0)]  # fmt: skip

NEIGHBOURS = [*RESOURCES_ONLY[:-2], ("NodePorts", 0), ("PodTopologySpread", 0),
              ("InterPodAffinity", 0), *RESOURCES_ONLY[-2:]]  # fmt: skip
"""Filters that depend on the pods of a node and have ``pod_limits``."""


def by_name(candidates):
    return {c.node: (tuple(v.name for v in c.victims), c.violations) for c in candidates}


def compare(profile, pod, world):
    """Compare both for a pod, unless it fits or may not preempt; return what was compared."""
    return both(profile, world.pod_info(pod), world)


def compare_reservation(profile, reservation, world):
    """The same for a reservation, with protected pods."""
    world.upsert(reservation)
    pod_info = world.pod_info(reserve_pod(reservation), is_reserve_pod=True)
    try:
        return both(profile, pod_info, world, lambda pod: pod.labels.get(PROTECTED) == "true")
    finally:
        world.delete(reservation)


def both(profile, pod_info, world, is_protected=lambda _: False):
    rejection = feasible(profile, profile.view(pod_info, world, NOW))
    if not isinstance(rejection, Rejection) or rejection.error or not rejection.nodes:
        return Counter()
    view = View(world, pod_info, NOW)
    plugin = next(p for p in profile.plugins if p.name == "DefaultPreemption")
    world.auditor = Auditor(world)
    result = plugin.post_filter(rejection, view)
    world.auditor.raise_faults()
    if "not eligible" in result.message:
        return Counter()
    wanted = preempt(rejection, view, is_protected)
    assert result.message == wanted.message
    assert tuple(result.tied_nodes) == wanted.best
    if not wanted.best:
        return Counter(nothing=1)
    assert result.nominated_node == wanted.best[0]
    assert by_name(result.candidates) == wanted.victims
    assert tuple(v.name for v in result.victims) == wanted.victims[result.nominated_node][0]
    assert all(world.nodes.pod(v.uid)[0] is v for v in result.victims)
    violations = sum(victims[1] for victims in wanted.victims.values())
    return Counter({"found": 1, "violations": violations})


def reserve(seed):
    """Apply random events, and compare preemption for reservations."""
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
def test_preemption_by_reservations_equals_the_reference(seed, few):
    with patch.object(journal, "FEW_ROWS", few):
        reserve(seed)


def decided(profile, pod_info, world):
    """Return the decision for a pod by node, with nominated pods."""
    found = feasible(profile, profile.view(pod_info, world, NOW))
    names = world.nodes.names
    if not isinstance(found, Rejection):
        return sorted(names[row] for row in found.rows.tolist()), found.preselected_row
    by_node = {
        names[row]: (int(found.codes[row]), found.plugin_at(row), found.reasons(row))
        for row in world.nodes.rows.tolist()
    }
    return found.message(), found.unschedulable_plugins, by_node


def live(seed, plugins):
    """Apply random events and compare repeatedly, so that cached results are used."""
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
            pod_info = cluster.nominate_pod(pod_info)
            anew = cluster.world.fork()
        kept = decided(profile, pod_info, cluster.world)
        assert kept == decided(profile, anew.pod_info(pod_info.pod), anew)
    return seen


@LAW
@given(
    seed=st.integers(0, 2**32),
    few=st.sampled_from([0, journal.FEW_ROWS]),
    plugins=st.sampled_from([EVERYTHING, RESOURCES_ONLY, NEIGHBOURS, NEIGHBOURS]),
)
def test_preemption_by_pods_equals_the_reference(seed, few, plugins):
    """Few changed rows are updated one by one, many as arrays; with ``few`` 0 all as arrays."""
    with patch.object(journal, "FEW_ROWS", few):
        live(seed, plugins)


@pytest.mark.parametrize(
    "ask", [lambda seed: live(seed, EVERYTHING), lambda seed: live(seed, NEIGHBOURS), reserve]
)
def test_the_random_clusters_cover_all_cases(ask):
    seen = sum(map(ask, range(3)), Counter())
    assert min(seen[what] for what in ("found", "nothing", "violations")) > 3, seen


def test_the_only_pod_of_a_required_affinity_may_be_a_victim():
    """Without it the pod is the first of its affinity group, which may run anywhere."""
    needed = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [needed]}}
    world = World()
    for name in "xy":
        world.upsert(typed(a_node(name, cpu="1", labels={"zone": name})))
    world.upsert(typed(a_pod("old", cpu="1", node="x", labels={"app": "a"})))
    world.upsert(typed(a_pod("other", cpu="1", node="y", labels={"app": "b"})))
    pod = typed(a_pod("p", cpu="1", priority=9, labels={"app": "a"}, affinity=near))
    assert compare(build_profile("all", REGISTRY, enabled=NEIGHBOURS), pod, world)["found"]
