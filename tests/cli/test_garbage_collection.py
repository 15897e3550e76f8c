"""Objects that exist after the first sync are excluded from garbage collection."""

import gc

import pytest

from holdfast.cli import garbage_collection


@pytest.fixture(autouse=True)
def collector_as_before():
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_existing_objects_are_frozen_and_later_ones_are_not():
    there = [[]]
    garbage_collection.freeze_existing_objects()
    later = [[]]
    looked_at = {id(found) for found in gc.get_objects()}
    assert id(there) not in looked_at
    assert id(later) in looked_at
    assert gc.get_threshold()[0] == garbage_collection.YOUNG_GENERATION_THRESHOLD


def test_later_garbage_is_still_collected():
    garbage_collection.freeze_existing_objects()

    class Knot:
        freed = 0

        def __init__(self):
            self.me = self

        def __del__(self):
            Knot.freed += 1

    Knot()
    gc.collect()
    assert Knot.freed == 1
