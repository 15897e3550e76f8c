"""Kept scores: when the ends of raw scores may have moved, and which rows have the best total."""

import numpy as np
import pytest

from holdfast.engine.cached_scores import INFEASIBLE, BestRows, DominantScore, NormalizedScore


class Halves:
    """A plugin whose normalized score is 0 at the low end and 100 at the high one."""

    name = "Halves"

    def normalize_by_range(self, _state, raw, low, high):
        return (raw - low) * 100 / (high - low) if high > low else 50.0


class Given:
    """Raw scores as a plugin's answers hold them."""

    plugin, state = Halves(), None

    def __init__(self, *raw):
        self.raw = np.array(raw, float)
        self.raw_at = memoryview(self.raw)

    def score_range(self):
        return float(self.raw.min()), float(self.raw.max())


def measured(*raw, feasible=None):
    answers = Given(*raw)
    scaled = NormalizedScore(answers, 2, node_scope=True)
    scaled.find_range(np.array(feasible if feasible is not None else [True] * len(raw)))
    return answers, scaled


def test_ends_are_those_of_feasible_rows():
    _, scaled = measured(1, 5, 9, feasible=[True, True, False])
    assert (scaled.low, scaled.high, scaled.uniform) == (1, 5, False)
    assert [scaled.score_at(0), scaled.score_at(1)] == [0, 200]


def test_one_raw_score_for_all_is_flat_and_has_one_total():
    _, scaled = measured(3, 3, 8, feasible=[True, True, False])
    assert (scaled.uniform, scaled.constant, scaled.score_at(1)) == (True, 100, 100)
    assert scaled.scores_of(np.array([0, 1])) == 100


def test_without_a_feasible_row_nothing_is_known():
    _, scaled = measured(3, 4, feasible=[False, False])
    assert scaled.low is scaled.high


@pytest.mark.parametrize("rows", [np.array([0, 1]), slice(0, 3)])
def test_ends_that_differ_may_have_moved_with_any_rows(rows):
    answers, scaled = measured(1, 5, 9)
    assert scaled.many_may_move_range(rows)
    answers.raw[2] = 4.0
    assert scaled.many_may_move_range(np.array([2]))


def test_ends_that_meet_move_only_with_another_raw_score():
    answers, scaled = measured(3, 3, 3)
    assert not scaled.many_may_move_range(np.array([0, 2]))
    assert scaled.many_may_move_range(slice(0, 3))
    answers.raw[2] = 4.0
    assert scaled.many_may_move_range(np.array([0, 2]))
    assert not scaled.many_may_move_range(np.array([0, 1]))


def changed(answers, scaled, row, raw, *, was=True, ok=True):
    answers.raw[row] = raw
    return scaled.may_move_range(row, was=was, ok=ok)


def test_a_row_between_the_ends_moves_none():
    answers, scaled = measured(1, 5, 9)
    assert not changed(answers, scaled, 1, 6)
    assert not changed(answers, scaled, 1, 9)
    assert not changed(answers, scaled, 1, 1, ok=True, was=False)


@pytest.mark.parametrize("raw", [0, 10])
def test_a_row_beyond_the_ends_moves_them_if_it_is_feasible(raw):
    answers, scaled = measured(1, 5, 9)
    assert changed(answers, scaled, 1, raw)
    answers, scaled = measured(1, 5, 9)
    assert not changed(answers, scaled, 1, raw, ok=False)


@pytest.mark.parametrize("row", [0, 2])
def test_a_row_that_leaves_an_end_may_move_it(row):
    answers, scaled = measured(1, 5, 9)
    assert changed(answers, scaled, row, 5)
    answers, scaled = measured(1, 5, 9)
    assert changed(answers, scaled, row, float(answers.raw[row]), ok=False)
    answers, scaled = measured(1, 5, 9)
    assert not changed(answers, scaled, row, float(answers.raw[row]))


def test_a_row_that_was_not_feasible_held_no_end():
    answers, scaled = measured(1, 5, 9, feasible=[True, True, False])
    assert not changed(answers, scaled, 2, 3, was=False)
    assert (scaled.low, scaled.high) == (1, 5)


def test_what_a_row_had_is_noted_for_the_next_change():
    answers, scaled = measured(1, 5, 9)
    assert not changed(answers, scaled, 1, 9)
    assert changed(answers, scaled, 1, 5)


def test_a_leading_score_without_a_feasible_row_knows_no_ends():
    leading = DominantScore(Given(3, 4), 5000, 100.0)
    leading.find_range(np.array([True, False]))
    assert (leading.low, leading.high, leading.uniform) == (3, 3, True)
    assert leading.score_at(0) == 5000 * 50
    leading.refresh_row(0, feasible=False)
    assert not leading.uniform
    leading.refresh_row(1, feasible=True)
    assert (leading.low, leading.high, leading.uniform) == (4, 4, True)


def test_the_best_rows_follow_every_change_of_a_total():
    total = np.array([5.0, 5.0, 1.0, 2.0])
    ties = BestRows(len(total))
    ties.find(total)
    # One leaves, one passes all others, one draws level, the first of them leaves, the last.
    for row, new in [(0, 3.0), (2, 6.0), (3, 6.0), (2, INFEASIBLE), (3, 6.5), (3, 0.0)]:
        ties.change(row, float(total[row]), new)
        total[row] = new
        assert not [*ties.faults(total)]
    assert ties.best_total is None
