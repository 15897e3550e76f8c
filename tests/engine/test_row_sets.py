"""Row sets: a pod nominated to one row of a set counts on all of its rows."""

from random import Random

import numpy as np
import pytest

from holdfast.scheduling.engine.decision import all_tiers, feasible, rank
from holdfast.scheduling.engine.decision_check import placement_faults, rejection_faults
from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    NodeFilter,
    Plugin,
    PreemptionRules,
    Scope,
    Skip,
    Traits,
)
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.testing import (
    FakeCluster,
    a_node,
    a_pod,
    a_resource_policy,
    a_unit,
    check_plugin,
    typed,
)

ZONE = "topology.kubernetes.io/zone"
LARGE = {"cpu": "1000", "memory": "1000Gi", "pods": "1000"}


class LimitInZones(NodeFilter, PreemptionRules):
    """At most two pods of an app in a zone."""

    reason = "zone is full"

    def __init__(self, nodes, app):
        self.nodes, self.app = nodes, app

    def row_sets(self):
        column = self.nodes.label_column(ZONE)
        ids = np.arange(1, len(column.values))
        return (column.ids[None, :] == ids[:, None]) & self.nodes.alive

    def filter(self, rows, change=NO_CHANGE):
        zones = LimitInZones.row_sets(self)
        counts = np.zeros(len(zones), np.int64)
        for row in self.nodes.rows.tolist():
            pods = [*self.nodes.pods_on(row).values(), *change.added.get(row, ())]
            gone = {pod.uid for pod in change.removed.get(row, ())}
            there = sum(p.labels.get("app") == self.app and p.uid not in gone for p in pods)
            counts += there * zones[:, row]
        return ((counts >= 2) @ zones[:, rows].astype(np.int64) > 0).astype(np.int8)


class OnItsOwn(LimitInZones):
    """Says that a pod counts on its own row only."""

    def row_sets(self):
        return np.eye(self.nodes.capacity, dtype=np.bool_)


class TooShort(LimitInZones):
    def row_sets(self):
        return super().row_sets()[:, :1]


class TwoInAZone(Plugin):
    name = "TwoInAZone"

    def __init__(self, plan=LimitInZones, scope=Scope.CLUSTER):
        self.plan_classes, self.traits = (plan,), Traits(scope=scope)

    def reads(self, pod, view):
        return None

    def pre_filter(self, pod, view):
        app = pod.labels.get("app")
        return self.plan_classes[0](view.nodes, app) if app else Skip()


def random_cluster(random):
    cluster = FakeCluster()
    for i in range(random.randrange(3, 12)):
        zone = random.choice("abc")
        labels = {"zone": zone, "disk": random.choice(["hdd", "ssd"])}
        cluster.add(a_node(f"n{i}", labels=labels, **LARGE))
    units = [
        a_unit(
            z, priority=random.choice([0, 1, 5]), nodes={"zone": z}, max_count=random.randrange(5)
        )
        for z in random.sample("abc", random.randrange(1, 4))
    ]
    if random.random() < 0.5:
        units.append(a_unit("ssd", priority=2, nodes={"disk": "ssd"}, max_count=3))
    strategy = random.choice(["prefer", "required"])
    cluster.add(a_resource_policy("web", pods={"app": "web"}, units=units, strategy=strategy))
    for i in range(random.randrange(6)):
        node = f"n{random.randrange(len(cluster.world.nodes.row_of))}"
        cluster.add(a_pod(f"b{i}", node=node, labels={"app": random.choice(["web", "other"])}))
    return cluster


def nominate(cluster, random):
    """Nominate some pods; return them with their nodes."""
    found = []
    for i in range(random.randrange(1, 5)):
        labels = {"app": random.choice(["web", "web", "other"])}
        pod = a_pod(f"y{i}", labels=labels, priority=random.choice([0, 10, 100]))
        node = f"n{random.randrange(len(cluster.world.nodes.row_of))}"
        info = cluster.world.pod_info(typed(pod))
        cluster.world.nominations.set(info, node)
        found.append((info, node))
    return found


def feasible_nodes(cluster, world, pod):
    found = feasible(cluster.profile, cluster.profile.view(world.pod_info(pod), world, cluster.now))
    rows = [] if isinstance(found, Rejection) else all_tiers(found).rows.tolist()
    return {world.nodes.names[row] for row in rows}, found


@pytest.mark.parametrize("seed", range(60))
def test_rows_in_sets_are_those_of_a_world_with_the_nominated_pods_on_their_nodes(seed):
    random = Random(seed)
    cluster = random_cluster(random)
    nominated = nominate(cluster, random)
    raw = a_pod("p", labels={"app": "web"}, priority=random.choice([0, 10, 100]))
    pod = typed(raw)
    if random.random() < 0.3:
        own = cluster.world.pod_info(pod)
        cluster.world.nominations.set(own, random.choice([*cluster.world.nodes.row_of]))
    plain = cluster.world.fork()
    for info, _ in nominated:
        plain.nominations.clear(info.uid)
    added = plain.fork()
    for info, node in nominated:
        if info.priority >= pod.spec.priority:
            added.nodes.add_pod(info, node)
    expected = feasible_nodes(cluster, plain, pod)[0] & feasible_nodes(cluster, added, pod)[0]
    nodes, found = feasible_nodes(cluster, cluster.world, pod)
    assert nodes == expected
    if isinstance(found, Rejection):
        assert not [*rejection_faults(cluster.profile, found)]
        assert not found.histogram().keys() & {""}
        assert sum(found.histogram().values()) >= found.nodes
    else:
        placement = rank(cluster.profile, found, np.random.default_rng(seed))
        assert not [*placement_faults(cluster.profile, found, placement)]


def test_check_plugin_accepts_row_sets():
    check_plugin(TwoInAZone)


@pytest.mark.parametrize(
    ("plugin", "law"),
    [
        (TwoInAZone(OnItsOwn), "a pod counts only in the sets of its row"),
        (TwoInAZone(TooShort), "row_sets has the capacity of the node table"),
        (TwoInAZone(scope=Scope.ROW), "row sets need the scope DOMAIN|incremental equals full"),
    ],
)
def test_check_plugin_finds_wrong_row_sets(plugin, law):
    with pytest.raises(AssertionError, match=law):
        check_plugin(lambda: plugin)
