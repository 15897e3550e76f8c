"""What is kept between decisions is checked: any part of it, once wrong, is found and named."""

import numpy as np
import pytest

from holdfast.engine.cached_scores import INFEASIBLE
from holdfast.engine.decision import Feasible, feasible, rank
from holdfast.engine.decision_check import placement_faults, rejection_faults
from holdfast.engine.invariants import check_invariants
from holdfast.framework.rejection import Rejection, Status
from holdfast.framework.values import Code
from holdfast.testing import FakeCluster, a_node, a_pod, a_reservation, typed

SPREAD = {
    "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}  # fmt: skip
PREFERS = [{"key": "old", "value": "", "effect": "PreferNoSchedule"}]


@pytest.fixture
def cluster():
    nodes = [
        a_node(f"n{i}", cpu="8", labels={"zone": f"z{i % 2}"}, taints=PREFERS if i == 3 else [])
        for i in range(4)
    ]
    cluster = FakeCluster(*nodes)
    for i in range(3):
        cluster.place(a_pod(f"p{i}", cpu="1"))
    return cluster


def ask(cluster, **options):
    pod_info = cluster.world.pod_info(typed(a_pod("q", **{"cpu": "1"} | options)))
    return feasible(cluster.profile, pod_info, cluster.world, cluster.now)


def faults(cluster, found):
    if isinstance(found, Rejection):
        return [*rejection_faults(cluster.profile, found)]
    placement = rank(cluster.profile, found, np.random.default_rng(0))
    return [*placement_faults(cluster.profile, found, placement)]


def record_of(cluster, **options):
    found = ask(cluster, **options)
    assert isinstance(found, Feasible)
    assert not faults(cluster, found)
    return found.pod_class


def named(record, words):
    return any(words in fault for fault in record.faults())


def answers_of(record, plugin):
    return next(p.row_results for p in record.outcomes if p.plugin.name == plugin)


def test_a_wrong_verdict_is_found(cluster):
    record = record_of(cluster)
    answers_of(record, "NodeResourcesFit").verdicts[2] = Code.UNSCHEDULABLE
    assert named(record, "NodeResourcesFit: kept verdicts differ in 1 places, first 1 for 0")


def test_a_wrong_raw_score_is_found(cluster):
    record = record_of(cluster)
    answers_of(record, "TaintToleration").raw[1] += 1
    assert named(record, "TaintToleration: kept raw scores")


def test_a_wrong_span_is_found(cluster):
    record = record_of(cluster)
    answers = answers_of(record, "TaintToleration")
    answers._span = (answers.cursor, 0.0, 9.0)
    assert named(record, "TaintToleration: the kept span")


def test_a_row_wrongly_possible_by_its_node_is_found(cluster):
    record = record_of(cluster)
    record._node_mask.mask[0] = False
    assert named(record, "rows possible by their nodes")


def test_a_row_wrongly_feasible_is_found(cluster):
    record = record_of(cluster)
    record.feasible_mask[0] = False
    assert named(record, "feasible rows differ")


def test_a_wrong_count_of_feasible_rows_is_found(cluster):
    record = record_of(cluster)
    record.count -= 1
    assert named(record, "3 feasible rows are counted, there are 4")


def test_a_wrong_list_of_feasible_rows_is_found(cluster):
    record = record_of(cluster)
    record._rows = np.array([0, 1])
    assert named(record, "the kept list of feasible rows")


def test_rows_wrongly_left_by_a_filter_that_is_asked_every_time_are_found(cluster):
    record = record_of(cluster, labels={"app": "web"}, topologySpreadConstraints=[SPREAD])
    record._left.mask[0] = False
    assert named(record, "rows left by verdicts that are not kept")


def test_a_wrong_total_is_found(cluster):
    record = record_of(cluster)
    record.totals[1] += 1
    assert named(record, "kept totals differ in 1 places")


def test_rows_of_nodes_that_may_still_come_have_no_total(cluster):
    record = record_of(cluster)
    assert len(record.totals) > 4
    assert (record.totals[4:] == INFEASIBLE).all()


def test_scaled_scores_wrongly_taken_for_settled_are_found(cluster):
    record = record_of(cluster)
    assert not record._settled
    record._settled = True
    assert named(record, "scaled scores are taken for")


@pytest.mark.parametrize("end", ["low", "high"])
def test_a_wrong_end_of_a_scaled_score_is_found(cluster, end):
    record = record_of(cluster)
    part = next(part for part in record.normalized_scores if not part.uniform)
    setattr(part, end, getattr(part, end) + 0.5)
    assert named(record, "TaintToleration: ends kept as")


def test_a_wrong_constant_is_found(cluster):
    cluster.remove(a_node("n3"))
    record = record_of(cluster)
    part = next(
        part
        for part in record.normalized_scores
        if part.row_results.plugin.name == "TaintToleration"
    )
    assert part.uniform
    part.constant += 1
    assert named(record, "TaintToleration: the score of every row kept as")


def test_a_raw_score_that_was_not_noted_is_found(cluster):
    record = record_of(cluster)
    part = next(part for part in record.normalized_scores if not part.uniform)
    part._seen_at[0] += 1
    assert named(record, "TaintToleration: noted raw scores")


@pytest.fixture
def steady(cluster):
    """A record that keeps its best rows: single rows have changed."""
    for i in range(2):
        record_of(cluster)
        cluster.place(a_pod(f"s{i}", cpu="1"))
    record = record_of(cluster)
    assert record.best.best_total is not None
    return record


def test_wrong_best_rows_are_found(steady):
    steady.best.rows.pop()
    assert named(steady, "the kept best rows")


def test_wrong_places_of_best_rows_are_found(steady):
    steady.best._place_at[steady.best.rows[0]] = 7
    assert named(steady, "places of the kept best rows")


@pytest.fixture
def leading():
    """A record in which Reservation's score outweighs the others."""
    held = [
        a_reservation(f"r{i}", cpu="4", owner_labels={"app": "web"}, allocate_once=False)
        | {"status": {"phase": "Available", "nodeName": f"n{i}", "allocatable": {"cpu": "4"}}}
        for i in range(2)
    ]
    cluster = FakeCluster(*(a_node(f"n{i}", cpu=str(8 - i)) for i in range(4)), *held)
    cluster.place(a_pod("o", cpu="1", labels={"app": "web"}))
    record = record_of(cluster, labels={"app": "web"})
    assert record.dominant_score is not None
    return record


def test_wrong_counts_of_a_leading_score_are_found(leading):
    leading.dominant_score._counts[leading.dominant_score.high] += 1
    assert named(leading, "Reservation: kept counts of raw scores")


def test_a_leading_score_that_was_not_noted_is_found(leading):
    leading.dominant_score._seen_at[0] += 1
    assert named(leading, "Reservation: noted raw scores")


def test_a_leading_score_that_does_not_outweigh_the_others_is_found(leading):
    score = leading.dominant_score
    rows = [int(row) for row in score.best_rows(leading.totals[:4])]
    score._known = dict.fromkeys(score._known, True)
    second = next(row for row in range(4) if row not in rows)
    leading.totals[second] = 1e9
    assert named(leading, "the rows with the best leading score")


def rejected(cluster):
    """A record of a class that fits nowhere, with its objections."""
    found = ask(cluster, cpu="9")
    assert isinstance(found, Rejection)
    assert not faults(cluster, found)
    memory = cluster.world.caches[cluster.profile]
    return next(record for record in memory._records if record._first_rejections is not None)


@pytest.mark.parametrize(
    ("column", "words"),
    [("codes", "codes of first objections"), ("plugin_of", "plugins of first objections")],
)
def test_a_wrong_first_objection_is_found(cluster, column, words):
    record = rejected(cluster)
    getattr(record._first_rejections, column)[1] += 1
    assert named(record, words)


def test_wrong_counts_of_objections_are_found(cluster):
    record = rejected(cluster)
    record._first_rejections._counts[0] += 1
    assert named(record, "rows by the filter that rejects them first")


def test_a_wrong_histogram_of_reasons_is_found(cluster):
    record = rejected(cluster)
    record._first_rejections.reason_counts[0] = {"Insufficient cpu": 3}
    assert named(record, "the kept histogram of reasons")


def nominate(cluster, name, node, **options):
    pod_info = cluster.world.pod_info(typed(a_pod(name, cpu="6", **options)))
    cluster.world.nominations.set(pod_info, node)
    return pod_info


def test_a_wrong_word_about_a_row_with_nominated_pods_is_found(cluster):
    nominate(cluster, "coming", "n1")
    record = record_of(cluster, cpu="3")
    record.nominated_filter.statuses.put(
        0, Status("NodeResourcesFit", Code.UNSCHEDULABLE, ("Insufficient cpu",))
    )
    assert named(record, "beside nominated pods row 0")


def test_a_wrong_word_about_a_row_that_will_not_do_anyway_is_found(cluster):
    nominate(cluster, "coming", "n1")
    record = rejected(cluster)
    assert record.nominated_filter._asides[1].reasons == ("Insufficient cpu",)
    record.nominated_filter._asides[1] = None
    assert named(record, "beside nominated pods row 1")


def test_objections_follow_the_cluster(cluster):
    rejected(cluster)
    cluster.add(a_node("n1", cpu="8", unschedulable=True))
    rejected(cluster)
    cluster.remove(a_node("n0"))
    rejected(cluster)


def test_a_wrong_column_about_nominated_pods_is_found(cluster):
    nominate(cluster, "coming", "n1")
    check_invariants(cluster.world)
    cluster.world.nominations.columns._row[0] = 2
    with pytest.raises(AssertionError, match="coming is nominated to row 1, and is kept at 2"):
        check_invariants(cluster.world)


def test_a_wrong_request_of_a_nominated_pod_is_found(cluster):
    nominate(cluster, "coming", "n1")
    promised = cluster.world.nominations.columns
    promised.requested(0, [0])
    promised._amounts[0][0] += 1
    with pytest.raises(AssertionError, match="its request is kept as another"):
        check_invariants(cluster.world)


def test_an_entry_of_a_pod_that_is_not_nominated_is_found(cluster):
    cluster.world.nominations.columns._row[5] = 1
    with pytest.raises(AssertionError, match="rows are kept for pods that are not nominated"):
        check_invariants(cluster.world)


def test_a_wrong_row_of_a_nominated_owner_is_found():
    held = a_reservation("r", cpu="4", owner_labels={"app": "web"})
    held |= {"status": {"phase": "Available", "nodeName": "n", "allocatable": {"cpu": "4"}}}
    cluster = FakeCluster(a_node("n", cpu="8"), held)
    nominate(cluster, "owner", "n", labels={"app": "web"})
    check_invariants(cluster.world)
    cluster.world.nominated_owner_rows._rows.clear()
    with pytest.raises(AssertionError, match="rows of nominated owners"):
        check_invariants(cluster.world)


def test_a_class_that_two_unlike_pods_share_is_found(cluster):
    """The key of a class misses something: a pod gets the record of another."""
    record = record_of(cluster)
    memory = cluster.world.caches[cluster.profile]
    other = cluster.world.pod_info(typed(a_pod("large", cpu="7500m")))
    memory.pod_class = lambda _pod, _view: record
    found = feasible(cluster.profile, other, cluster.world, cluster.now)
    assert any("fits fewer rows if nothing is kept" in fault for fault in faults(cluster, found))


def test_a_rejection_that_rests_on_the_record_of_another_pod_is_found(cluster):
    record = rejected(cluster)
    memory = cluster.world.caches[cluster.profile]
    memory.pod_class = lambda _pod, _view: record
    found = ask(cluster)
    assert any("fits somewhere if nothing is kept" in fault for fault in faults(cluster, found))


def test_a_row_that_is_not_the_best_is_found(cluster):
    found = ask(cluster)
    placement = rank(cluster.profile, found, np.random.default_rng(0))
    placement.row, placement.node = 3, "n3"
    told = [*placement_faults(cluster.profile, found, placement)]
    assert told == ["default/q goes to n3, which is not the best node"]


def test_the_auditor_crashes_loudly_on_a_fault(cluster):
    record_of(cluster).count += 1
    with pytest.raises(AssertionError, match="feasible rows are counted"):
        cluster.place(a_pod("next", cpu="1"))


@pytest.mark.parametrize("tainted", [20, 0])
def test_ends_of_a_scaled_score_follow_when_many_rows_change(tainted):
    """So many rows change that they are worked on as an array, not one by one and not all."""
    cluster = FakeCluster(
        *(a_node(f"n{i}", taints=PREFERS if i < tainted else []) for i in range(80))
    )
    part = record_of(cluster).normalized_scores[0]
    assert part.row_results.plugin.name == "TaintToleration"
    assert part.uniform == (not tainted)
    cluster.add(*(a_node(f"n{i}", taints=[] if tainted else PREFERS) for i in range(20)))
    record = record_of(cluster)
    assert record.normalized_scores[0] is part
    assert part.uniform == bool(tainted)


def test_scores_are_normalized_over_the_rows_that_are_left():
    """A filter that is asked every time rules out the row at one end of a kept score."""
    taints = [{"key": f"old-{i}", "value": "", "effect": "PreferNoSchedule"} for i in range(2)]
    cluster = FakeCluster(
        a_node("a", labels={"zone": "z0"}),
        a_node("b", labels={"zone": "z0"}, taints=taints[:1]),
        a_node("c", labels={"zone": "z1"}, taints=taints),
        a_pod("there", labels={"app": "web"}, node="c"),
    )
    found = ask(cluster, labels={"app": "web"}, topologySpreadConstraints=[SPREAD])
    assert found.rows.tolist() == [0, 1]
    assert not found.pod_class.uniform
    assert not faults(cluster, found)
