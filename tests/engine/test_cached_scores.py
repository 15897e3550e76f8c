"""Cached scores: when the range of raw scores may change, and which rows have the best total."""

import numpy as np
import pytest

from holdfast.scheduling.engine.cached_scores import (
    INFEASIBLE,
    BestRows,
    DominantScore,
    NormalizedScore,
)
from holdfast.scheduling.framework.plugin import NodeScorer


class Halves(NodeScorer):
    """Its normalized score is 0 for the lowest raw score and 100 for the highest."""

    def normalize_by_range(self, raw, low, high):
        return (raw - low) * 100 / (high - low) if high > low else 50.0


class Results:
    """Row results with these raw scores."""

    plan, name = Halves(), "Halves"

    def __init__(self, *raw):
        self.raw = np.array(raw, float)
        self.raw_at = memoryview(self.raw)

    def score_range(self):
        return float(self.raw.min()), float(self.raw.max())


def normalized(*raw, feasible=None):
    results = Results(*raw)
    score = NormalizedScore(results, 2, node_scope=True)
    score.find_range(np.array(feasible if feasible is not None else [True] * len(raw)))
    return results, score


def test_the_range_is_that_of_feasible_rows():
    _, score = normalized(1, 5, 9, feasible=[True, True, False])
    assert (score.low, score.high, score.uniform) == (1, 5, False)
    assert [score.score_at(0), score.score_at(1)] == [0, 200]


def test_one_raw_score_for_all_is_uniform():
    _, score = normalized(3, 3, 8, feasible=[True, True, False])
    assert (score.uniform, score.constant, score.score_at(1)) == (True, 100, 100)
    assert score.scores_of(np.array([0, 1])) == 100


def test_without_a_feasible_row_there_is_no_range():
    _, score = normalized(3, 4, feasible=[False, False])
    assert score.low is score.high


@pytest.mark.parametrize("rows", [np.array([0, 1]), slice(0, 3)])
def test_a_range_may_change_with_any_rows(rows):
    results, score = normalized(1, 5, 9)
    assert score.many_may_move_range(rows)
    results.raw[2] = 4.0
    assert score.many_may_move_range(np.array([2]))


def test_a_uniform_range_changes_only_with_another_raw_score():
    results, score = normalized(3, 3, 3)
    assert not score.many_may_move_range(np.array([0, 2]))
    assert score.many_may_move_range(slice(0, 3))
    results.raw[2] = 4.0
    assert score.many_may_move_range(np.array([0, 2]))
    assert not score.many_may_move_range(np.array([0, 1]))


def changed(results, score, row, raw, *, was=True, ok=True):
    results.raw[row] = raw
    return score.may_move_range(row, was=was, ok=ok)


def test_a_row_inside_the_range_does_not_change_it():
    results, score = normalized(1, 5, 9)
    assert not changed(results, score, 1, 6)
    assert not changed(results, score, 1, 9)
    assert not changed(results, score, 1, 1, ok=True, was=False)


@pytest.mark.parametrize("raw", [0, 10])
def test_a_feasible_row_outside_the_range_changes_it(raw):
    results, score = normalized(1, 5, 9)
    assert changed(results, score, 1, raw)
    results, score = normalized(1, 5, 9)
    assert not changed(results, score, 1, raw, ok=False)


@pytest.mark.parametrize("row", [0, 2])
def test_a_row_that_leaves_an_end_may_change_the_range(row):
    results, score = normalized(1, 5, 9)
    assert changed(results, score, row, 5)
    results, score = normalized(1, 5, 9)
    assert changed(results, score, row, float(results.raw[row]), ok=False)
    results, score = normalized(1, 5, 9)
    assert not changed(results, score, row, float(results.raw[row]))


def test_an_infeasible_row_is_not_part_of_the_range():
    results, score = normalized(1, 5, 9, feasible=[True, True, False])
    assert not changed(results, score, 2, 3, was=False)
    assert (score.low, score.high) == (1, 5)


def test_the_raw_score_of_a_row_is_stored_for_its_next_change():
    results, score = normalized(1, 5, 9)
    assert not changed(results, score, 1, 9)
    assert changed(results, score, 1, 5)


def test_a_dominant_score_without_a_feasible_row_has_no_range():
    dominant = DominantScore(Results(3, 4), 5000, 100.0)
    dominant.find_range(np.array([True, False]))
    assert (dominant.low, dominant.high, dominant.uniform) == (3, 3, True)
    assert dominant.score_at(0) == 5000 * 50
    dominant.refresh_row(0, feasible=False)
    assert not dominant.uniform
    dominant.refresh_row(1, feasible=True)
    assert (dominant.low, dominant.high, dominant.uniform) == (4, 4, True)


def test_the_best_rows_follow_every_change_of_a_total():
    total = np.array([5.0, 5.0, 1.0, 2.0])
    best = BestRows(len(total))
    best.find(total)
    # A best row gets worse, another becomes the best, a third best with it, and so on.
    for row, new in [(0, 3.0), (2, 6.0), (3, 6.0), (2, INFEASIBLE), (3, 6.5), (3, 0.0)]:
        best.change(row, float(total[row]), new)
        total[row] = new
        assert not [*best.faults(total)]
    assert best.best_total is None
