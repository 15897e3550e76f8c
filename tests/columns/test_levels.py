"""Levels: rows by topology domain and by how many matching pods stand on them."""

from __future__ import annotations

from random import Random

import numpy as np

from holdfast.columns.counters import SelectorCount
from holdfast.columns.journal import Journal
from holdfast.columns.levels import PODS_TOLD_APART, Levels
from holdfast.columns.node_labels import NodeLabels

ROWS = 12


def zones(*values):
    label, journal = NodeLabels(16).column("key"), Journal(16)
    for row, value in enumerate(values):
        label.set(row, value)
        journal.log(row)
    return label, journal


def test_levels_kept_through_moves_equal_levels_made_anew():
    random = Random(5)
    label, journal = zones(*(random.choice(["a", "b", None]) for _ in range(ROWS)))
    counter = SelectorCount((), 16)
    levels = counter.levels(label, journal)
    levels.refresh(ROWS)
    for step in range(600):
        row = random.randrange(ROWS)
        stands = int(counter.live[row])
        crowd = PODS_TOLD_APART + 3 if row == 0 else 3
        by = 1 if stands == 0 or (stands < crowd and random.random() < 0.7) else -1
        counter.move(row, by, live=True)
        if step % 100 == 99:
            label.set(row, random.choice(["a", "b", "c", None]))
            journal.log(row)
        fresh = Levels(counter.live, label, journal)
        fits = bool(counter.live[0] < PODS_TOLD_APART)
        assert (levels.refresh(ROWS), fresh.refresh(ROWS)) == (fits, fits)
        assert (levels.of == fresh.of).all()
        assert (levels.rows_at == fresh.rows_at).all()


def test_rows_of_one_level_have_the_same_value_and_as_many_pods():
    label, journal = zones("a", "b", None, "a")
    counter = SelectorCount((), 16)
    levels = counter.levels(label, journal)
    counter.move(3, 1, live=True)
    assert levels.refresh(4)
    assert levels.of.tolist() == [0, PODS_TOLD_APART, 2 * PODS_TOLD_APART, 1]
    counter.move(0, 1, live=True)
    counter.move(1, 1, live=False)
    assert levels.of.tolist() == [1, PODS_TOLD_APART, 2 * PODS_TOLD_APART, 1]
    assert levels.rows_at[1] == 2


def test_a_key_with_a_value_a_row_has_no_levels():
    label = NodeLabels(400).column("key")
    for row in range(400):
        label.set(row, f"rack{row}")
    assert not Levels(np.zeros(400, np.int32), label, Journal(400)).refresh(400)
