"""The node table, event by event."""

import msgspec
import numpy as np
import pytest

from holdfast.api.labels import from_labels, parse
from holdfast.state.columns.interner import CPU, MEMORY, PODS
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.testing import a_node, a_pod, typed


def pod_info(node_table, name="p", **options):
    return PodInfo.of(typed(a_pod(name, **options)), node_table.resources)


def a_node_table(count=2, **options):
    node_table = NodeTable()
    for i in range(count):
        node_table.upsert_node(typed(a_node(f"n{i}", **options)))
    return node_table


def test_each_resource_has_its_unit():
    node_table = a_node_table(1, cpu="1500m", memory="1Gi", allocatable={"example.com/gpu": "3"})
    gpu = node_table.resources.find("example.com/gpu")
    assert node_table.allocatable[[CPU, MEMORY, PODS, gpu], 0].tolist() == [1500, 2**30, 110, 3]


def test_scoring_counts_default_requests():
    node_table = a_node_table(1)
    node_table.add_pod(pod_info(node_table, cpu=None), "n0")
    assert node_table.requested[[CPU, PODS], 0].tolist() == [0, 1]
    assert node_table.nonzero_millicores[0] == 100
    assert node_table.nonzero_bytes[0] == 200 * 2**20


def test_rows_of_deleted_nodes_are_reused():
    node_table = a_node_table(2)
    node_table.delete_node("n0")
    assert not node_table.alive[0]
    assert node_table.upsert_node(typed(a_node("n9"))) == 0
    assert node_table.row_of == {"n1": 1, "n9": 0}


TERM = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "kubernetes.io/hostname"}
ANTI_AFFINITY = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}
RUNNING = {"phase": "Running", "startTime": "2030-01-01T00:00:00Z"}


def resized(cpu):
    statuses = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    return {"phase": "Running", "containerStatuses": statuses}


@pytest.mark.parametrize(
    "version",
    [
        {},
        {"node": "n0"},
        {"node": "n1"},
        {"node": "n0", "status": RUNNING},
        {"node": "n0", "status": resized("1")},
        {"node": "n0", "status": resized("3")},
        {"node": "n0", "labels": {"a": "b"}},
        {"node": "n0", "labels": {"a": "c"}, "annotations": {"x": "y"}},
        {"node": "n0", "metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}},
        {"node": "n0", "cpu": "3"},
        {"node": "n0", "priority": 7},
        {"node": "n0", "affinity": None},
        {"node": "n0", "scheduler_name": "other"},
        {"node": "n0", "tolerations": [{"operator": "Exists"}]},
    ],
)
@pytest.mark.parametrize("known", [{}, {"node": "n0"}, {"node": "n0", "status": resized("3")}])
def test_another_version_of_a_placed_pod_is_read_like_a_new_pod(known, version):
    node_table, spec = a_node_table(2), {"labels": {"a": "b"}, "affinity": ANTI_AFFINITY}
    node_table.assume(pod_info(node_table, **spec | known), 0)
    pod = typed(a_pod(**spec | version))
    found, expected = node_table.pod_info(pod), PodInfo.of(pod, node_table.resources)
    assert found.pod is pod
    assert msgspec.structs.asdict(found) == msgspec.structs.asdict(expected)


@pytest.mark.parametrize("known", [False, True])
def test_a_reserve_pod_is_not_read_as_a_version_of_a_placed_pod(known):
    node_table = a_node_table(1)
    pod = typed(a_pod("p", requests={"pods": 3}))
    node_table.assume(node_table.pod_info(pod, is_reserve_pod=known), 0)
    assert not node_table.pod_info(pod).is_reserve_pod
    assert node_table.pod_info(pod, is_reserve_pod=True).is_reserve_pod


def test_pods_of_an_unknown_node_are_placed_when_it_is_added():
    node_table = a_node_table(1)
    node_table.add_pod(pod_info(node_table, cpu="2"), "later")
    assert node_table.pods() == []
    row = node_table.upsert_node(typed(a_node("later")))
    assert node_table.requested[CPU, row] == 2000


def test_pods_of_a_deleted_node_are_placed_when_it_is_added_again():
    node_table = a_node_table(1)
    node_table.add_pod(pod_info(node_table, cpu="2"), "n0")
    node_table.delete_node("n0")
    row = node_table.upsert_node(typed(a_node("n0")))
    assert node_table.requested[CPU, row] == 2000


def test_a_pod_that_moved_counts_once():
    node_table = a_node_table(2)
    pod = pod_info(node_table, cpu="2")
    node_table.add_pod(pod, "n0")
    node_table.add_pod(pod, "n1")
    assert node_table.requested[CPU, :2].tolist() == [0, 2000]


def test_an_update_that_changes_nothing_logs_nothing():
    node_table = a_node_table(1)
    node_table.add_pod(pod_info(node_table), "n0")
    seq = node_table.seq
    node_table.add_pod(pod_info(node_table), "n0")
    node_table.upsert_node(typed(a_node("n0", annotations={"note": "seen"})))
    assert node_table.seq == seq


def test_labels_without_a_selector_are_not_logged():
    """Kubernetes copies the node's zone onto every pod it binds."""
    node_table = a_node_table(1)
    node_table.add_selector_keys(frozenset({"app"}))
    pod = pod_info(node_table, labels={"app": "web"})
    node_table.assume(pod, 0)
    seq = node_table.seq
    node_table.upsert_node(typed(a_node("n0", labels={"zone": "a"})))
    seq, stamp = node_table.seq, node_table.epochs.stamp
    node_table.add_pod(pod_info(node_table, labels={"app": "web", "zone": "a"}), "n0")
    assert (node_table.seq, node_table.is_assumed(pod.uid)) == (seq, False)
    assert node_table.epochs.stamp == stamp
    assert node_table.pods_on(0)[pod.uid].labels["zone"] == "a"
    node_table.add_pod(pod_info(node_table, labels={"app": "web", "zone": "c"}), "n0")
    assert (node_table.seq, node_table.epochs["pod_labels"]) == (seq, 1)
    node_table.add_selector_keys(frozenset({"zone"}))
    assert node_table.counter("default", parse("zone=c")).all[0] == 1
    node_table.add_pod(pod_info(node_table, labels={"app": "web", "zone": "b"}), "n0")
    assert node_table.seq > seq
    assert node_table.counter("default", parse("zone=b")).all[0] == 1


def test_the_node_journal_logs_only_changes_of_the_node():
    node_table = a_node_table(1)
    nodes, rows = node_table.node_journal.seq, node_table.seq
    node_table.add_pod(pod_info(node_table), "n0")
    node_table.upsert_node(typed(a_node("n0", cpu="16")))
    assert (node_table.node_journal.seq, node_table.seq) == (nodes, rows + 2)
    node_table.upsert_node(typed(a_node("n0", cpu="16", labels={"zone": "a"})))
    assert node_table.node_journal.seq == nodes + 1


def test_assuming_twice_fails_an_assertion():
    node_table = a_node_table(1)
    node_table.assume(pod_info(node_table), 0)
    with pytest.raises(AssertionError, match="default/p is on a row already"):
        node_table.assume(pod_info(node_table), 0)


def test_forgetting_keeps_a_confirmed_pod():
    node_table = a_node_table(1)
    pod = pod_info(node_table)
    node_table.assume(pod, 0)
    node_table.add_pod(pod, "n0")
    assert not node_table.is_assumed(pod.uid)
    node_table.forget(pod.uid)
    assert node_table.pod(pod.uid) == (pod, 0)


def test_a_hold_replaces_the_one_before_it():
    node_table = a_node_table(2)
    node_table.hold("r", 0, {CPU: 1000}, pod_slots=1)
    node_table.hold("r", 1, {CPU: 500})
    assert node_table.requested[CPU, :2].tolist() == [0, 500]
    node_table.release("r")
    node_table.release("r")
    assert not node_table.requested[:, :2].any()


def test_growing_keeps_everything_and_moves_the_layout_epoch():
    node_table = a_node_table(3)
    node_table.add_pod(pod_info(node_table, cpu="2"), "n1")
    layout = node_table.epochs["layout"]
    for i in range(3, 200):
        node_table.upsert_node(typed(a_node(f"n{i}", labels={"zone": "z"})))
    assert node_table.epochs["layout"] > layout
    assert node_table.requested[CPU, 1] == 2000
    assert np.count_nonzero(node_table.label("zone") >= 0) == 197


def test_a_new_resource_gets_a_column():
    node_table = a_node_table(1)
    names = {f"example.com/r{i}": "1" for i in range(30)}
    node_table.add_pod(pod_info(node_table, requests=names), "n0")
    last = node_table.resources.find("example.com/r29")
    assert node_table.requested[last, 0] == 1
    assert node_table.amounts.free[last, 0] == -1


def test_labels_without_a_selector_make_no_label_groups():
    node_table = a_node_table(1)
    pods = [
        pod_info(node_table, f"p{i}", labels={"app": "web", "ordinal": str(i)}) for i in range(5)
    ]
    node_table.add_selector_keys(frozenset({"app"}))
    assert len({node_table.label_group_of(pod).id for pod in pods}) == 1
    before = node_table.epochs["labels"]
    node_table.add_selector_keys(frozenset({"ordinal"}))
    assert len({node_table.label_group_of(pod).id for pod in pods}) == 5
    assert node_table.epochs["labels"] == before + 1


def test_a_counter_counts_pods_added_before_and_after_it():
    node_table = a_node_table(2)
    node_table.add_pod(pod_info(node_table, "a", labels={"app": "web"}), "n0")
    counter = node_table.counter("default", from_labels({"app": "web"}))
    assert counter.all[:2].tolist() == [1, 0]
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    node_table.add_pod(pod_info(node_table, "b", labels={"app": "web"}, metadata=going), "n1")
    node_table.add_pod(pod_info(node_table, "c", labels={"app": "db"}), "n1")
    node_table.add_pod(pod_info(node_table, "d", namespace="other", labels={"app": "web"}), "n1")
    assert counter.all[:2].tolist() == [1, 1]
    assert counter.live[:2].tolist() == [1, 0]
    node_table.remove_pod(pod_info(node_table, "a").uid)
    assert counter.all[:2].tolist() == [0, 1]


def test_dropping_an_unused_counter_moves_the_epoch():
    node_table = a_node_table(1)
    first = node_table.counter("default", parse("n=0"))
    for i in range(1, 1025):
        node_table.counter("default", parse(f"n={i}"))
    assert node_table.epochs["counters"] == 1
    node_table.add_pod(pod_info(node_table, labels={"n": "0"}), "n0")
    assert first.all[0] == 0
    assert node_table.counter("default", parse("n=0")).all[0] == 1


def test_equal_taints_are_one_set():
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    node_table = NodeTable()
    node_table.upsert_node(
        typed(a_node("a", taints=[taint | {"timeAdded": "2026-01-01T00:00:00Z"}]))
    )
    node_table.upsert_node(typed(a_node("b", taints=[taint])))
    assert node_table.taint_set[0] == node_table.taint_set[1] != 0


def test_an_in_place_resize_counts_the_allocated_resources():
    node_table = a_node_table(1)
    given = {"requests": {"cpu": "3"}}
    status = {"containerStatuses": [{"name": "main", "resources": given}]}
    node_table.add_pod(pod_info(node_table, cpu="1", status=status), "n0")
    assert node_table.requested[CPU, 0] == 3000
    node_table.add_pod(pod_info(node_table, cpu="1"), "n0")
    assert node_table.requested[CPU, 0] == 1000
