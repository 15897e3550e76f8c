"""The invariants of the decision cache: a wrong value in any part of it is reported."""

import numpy as np
import pytest

from holdfast.scheduling.engine.cached_scores import INFEASIBLE
from holdfast.scheduling.engine.decision import feasible, rank
from holdfast.scheduling.engine.decision_check import placement_faults, rejection_faults
from holdfast.scheduling.engine.feasible_rows import Feasible
from holdfast.scheduling.engine.invariants import check_invariants
from holdfast.scheduling.framework.rejection import Rejection, Status
from holdfast.scheduling.framework.values import Code
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
    return feasible(cluster.profile, cluster.profile.view(pod_info, cluster.world, cluster.now))


def faults(cluster, found):
    if isinstance(found, Rejection):
        return [*rejection_faults(cluster.profile, found)]
    placement = rank(cluster.profile, found, np.random.default_rng(0))
    return [*placement_faults(cluster.profile, found, placement)]


def pod_class_of(cluster, **options):
    found = ask(cluster, **options)
    assert isinstance(found, Feasible)
    assert not faults(cluster, found)
    return found.pod_class


def reported(pod_class, words):
    return any(words in fault for fault in pod_class.faults())


def results_of(pod_class, plugin):
    return next(p.row_results for p in pod_class.outcomes if p.use.name == plugin)


def test_a_wrong_verdict_is_found(cluster):
    pod_class = pod_class_of(cluster)
    results_of(pod_class, "NodeResourcesFit").verdicts[2] = Code.UNSCHEDULABLE
    assert reported(
        pod_class,
        "NodeResourcesFit: cached verdicts differ in 1 places, the first is 1 instead of 0",
    )


def test_a_wrong_raw_score_is_found(cluster):
    pod_class = pod_class_of(cluster)
    results_of(pod_class, "TaintToleration").raw[1] += 1
    assert reported(pod_class, "TaintToleration: cached raw scores")


def test_a_wrong_range_of_raw_scores_is_found(cluster):
    pod_class = pod_class_of(cluster)
    results = results_of(pod_class, "TaintToleration")
    results._score_range = (results.cursor, 0.0, 9.0)
    assert reported(pod_class, "TaintToleration: cached range of raw scores")


def test_a_wrong_mask_of_node_filters_is_found(cluster):
    pod_class = pod_class_of(cluster)
    pod_class._node_mask.mask[0] = False
    assert reported(pod_class, "cached rows by node filters")


def test_a_row_wrongly_feasible_is_found(cluster):
    pod_class = pod_class_of(cluster)
    pod_class.feasible_mask[0] = False
    assert reported(pod_class, "cached feasible rows differ")


def test_a_wrong_count_of_feasible_rows_is_found(cluster):
    pod_class = pod_class_of(cluster)
    pod_class.count -= 1
    assert reported(pod_class, "cached number of feasible rows is 3, not 4")


def test_a_wrong_list_of_feasible_rows_is_found(cluster):
    pod_class = pod_class_of(cluster)
    pod_class._rows = np.array([0, 1])
    assert reported(pod_class, "cached list of feasible rows")


def test_wrong_rows_after_a_filter_per_pod_are_found(cluster):
    pod_class = pod_class_of(cluster, labels={"app": "web"}, topologySpreadConstraints=[SPREAD])
    pod_class._remaining.mask[0] = False
    assert reported(pod_class, "cached rows that pass filters per pod")


def test_a_wrong_total_is_found(cluster):
    pod_class = pod_class_of(cluster)
    pod_class.totals[1] += 1
    assert reported(pod_class, "cached totals differ in 1 places")


def test_unused_rows_have_no_total(cluster):
    pod_class = pod_class_of(cluster)
    assert len(pod_class.totals) > 4
    assert (pod_class.totals[4:] == INFEASIBLE).all()


def test_scaled_scores_wrongly_taken_for_constant_scores_are_found(cluster):
    pod_class = pod_class_of(cluster)
    assert not pod_class._constant_scores
    pod_class._constant_scores = True
    assert reported(pod_class, "cached sum of normalized scores")


@pytest.mark.parametrize("end", ["low", "high"])
def test_a_wrong_range_of_a_normalized_score_is_found(cluster, end):
    pod_class = pod_class_of(cluster)
    part = next(part for part in pod_class.parts.normalized_scores if not part.uniform)
    setattr(part, end, getattr(part, end) + 0.5)
    assert reported(pod_class, "TaintToleration: cached range")


def test_a_wrong_constant_is_found(cluster):
    cluster.remove(a_node("n3"))
    pod_class = pod_class_of(cluster)
    part = next(
        part
        for part in pod_class.parts.normalized_scores
        if part.row_results.name == "TaintToleration"
    )
    assert part.uniform
    part.constant += 1
    assert reported(pod_class, "TaintToleration: cached score of every row")


def test_a_wrong_previous_raw_score_is_found(cluster):
    pod_class = pod_class_of(cluster)
    part = next(part for part in pod_class.parts.normalized_scores if not part.uniform)
    part._seen_at[0] += 1
    assert reported(pod_class, "TaintToleration: previous raw scores")


@pytest.fixture
def single_changes(cluster):
    """A class that caches its best rows, because single rows have changed."""
    for i in range(2):
        pod_class_of(cluster)
        cluster.place(a_pod(f"s{i}", cpu="1"))
    pod_class = pod_class_of(cluster)
    assert pod_class.best.best_total is not None
    return pod_class


def test_wrong_best_rows_are_found(single_changes):
    single_changes.best.rows.pop()
    assert reported(single_changes, "cached best rows")


def test_wrong_positions_of_best_rows_are_found(single_changes):
    single_changes.best._position_at[single_changes.best.rows[0]] = 7
    assert reported(single_changes, "cached positions of the best rows")


@pytest.fixture
def dominant():
    """A class in which Reservation's score outweighs all others together."""
    held = [
        a_reservation(f"r{i}", cpu="4", owner_labels={"app": "web"}, allocate_once=False)
        | {"status": {"phase": "Available", "nodeName": f"n{i}", "allocatable": {"cpu": "4"}}}
        for i in range(2)
    ]
    cluster = FakeCluster(*(a_node(f"n{i}", cpu=str(8 - i)) for i in range(4)), *held)
    cluster.place(a_pod("o", cpu="1", labels={"app": "web"}))
    pod_class = pod_class_of(cluster, labels={"app": "web"})
    assert pod_class.parts.dominant_score is not None
    return pod_class


def test_wrong_counts_of_a_dominant_score_are_found(dominant):
    dominant.parts.dominant_score._counts[dominant.parts.dominant_score.high] += 1
    assert reported(dominant, "Reservation: cached counts of raw scores")


def test_a_wrong_previous_dominant_score_is_found(dominant):
    dominant.parts.dominant_score._seen_at[0] += 1
    assert reported(dominant, "Reservation: previous raw scores")


def test_a_dominant_score_that_does_not_outweigh_the_others_is_found(dominant):
    score = dominant.parts.dominant_score
    rows = [int(row) for row in score.best_rows(dominant.totals[:4])]
    score._known = dict.fromkeys(score._known, True)
    second = next(row for row in range(4) if row not in rows)
    dominant.totals[second] = 1e9
    assert reported(dominant, "cached best rows of the dominant score")


def rejected(cluster):
    """A class that fits on no node, with its first rejections."""
    found = ask(cluster, cpu="9")
    assert isinstance(found, Rejection)
    assert not faults(cluster, found)
    cache = cluster.world.caches[cluster.profile]
    return next(c for c in cache._classes if c._first_rejections is not None)


@pytest.mark.parametrize(
    ("column", "words"),
    [("codes", "codes of first rejections"), ("plugin_of", "plugins of first rejections")],
)
def test_a_wrong_first_rejection_is_found(cluster, column, words):
    pod_class = rejected(cluster)
    getattr(pod_class._first_rejections, column)[1] += 1
    assert reported(pod_class, words)


def test_wrong_counts_of_first_rejections_are_found(cluster):
    pod_class = rejected(cluster)
    pod_class._first_rejections._counts[0] += 1
    assert reported(pod_class, "cached numbers of first rejections by filter")


def test_wrong_numbers_of_rows_per_reason_are_found(cluster):
    pod_class = rejected(cluster)
    pod_class._first_rejections.reason_counts[0] = {"Insufficient cpu": 3}
    assert reported(pod_class, "cached numbers of rows per reason")


def nominate(cluster, name, node, **options):
    pod_info = cluster.world.pod_info(typed(a_pod(name, cpu="6", **options)))
    cluster.world.nominations.set(pod_info, node)
    return pod_info


def test_a_wrong_status_of_a_row_with_nominated_pods_is_found(cluster):
    nominate(cluster, "coming", "n1")
    pod_class = pod_class_of(cluster, cpu="3")
    pod_class.made_nominated_filter.statuses.put(
        0, Status("NodeResourcesFit", Code.UNSCHEDULABLE, ("Insufficient cpu",))
    )
    assert reported(pod_class, "row 0 with nominated pods")


def test_a_wrong_status_of_an_infeasible_row_with_nominated_pods_is_found(cluster):
    nominate(cluster, "coming", "n1")
    pod_class = rejected(cluster)
    assert pod_class.made_nominated_filter._infeasible_statuses[1].reasons == ("Insufficient cpu",)
    pod_class.made_nominated_filter._infeasible_statuses[1] = None
    assert reported(pod_class, "row 1 with nominated pods")


def test_first_rejections_follow_the_cluster(cluster):
    rejected(cluster)
    cluster.add(a_node("n1", cpu="8", unschedulable=True))
    rejected(cluster)
    cluster.remove(a_node("n0"))
    rejected(cluster)


def test_a_wrong_column_about_nominated_pods_is_found(cluster):
    nominate(cluster, "coming", "n1")
    check_invariants(cluster.world)
    cluster.world.nominations.columns._row[0] = 2
    with pytest.raises(
        AssertionError, match="coming is nominated to row 1, but is stored for row 2"
    ):
        check_invariants(cluster.world)


def test_a_wrong_request_of_a_nominated_pod_is_found(cluster):
    nominate(cluster, "coming", "n1")
    columns = cluster.world.nominations.columns
    columns.requested(0, [0])
    columns._amounts[0][0] += 1
    with pytest.raises(AssertionError, match="another request is stored for it"):
        check_invariants(cluster.world)


def test_an_entry_of_a_pod_that_is_not_nominated_is_found(cluster):
    cluster.world.nominations.columns._row[5] = 1
    with pytest.raises(AssertionError, match="rows are stored for pods that are not nominated"):
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


def test_a_class_shared_by_two_different_pods_is_found(cluster):
    """As if the key of a class missed something: a pod gets the class of another."""
    pod_class = pod_class_of(cluster)
    cache = cluster.world.caches[cluster.profile]
    other = cluster.world.pod_info(typed(a_pod("large", cpu="7500m")))
    cache.pod_class = lambda _pod, _view: pod_class
    found = feasible(cluster.profile, cluster.profile.view(other, cluster.world, cluster.now))
    assert any("fits on fewer rows without caches" in fault for fault in faults(cluster, found))


def test_a_rejection_from_the_class_of_another_pod_is_found(cluster):
    pod_class = rejected(cluster)
    cache = cluster.world.caches[cluster.profile]
    cache.pod_class = lambda _pod, _view: pod_class
    found = ask(cluster)
    assert any("fits on a node without caches" in fault for fault in faults(cluster, found))


def test_a_row_that_is_not_the_best_is_found(cluster):
    found = ask(cluster)
    placement = rank(cluster.profile, found, np.random.default_rng(0))
    placement.row, placement.node = 3, "n3"
    found_faults = [*placement_faults(cluster.profile, found, placement)]
    assert found_faults == ["default/q is placed on n3, which is not the best node"]


def test_the_auditor_raises_on_a_fault(cluster):
    pod_class_of(cluster).count += 1
    with pytest.raises(AssertionError, match="cached number of feasible rows"):
        cluster.place(a_pod("next", cpu="1"))


@pytest.mark.parametrize("tainted", [20, 0])
def test_the_range_of_a_score_is_updated_when_many_rows_change(tainted):
    """Enough rows change for an array operation, but not all rows."""
    cluster = FakeCluster(
        *(a_node(f"n{i}", taints=PREFERS if i < tainted else []) for i in range(80))
    )
    part = pod_class_of(cluster).parts.normalized_scores[0]
    assert part.row_results.name == "TaintToleration"
    assert part.uniform == (not tainted)
    cluster.add(*(a_node(f"n{i}", taints=[] if tainted else PREFERS) for i in range(20)))
    pod_class = pod_class_of(cluster)
    assert pod_class.parts.normalized_scores[0] is part
    assert part.uniform == bool(tainted)


def test_scores_are_normalized_over_the_remaining_rows():
    """An uncached filter rejects the row at one end of the range of a cached score."""
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
