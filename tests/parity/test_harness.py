"""The harness itself: every record in scope is one case with a unique name."""

import pytest

from parity import vectors
from parity.harness import case_id, parity

pytestmark = pytest.mark.parity


def test_each_scope_row_selects_the_stated_number_of_records():
    for row in vectors.scope():
        chosen = [raw for _, raw in vectors.raw_records(row.file) if row.covers(raw)]
        assert len(chosen) == row.records, (row.file, row.source)


def test_case_names_are_unique_and_printable():
    for file in {row.file for row in vectors.scope()}:
        names = [case_id(record) for record in vectors.in_scope(file)]
        assert len(names) == len(set(names)), file
        assert all(name.isprintable() for name in names)


def test_each_exception_names_a_record_in_scope():
    for file, id_ in vectors.exceptions():
        assert id_ in {record.id for record in vectors.in_scope(file)}, (file, id_)


def test_an_ambiguous_upstream_name_is_refused():
    with pytest.raises(LookupError, match="must name one upstream test"):
        vectors.select("queueing_hints.jsonl", "Test_isSchedulableAfterNodeChange")


def test_a_test_without_records_is_refused():
    with pytest.raises(AssertionError, match="no record in scope"):
        parity("quantity.jsonl", "TestParseQuantityString")
