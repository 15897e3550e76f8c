"""Where wanted rows are among the rows of a call, by a loop, by a mask or in a slice."""

from random import Random

import numpy as np
import pytest

from holdfast.scheduling.framework.values import PodChange, positions_of


@pytest.mark.parametrize("count", [0, 1, 127, 128, 300])
@pytest.mark.parametrize("wanted", [0, 1, 40, 400])
def test_positions_are_those_of_a_search_one_by_one(count, wanted):
    random = Random(count + wanted)
    rows = random.sample(range(500), count)
    asked = set(random.sample(range(600), wanted))
    expected = [(rows.index(row), row) for row in rows if row in asked]
    assert positions_of(asked, np.array(rows, np.intp)) == expected


def test_positions_in_a_slice_are_only_those_of_its_rows():
    assert sorted(positions_of({2, 3, 5, 7}, slice(3, 7))) == [(0, 3), (2, 5)]
    assert sorted(positions_of({0, 2}, slice(None))) == [(0, 0), (2, 2)]
    change = PodChange(added={9: ()}, removed={1: ()})
    assert change.positions_in(slice(0, 4)) == [(1, 1)]
