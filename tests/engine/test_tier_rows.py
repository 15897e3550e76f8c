"""Tiers listed by ``tier_rows``: decisions are those of ``filter`` and ``tier``, from caches."""

from collections import Counter
from random import Random

import msgspec
import numpy as np
import pytest

from holdfast.scheduling.engine.decision import all_tiers, feasible
from holdfast.scheduling.engine.profile import PluginEntry, build_profile
from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    NodeFilter,
    NodeScorer,
    Plugin,
    PreemptionRules,
    Scope,
    Skip,
    Tiers,
    Traits,
)
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.scheduling.plugins import REGISTRY
from holdfast.testing import FakeCluster, a_node, a_pod, a_reservation, check_plugin, typed
from soak_size import SEED, rounds

ZONE = "topology.kubernetes.io/zone"
MOST = 6
"""Pods of the app in a zone."""


def is_web(pod):
    return pod.labels.get("app") == "web" and not pod.is_reserve_pod


class FillZones(NodeFilter, NodeScorer, Tiers, PreemptionRules):
    """Fills the zones in the order of their names, each with a number of pods of one app.

    ``known`` are the arrays of rows that were returned before.
    """

    def __init__(self, nodes):
        self.nodes, self.known = nodes, {}

    def zones(self, rows):
        if isinstance(rows, slice):
            rows = np.arange(rows.stop)
        nodes = [self.nodes.nodes[row] for row in rows.tolist()]
        return ["" if node is None else node.metadata.labels.get(ZONE, "~") for node in nodes]

    def counts(self, change):
        found = Counter()
        rows = self.nodes.rows
        for row, zone in zip(rows.tolist(), self.zones(rows), strict=True):
            gone = {pod.uid for pod in change.removed.get(row, ())}
            pods = [*self.nodes.pods_on(row).values(), *change.added.get(row, ())]
            found[zone] += sum(is_web(pod) and pod.uid not in gone for pod in pods)
        return found

    def same(self, array):
        return self.known.setdefault((array.dtype, array.tobytes()), array)

    def filter(self, rows, change=NO_CHANGE):
        counts = self.counts(change)
        return self.same(np.array([counts[zone] >= MOST for zone in self.zones(rows)], np.int8))

    def depends_on_pods(self):
        return np.ones(self.nodes.capacity, np.bool_)

    def reasons(self, row, change=NO_CHANGE):
        (zone,) = self.zones(np.array([row]))
        return (f"zone has {self.counts(change)[zone]} pods",)

    def score(self, rows):
        return self.tier(rows).astype(np.float64)

    def tier(self, rows):
        return np.array(["abc~".find(zone) + 1 for zone in self.zones(rows)], np.int32)

    def tier_rows(self):
        rows = self.nodes.rows
        rows = rows[self.filter(rows) == 0]
        tiers = self.tier(rows)
        return [self.same(rows[tiers == tier]) for tier in np.unique(tiers)]


class NewArrays(FillZones):
    def tier_rows(self):
        return [rows.copy() for rows in super().tier_rows()]


class WrongOrder(FillZones):
    def tier_rows(self):
        return super().tier_rows()[::-1]


class AllRows(FillZones):
    def tier_rows(self):
        return [self.same(self.nodes.rows)]


class ManyScores(FillZones):
    def score(self, rows):
        return np.arange(len(np.arange(self.nodes.capacity)[rows])) % 100.0


class ZonesInOrder(Plugin):
    name = "ZonesInOrder"
    traits = Traits(scope=Scope.DOMAIN, epochs=("nodes", "labels"), accepts_slices=True)

    def __init__(self, plan=FillZones):
        self.plan_classes = (plan,)

    def reads(self, pod, view):
        view.nodes.add_selector_keys(frozenset({"app"}))
        return is_web(pod)

    def pre_filter(self, pod, view):
        return self.plan_classes[0](view.nodes) if is_web(pod) else Skip()


PROFILE = build_profile(
    "default-scheduler", [*REGISTRY, PluginEntry(lambda _args: ZonesInOrder(), "ZonesInOrder")]
)


def a_random_pod(random, number):
    more = {}
    labels = {"app": random.choice(["web", "web", "web", "other"])}
    same_app = {"labelSelector": {"matchLabels": {"app": "web"}}}
    if random.random() < 0.3:
        when = random.choice(["DoNotSchedule", "ScheduleAnyway"])
        key = random.choice([ZONE, "kubernetes.io/hostname"])
        constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, **same_app}
        more["topology_spread_constraints"] = [constraint]
    if random.random() < 0.2:
        term = {"topologyKey": "kubernetes.io/hostname", **same_app}
        more["affinity"] = {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        }
    return a_pod(f"p{number}", cpu=random.choice(["100m", "1", "3"]), labels=labels, **more)


def step(cluster, random, number, nodes, placed):
    """Add or change a node, remove a pod, or place one: every decision is made twice."""
    chance = random.random()
    if chance < 0.15 or not nodes:
        name = random.choice(nodes) if nodes and random.random() < 0.6 else f"n{number}"
        zone = {ZONE: zone} if (zone := random.choice("abc~")) != "~" else {}
        unschedulable = {"unschedulable": True} if random.random() < 0.2 else {}
        cluster.add(a_node(name, cpu="8", labels=zone, spec=unschedulable))
        if name not in nodes:
            nodes.append(name)
            status = {"phase": "Available", "nodeName": name, "allocatable": {"cpu": "1"}}
            owners = {"app": random.choice(["web", "other"])}
            cluster.add(a_reservation(f"r{number}", cpu="1", owner_labels=owners, status=status))
    elif chance < 0.3 and placed:
        cluster.remove(placed.pop(random.randrange(len(placed))))
    else:
        pod = a_random_pod(random, number)
        if node := cluster.place(pod):
            pod["spec"]["nodeName"] = node
            placed.append(pod)


@pytest.mark.parametrize("seed", range(SEED, SEED + rounds(5)))
def test_decisions_by_tier_equal_those_without_caches(seed):
    random, nodes, placed = Random(seed), [], []
    cluster = FakeCluster(profile=PROFILE, seed=seed)
    for number in range(60):
        step(cluster, random, number, nodes, placed)


def zoned_cluster():
    cluster = FakeCluster(profile=PROFILE)
    for i, zone in enumerate("cab"):
        cluster.add(a_node(f"n{i}", cpu="4", labels={ZONE: zone}))
    return cluster


def found_for(cluster, pod):
    info = cluster.world.pod_info(typed(pod))
    return feasible(cluster.profile, cluster.profile.view(info, cluster.world, cluster.now))


def test_only_the_best_tier_with_a_feasible_row_is_evaluated():
    cluster = zoned_cluster()
    pod = a_pod("p", cpu="1", labels={"app": "web"})
    found = found_for(cluster, pod)
    assert found.rows.tolist() == [1]
    assert all_tiers(found).rows.tolist() == [0, 1, 2]
    assert [cluster.place(a_pod(f"p{i}", cpu="1", labels={"app": "web"})) for i in range(5)] == [
        *["n1"] * 4,
        "n2",
    ]
    assert found_for(cluster, a_pod("q")).whole_class is None


def test_classes_of_tiers_stay_while_their_rows_do():
    cluster = zoned_cluster()
    pod = a_pod("p", labels={"app": "web"})
    first = found_for(cluster, pod)
    cluster.add(a_node("n0", cpu="8", labels={ZONE: "c"}))
    again = found_for(cluster, pod)
    assert first.whole_class is not None and again.pod_class is first.pod_class
    cluster.add(a_node("n3", cpu="4", labels={ZONE: "a"}))
    assert found_for(cluster, pod).rows.tolist() == [1, 3]


def test_few_classes_of_tiers_are_kept():
    cluster = zoned_cluster()
    pod = a_pod("p", labels={"app": "web"})
    for i in range(20):
        cluster.add(a_node(f"m{i}", cpu="4", labels={ZONE: "a"}))
        known = found_for(cluster, pod).class_of_all_tiers.known_tiers
        assert len(known) <= 6


def test_a_nominated_pod_and_its_neighbours_evaluate_all_tiers():
    cluster = zoned_cluster()
    pod = a_pod("p", labels={"app": "web"}, status={"nominatedNodeName": "n0"})
    found = found_for(cluster, pod)
    assert (found.whole_class, found.preselected_row) == (None, 0)
    cluster.world.nominations.set(cluster.world.pod_info(typed(pod)), "n0")
    assert found_for(cluster, a_pod("q", labels={"app": "web"})).whole_class is None


def test_rejections_of_pods_in_full_tiers_are_cached():
    cluster = zoned_cluster()
    for i in range(3 * MOST):
        assert cluster.place(a_pod(f"p{i}", cpu="10m", labels={"app": "web"}))
    pod = a_pod("q", cpu="10m", labels={"app": "web"})
    first, again = found_for(cluster, pod), found_for(cluster, pod)
    assert isinstance(first, Rejection)
    assert first.message() == "0/3 nodes are available: 3 zone has 6 pods."
    assert again.reason_counts is first.reason_counts is not None
    cluster.add(a_pod("more", node="n0", cpu="10m", labels={"app": "web"}))
    message = "0/3 nodes are available: 1 zone has 7 pods, 2 zone has 6 pods."
    assert found_for(cluster, pod).message() == message


def test_check_plugin_accepts_tier_rows():
    check_plugin(ZonesInOrder, pods=lambda cluster: web(cluster.a_waiting_pod()), clusters=2)


@pytest.mark.parametrize(
    ("plan", "law"),
    [
        (NewArrays, "tier_rows returns the same arrays"),
        (WrongOrder, "tier_rows equals filter and tier"),
        (AllRows, "tier_rows equals filter and tier"),
        (ManyScores, "rows of a tier have the same score|row-order invariance"),
    ],
)
def test_check_plugin_finds_wrong_tier_rows(plan, law):
    with pytest.raises(AssertionError, match=law):
        check_plugin(lambda: ZonesInOrder(plan), pods=lambda cluster: web(cluster.a_waiting_pod()))


def web(pod):
    meta = msgspec.structs.replace(pod.metadata, labels={**pod.metadata.labels, "app": "web"})
    return msgspec.structs.replace(pod, metadata=meta)
