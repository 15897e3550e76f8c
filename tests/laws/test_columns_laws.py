"""Columns and decisions after random events equal those computed from scratch."""

from random import Random
from unittest.mock import patch

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from holdfast.scheduling.engine.decision import decide, feasible, scored_rows
from holdfast.scheduling.engine.profile import build_profile
from holdfast.scheduling.engine.scoring import score_rows, total
from holdfast.scheduling.framework.plugin import Code
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.scheduling.plugins import REGISTRY, default_profiles
from holdfast.state.columns import journal
from holdfast.state.columns.interner import PODS
from holdfast.testing import a_node, a_pod, typed
from holdfast.testing.random_cluster import HOST, ZONE, RandomCluster
from holdfast.testing.reference import first_objection, places, totals
from holdfast.testing.reference_neighbours import Surroundings
from soak_size import law

LAW = law(20)
seeds = st.integers(0, 2**32)
STANDARD = [
    "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts",
    "NodeResourcesFit", "PodTopologySpread", "InterPodAffinity",
    "NodeResourcesBalancedAllocation", "ImageLocality", "DefaultBinder",
]  # fmt: skip


def contents(node_table):
    """Return the contents of a node table, by node name."""
    names, size = node_table.resources, node_table.size
    rows = {}
    for name, row in node_table.row_of.items():
        amounts = {
            names[r]: (int(node_table.allocatable[r, row]), int(node_table.requested[r, row]))
            for r in range(len(names))
            if node_table.allocatable[r, row] or node_table.requested[r, row]
        }
        assert (
            node_table.amounts.free[:, row]
            == node_table.allocatable[:, row] - node_table.requested[:, row]
        ).all()
        left = node_table.allocatable[:2, row] - node_table.amounts.nonzero[:, row]
        assert (node_table.amounts.free_times_100[:, row] == 100 * left).all()
        rows[name] = (
            amounts,
            node_table.nonzero_millicores[row], node_table.nonzero_bytes[row],
            bool(node_table.unschedulable[row]), node_table.taint_sets[node_table.taint_set[row]],
            value(node_table, ZONE, row), value(node_table, HOST, row),
            sorted(node_table.pods_on(row)),
        )  # fmt: skip
    assert size >= len(rows)
    return rows


def value(node_table, key, row):
    found = node_table.label(key)[row]
    return node_table.value(key, found) if found >= 0 else None


def decided(profile, pod, world):
    """Return the verdict and total of every node by name, from the cache."""
    found = feasible(profile, profile.view(world.pod_info(pod), world, 0.0))
    names = world.nodes.names
    if isinstance(found, Rejection):
        return {
            names[row]: (Code(int(found.codes[row])), found.plugin_at(row), found.reasons(row))
            for row in world.nodes.rows.tolist()
        }
    rows = found.rows
    if found.mask is None and found.pod_class.totals_complete:
        cached = found.pod_class.totals[rows]
        if (dominant := found.pod_class.parts.dominant_score) is not None:
            cached = cached + dominant.scores_of(rows)
        again = total(score_rows(profile, found.outcomes, rows), len(rows))
        assert (cached == again).all(), "cached totals differ from computed ones"
    ranking, mixed = scored_rows(profile, found)
    rows = rows if isinstance(ranking, slice) else ranking
    sums = total(score_rows(profile, found.outcomes, rows), len(rows))
    assert (mixed == sums).all(), "cached and uncached scores together differ from computed totals"
    return {names[row]: float(sums[i]) for i, row in enumerate(rows.tolist())}


def history(seed, steps=25):
    cluster = RandomCluster(Random(seed))
    for _ in range(steps):
        cluster.step()
    return cluster


@LAW
@given(seeds)
def test_a_node_table_built_at_once_equals_one_built_by_events(seed):
    cluster = history(seed, 60)
    assert contents(cluster.world.nodes) == contents(cluster.rebuilt().nodes)


@law(10)
@given(seeds, st.sampled_from([0, journal.FEW_ROWS]))
def test_incremental_decisions_equal_decisions_from_scratch(seed, few):
    """Few changed rows are updated one by one, many as arrays; with ``few`` 0 all as arrays."""
    cluster = RandomCluster(Random(seed))
    profile = default_profiles()["default-scheduler"]
    pods = [cluster.a_waiting_pod() for _ in range(3)]
    with patch.object(journal, "FEW_ROWS", few):
        for _ in range(20):
            for _ in range(cluster.random.randint(1, 3)):
                cluster.step()
            pod = cluster.random.choice(pods)
            assert decided(profile, pod, cluster.world) == decided(profile, pod, cluster.rebuilt())


@LAW
@given(seeds)
def test_the_order_of_rows_does_not_matter(seed):
    cluster = history(seed)
    profile = default_profiles()["default-scheduler"]
    pod = cluster.a_waiting_pod()
    assert decided(profile, pod, cluster.rebuilt(shuffled=True)) == decided(
        profile, pod, cluster.rebuilt()
    )


@LAW
@given(seeds)
def test_columns_equal_the_slow_reference(seed):
    cluster = RandomCluster(Random(seed))
    profile = build_profile("standard", REGISTRY, enabled=[(name, 0) for name in STANDARD])
    for _ in range(12):
        for _ in range(4):
            cluster.step()
        for key in list(cluster.others):  # the reference has no reservations and policies
            cluster.world.delete(cluster.others.pop(key))
        pod = cluster.a_waiting_pod()
        standing = [*cluster.pods.values()]
        for pod_info, node in cluster.assumed.values():
            standing.append(_on(pod_info.pod, node))
        there = places(cluster.nodes.values(), standing)
        around = Surroundings.of(cluster.nodes.values(), standing, cluster.furniture.values())
        objections = {
            name: first_objection(pod, place, there, around) for name, place in there.items()
        }
        passing = {name: there[name] for name, word in objections.items() if not word}
        got = decided(profile, pod, cluster.world)
        if passing:
            assert got == totals(pod, passing, around)
        else:
            excluded = {name for name, word in got.items() if word[1] == ""}
            named = {n: w[1] or "NodeAffinity" for n, w in got.items() if n not in excluded}
            assert named == {n: w for n, w in objections.items() if n not in excluded}


def _on(pod, node):

    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))


@LAW
@given(seeds)
def test_assume_and_forget_change_nothing(seed):
    cluster = history(seed)
    nodes = cluster.world.nodes
    before = contents(nodes)
    pod_info = cluster.world.pod_info(cluster.a_waiting_pod())
    row = nodes.row_of[cluster.random.choice(sorted(nodes.row_of))]
    nodes.assume(pod_info, row)
    nodes.hold("promise", row, {0: 500, PODS: 0}, pod_slots=1)
    assert contents(nodes) != before
    nodes.release("promise")
    nodes.forget(pod_info.uid)
    assert contents(nodes) == before


@LAW
@given(seeds)
def test_a_fork_is_independent(seed):
    cluster = history(seed)
    profile = default_profiles()["default-scheduler"]
    pod = cluster.a_waiting_pod()
    before, answer = contents(cluster.world.nodes), decided(profile, pod, cluster.world)
    fork = cluster.world.fork()
    assert contents(fork.nodes) == before
    assert decided(profile, pod, fork) == answer
    own, cluster.world = cluster.world, fork
    for _ in range(10):
        cluster.step()
    assert contents(own.nodes) == before
    assert decided(profile, pod, own) == answer
    assert decided(profile, pod, fork) == decided(profile, pod, cluster.rebuilt())


@LAW
@given(seeds)
def test_confirming_an_assumed_pod_logs_no_row(seed):
    cluster = history(seed)
    cluster.assumed.clear()
    cluster.assume()
    seq = cluster.world.nodes.seq
    cluster.confirm()
    assert cluster.world.nodes.seq == seq


@LAW
@given(seeds)
def test_ties_are_broken_evenly(seed):

    cluster = RandomCluster(Random(seed), nodes=0)

    for i in range(4):
        cluster.world.upsert(typed(a_node(f"n{i}")))
    profile, rng = default_profiles()["default-scheduler"], np.random.default_rng(seed)
    pod = cluster.world.pod_info(typed(a_pod()))
    seen = [decide(profile, profile.view(pod, cluster.world, 0.0), rng).row for _ in range(400)]
    assert np.bincount(seen, minlength=4).min() > 50
