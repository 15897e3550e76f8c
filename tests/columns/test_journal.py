"""The change log, in each form of its answers."""

import numpy as np
import pytest

from holdfast.state.columns.journal import FEW_ROWS, Journal


def test_few_changes_are_a_list_without_repeats():
    journal = Journal(100)
    for row in (3, 5, 3):
        journal.log(row)
    assert sorted(journal.stale(0, 100)) == [3, 5]
    assert journal.stale(2, 100) == [3]


def test_many_changes_of_few_rows_are_still_few():
    journal = Journal(100)
    for _ in range(50):
        journal.log(7)
    assert journal.stale(0, 100) == [7]


def test_more_changes_are_an_array_and_nearly_all_a_slice():
    journal = Journal(1000)
    for row in range(FEW_ROWS + 10):
        journal.log(row)
    stale = journal.stale(0, 1000)
    assert isinstance(stale, np.ndarray)
    assert stale.tolist() == list(range(FEW_ROWS + 10))
    for row in range(500):
        journal.log(row)
    assert journal.stale(0, 1000) == slice(0, 1000)


def test_growing_keeps_all_changes():
    journal = Journal(2)
    journal.log(1)
    journal.grow(8)
    journal.log(7)
    assert journal.since(0).tolist() == [1, 7]
    assert journal.since(1).tolist() == [7]


def changed(rows):
    journal = Journal(100)
    for row in rows:
        journal.log(row)
    return journal


@pytest.mark.parametrize("again", [0, 1])
def test_sixteen_rows_are_a_list_whatever_the_number_of_changes(again):
    rows = [*range(16), *range(again)]
    assert sorted(changed(rows).stale(0, 100)) == [*range(16)]
    assert isinstance(changed(rows).stale(0, 100), list)


def test_up_to_a_quarter_of_the_rows_are_an_array_and_more_a_slice():
    journal = changed(range(17))
    some = journal.stale(0, 68)
    assert isinstance(some, np.ndarray)
    assert some.tolist() == [*range(17)]
    assert journal.stale(0, 67) == slice(0, 67)
    assert journal.stale(17, 68) == []
