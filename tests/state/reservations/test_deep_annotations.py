"""Annotations are JSON that is not validated when written: any nesting depth is handled."""

import pytest

from holdfast.api import reservation_names as names
from holdfast.api.annotations import allocated_reservation
from holdfast.runtime.errors import BadRequest
from holdfast.state.reservations.reservation_annotations import (
    affinity_of,
    annotated_allocations,
    exact_match_of,
    resized_amounts,
)
from holdfast.testing import a_pod, a_reservation, typed

LEVELS = 400_000
"""Too deep for every version of Python: since 3.14 only the size of the stack is a limit."""
DEEP = '{"a":' * LEVELS + "1" + "}" * LEVELS


def with_note(raw, key):
    raw["metadata"].setdefault("annotations", {})[key] = DEEP
    return typed(raw)


def test_an_affinity_nested_too_deep_is_an_error_of_the_pod():
    for key, read in (
        (names.AFFINITY, affinity_of),
        (names.EXACT_MATCH, exact_match_of),
    ):
        with pytest.raises(BadRequest, match=r"recursion|Stack overflow"):
            read(with_note(a_pod("p"), key))


def test_any_other_annotation_nested_too_deep_counts_as_absent():
    assert allocated_reservation(with_note(a_pod("p"), names.ALLOCATED)) is None
    assert annotated_allocations(with_note(a_pod("p"), names.DRAWS)) == ()
    assert resized_amounts(with_note(a_reservation("r"), names.RESIZE)) == {}
