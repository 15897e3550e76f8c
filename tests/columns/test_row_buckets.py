"""Buckets of rows with the same topology domain and the same number of matching pods."""

from __future__ import annotations

from random import Random

import numpy as np

from holdfast.state.columns.counters import SelectorCount
from holdfast.state.columns.journal import Journal
from holdfast.state.columns.node_labels import NodeLabels
from holdfast.state.columns.row_buckets import BUCKETS_PER_VALUE, RowBuckets

ROWS = 12


def zones(*values):
    label, journal = NodeLabels(16).column("key"), Journal(16)
    for row, value in enumerate(values):
        label.set(row, value)
        journal.log(row)
    return label, journal


def test_updated_buckets_equal_recomputed_buckets():
    random = Random(5)
    label, journal = zones(*(random.choice(["a", "b", None]) for _ in range(ROWS)))
    counter = SelectorCount((), 16)
    buckets = counter.buckets(label, journal)
    buckets.refresh(ROWS)
    for step in range(600):
        row = random.randrange(ROWS)
        pods = int(counter.live[row])
        crowd = BUCKETS_PER_VALUE + 3 if row == 0 else 3
        by = 1 if pods == 0 or (pods < crowd and random.random() < 0.7) else -1
        counter.move(row, by, live=True)
        if step % 100 == 99:
            label.set(row, random.choice(["a", "b", "c", None]))
            journal.log(row)
        fresh = RowBuckets(counter.live, label, journal)
        fits = bool(counter.live[0] < BUCKETS_PER_VALUE)
        assert (buckets.refresh(ROWS), fresh.refresh(ROWS)) == (fits, fits)
        assert (buckets.of == fresh.of).all()
        assert (buckets.rows_at == fresh.rows_at).all()


def test_rows_of_one_bucket_have_the_same_value_and_number_of_pods():
    label, journal = zones("a", "b", None, "a")
    counter = SelectorCount((), 16)
    buckets = counter.buckets(label, journal)
    counter.move(3, 1, live=True)
    assert buckets.refresh(4)
    assert buckets.of.tolist() == [0, BUCKETS_PER_VALUE, 2 * BUCKETS_PER_VALUE, 1]
    counter.move(0, 1, live=True)
    counter.move(1, 1, live=False)
    assert buckets.of.tolist() == [1, BUCKETS_PER_VALUE, 2 * BUCKETS_PER_VALUE, 1]
    assert buckets.rows_at[1] == 2


def test_a_label_key_with_too_many_values_has_no_buckets():
    label = NodeLabels(400).column("key")
    for row in range(400):
        label.set(row, f"rack{row}")
    assert not RowBuckets(np.zeros(400, np.int32), label, Journal(400)).refresh(400)
