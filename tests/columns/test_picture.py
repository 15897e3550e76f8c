"""The picture of nodes and pods, event by event."""

import numpy as np
import pytest

from holdfast.api.labels import from_labels, parse
from holdfast.columns.interner import CPU, MEMORY, PODS
from holdfast.columns.picture import Picture
from holdfast.columns.pod_facts import PodFacts
from holdfast.testing import a_node, a_pod, typed


def facts(picture, name="p", **options):
    return PodFacts.of(typed(a_pod(name, **options)), picture.resources)


def a_picture(count=2, **options):
    picture = Picture()
    for i in range(count):
        picture.upsert_node(typed(a_node(f"n{i}", **options)))
    return picture


def test_resources_have_their_units():
    picture = a_picture(1, cpu="1500m", memory="1Gi", allocatable={"example.com/gpu": "3"})
    gpu = picture.resources.find("example.com/gpu")
    assert picture.allocatable[[CPU, MEMORY, PODS, gpu], 0].tolist() == [1500, 2**30, 110, 3]


def test_a_pod_without_requests_counts_a_little_when_scored():
    picture = a_picture(1)
    picture.add_pod(facts(picture, cpu=None), "n0")
    assert picture.requested[[CPU, PODS], 0].tolist() == [0, 1]
    assert picture.nonzero_millicores[0] == 100
    assert picture.nonzero_bytes[0] == 200 * 2**20


def test_rows_are_reused_when_nodes_go():
    picture = a_picture(2)
    picture.delete_node("n0")
    assert not picture.alive[0]
    assert picture.upsert_node(typed(a_node("n9"))) == 0
    assert picture.row_of == {"n1": 1, "n9": 0}


def test_pods_of_an_unknown_node_wait_for_it():
    picture = a_picture(1)
    picture.add_pod(facts(picture, cpu="2"), "later")
    assert picture.pods() == []
    row = picture.upsert_node(typed(a_node("later")))
    assert picture.requested[CPU, row] == 2000


def test_pods_of_a_deleted_node_come_back_with_it():
    picture = a_picture(1)
    picture.add_pod(facts(picture, cpu="2"), "n0")
    picture.delete_node("n0")
    row = picture.upsert_node(typed(a_node("n0")))
    assert picture.requested[CPU, row] == 2000


def test_a_pod_that_moved_counts_once():
    picture = a_picture(2)
    pod = facts(picture, cpu="2")
    picture.add_pod(pod, "n0")
    picture.add_pod(pod, "n1")
    assert picture.requested[CPU, :2].tolist() == [0, 2000]


def test_an_update_that_changes_nothing_logs_nothing():
    picture = a_picture(1)
    picture.add_pod(facts(picture), "n0")
    seq = picture.seq
    picture.add_pod(facts(picture), "n0")
    picture.upsert_node(typed(a_node("n0", annotations={"note": "seen"})))
    assert picture.seq == seq


def test_labels_nobody_looks_at_are_no_news():
    """Kubernetes copies the node's zone onto every pod it binds."""
    picture = a_picture(1)
    picture.show_labels(frozenset({"app"}))
    pod = facts(picture, labels={"app": "web"})
    picture.assume(pod, 0)
    seq = picture.seq
    picture.upsert_node(typed(a_node("n0", labels={"zone": "a"})))
    seq, stamp = picture.seq, picture.epochs.stamp
    picture.add_pod(facts(picture, labels={"app": "web", "zone": "a"}), "n0")
    assert (picture.seq, picture.is_assumed(pod.uid)) == (seq, False)
    assert picture.epochs.stamp == stamp
    assert picture.pods_on(0)[pod.uid].labels["zone"] == "a"
    picture.add_pod(facts(picture, labels={"app": "web", "zone": "c"}), "n0")
    assert (picture.seq, picture.epochs["pod_labels"]) == (seq, 1)
    picture.show_labels(frozenset({"zone"}))
    assert picture.counter("default", parse("zone=c")).all[0] == 1
    picture.add_pod(facts(picture, labels={"app": "web", "zone": "b"}), "n0")
    assert picture.seq > seq
    assert picture.counter("default", parse("zone=b")).all[0] == 1


def test_only_changes_of_the_node_itself_reach_the_node_journal():
    picture = a_picture(1)
    nodes, rows = picture.node_journal.seq, picture.seq
    picture.add_pod(facts(picture), "n0")
    picture.upsert_node(typed(a_node("n0", cpu="16")))
    assert (picture.node_journal.seq, picture.seq) == (nodes, rows + 2)
    picture.upsert_node(typed(a_node("n0", cpu="16", labels={"zone": "a"})))
    assert picture.node_journal.seq == nodes + 1


def test_assuming_twice_is_a_defect_and_crashes():
    picture = a_picture(1)
    picture.assume(facts(picture), 0)
    with pytest.raises(AssertionError, match="default/p is in the picture already"):
        picture.assume(facts(picture), 0)


def test_forgetting_leaves_a_confirmed_pod_alone():
    picture = a_picture(1)
    pod = facts(picture)
    picture.assume(pod, 0)
    picture.add_pod(pod, "n0")
    assert not picture.is_assumed(pod.uid)
    picture.forget(pod.uid)
    assert picture.pod(pod.uid) == (pod, 0)


def test_a_hold_replaces_the_one_before_it():
    picture = a_picture(2)
    picture.hold("r", 0, {CPU: 1000}, slots=1)
    picture.hold("r", 1, {CPU: 500})
    assert picture.requested[CPU, :2].tolist() == [0, 500]
    picture.release("r")
    picture.release("r")
    assert not picture.requested[:, :2].any()


def test_growing_keeps_everything_and_moves_the_layout_epoch():
    picture = a_picture(3)
    picture.add_pod(facts(picture, cpu="2"), "n1")
    layout = picture.epochs["layout"]
    for i in range(3, 200):
        picture.upsert_node(typed(a_node(f"n{i}", labels={"zone": "z"})))
    assert picture.epochs["layout"] > layout
    assert picture.requested[CPU, 1] == 2000
    assert np.count_nonzero(picture.label("zone") >= 0) == 197


def test_a_resource_nobody_had_heard_of_makes_room_for_itself():
    picture = a_picture(1)
    names = {f"example.com/r{i}": "1" for i in range(30)}
    picture.add_pod(facts(picture, requests=names), "n0")
    last = picture.resources.find("example.com/r29")
    assert picture.requested[last, 0] == 1
    assert picture.amounts.free[last, 0] == -1


def test_pods_of_one_workload_are_one_kind_whatever_label_is_their_own():
    picture = a_picture(1)
    pods = [facts(picture, f"p{i}", labels={"app": "web", "ordinal": str(i)}) for i in range(5)]
    picture.show_labels(frozenset({"app"}))
    assert len({picture.kind_of(pod).id for pod in pods}) == 1
    before = picture.epochs["labels"]
    picture.show_labels(frozenset({"ordinal"}))
    assert len({picture.kind_of(pod).id for pod in pods}) == 5
    assert picture.epochs["labels"] == before + 1


def test_a_selector_counts_pods_that_came_before_and_after_it():
    picture = a_picture(2)
    picture.add_pod(facts(picture, "a", labels={"app": "web"}), "n0")
    counter = picture.counter("default", from_labels({"app": "web"}))
    assert counter.all[:2].tolist() == [1, 0]
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    picture.add_pod(facts(picture, "b", labels={"app": "web"}, metadata=going), "n1")
    picture.add_pod(facts(picture, "c", labels={"app": "db"}), "n1")
    picture.add_pod(facts(picture, "d", namespace="other", labels={"app": "web"}), "n1")
    assert counter.all[:2].tolist() == [1, 1]
    assert counter.live[:2].tolist() == [1, 0]
    picture.remove_pod(facts(picture, "a").uid)
    assert counter.all[:2].tolist() == [0, 1]


def test_counters_nobody_asks_for_are_dropped_and_the_epoch_says_so():
    picture = a_picture(1)
    first = picture.counter("default", parse("n=0"))
    for i in range(1, 1025):
        picture.counter("default", parse(f"n={i}"))
    assert picture.epochs["counters"] == 1
    picture.add_pod(facts(picture, labels={"n": "0"}), "n0")
    assert first.all[0] == 0
    assert picture.counter("default", parse("n=0")).all[0] == 1


def test_equal_taints_are_one_set():
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    picture = Picture()
    picture.upsert_node(typed(a_node("a", taints=[taint | {"timeAdded": "2026-01-01T00:00:00Z"}])))
    picture.upsert_node(typed(a_node("b", taints=[taint])))
    assert picture.taint_set[0] == picture.taint_set[1] != 0


def test_an_in_place_resize_counts_what_is_still_held():
    picture = a_picture(1)
    given = {"requests": {"cpu": "3"}}
    status = {"containerStatuses": [{"name": "main", "resources": given}]}
    picture.add_pod(facts(picture, cpu="1", status=status), "n0")
    assert picture.requested[CPU, 0] == 3000
    picture.add_pod(facts(picture, cpu="1"), "n0")
    assert picture.requested[CPU, 0] == 1000
