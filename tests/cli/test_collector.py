"""What is there after the first sync is not looked through again."""

import gc

import pytest

from holdfast.cli import collector


@pytest.fixture(autouse=True)
def collector_as_before():
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_what_is_there_is_left_alone_and_what_comes_later_is_not():
    there = [[]]
    collector.settle()
    later = [[]]
    looked_at = {id(found) for found in gc.get_objects()}
    assert id(there) not in looked_at
    assert id(later) in looked_at
    assert gc.get_threshold()[0] == collector.YOUNG


def test_garbage_made_later_is_still_found():
    collector.settle()

    class Knot:
        freed = 0

        def __init__(self):
            self.me = self

        def __del__(self):
            Knot.freed += 1

    Knot()
    gc.collect()
    assert Knot.freed == 1
