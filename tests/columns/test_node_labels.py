"""Table lookups by label value, with and without a value for each row."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.state.columns.node_labels import NodeLabels


@pytest.mark.parametrize("values", [("a", "b", "c"), ("b", "a", "b"), ("a", None, "c")])
def test_rows_read_the_cell_of_their_value_or_the_last_one(values):
    column = NodeLabels(8).column("key")
    for row, value in enumerate(values):
        column.set(row, value)
    table = np.append(np.arange(10, 10 + len(column.values)), -1)
    wanted = [-1 if v is None else 10 + column.values.find(v) for v in values]
    assert column.read(table, slice(0, 3)).tolist() == wanted
    assert column.read(table, np.array([2, 0])).tolist() == [wanted[2], wanted[0]]


def test_a_row_with_a_new_value_reads_another_cell():
    column = NodeLabels(8).column("key")
    for row, value in enumerate("abc"):
        column.set(row, value)
    column.set(1, None)
    column.set(1, "d")
    assert column.read(np.arange(5), slice(0, 3)).tolist() == [0, 3, 2]
    assert column.fork().read(np.arange(5), slice(0, 3)).tolist() == [0, 3, 2]
    column.set(1, "b")
    assert column.fork().read(np.arange(5), slice(0, 3)).tolist() == [0, 1, 2]
    column.set(3, "d")
    assert column.read(np.arange(5), slice(0, 3)).tolist() == [0, 1, 2]
    assert column.read(np.arange(5), slice(0, 4)).tolist() == [0, 1, 2, 3]
