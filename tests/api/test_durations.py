"""Go durations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.api import durations
from holdfast.runtime.errors import BadRequest


@pytest.mark.parametrize(
    ("text", "seconds", "written"),
    [
        ("24h", 86400, "24h0m0s"),
        ("1h1m1.5s", 3661.5, "1h1m1.5s"),
        ("90m", 5400, "1h30m0s"),
        ("+2m", 120, "2m0s"),
        ("-1.5h", -5400, "-1h30m0s"),
        (".5s", 0.5, "500ms"),
        ("0", 0, "0s"),
        ("1500us", 0.0015, "1.5ms"),
        ("3ns", 3e-9, "3ns"),
    ],
)
def test_durations_read_and_write_as_in_go(text, seconds, written):
    assert durations.parse_seconds(text) == seconds
    assert durations.format_nanoseconds(durations.parse(text)) == written


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_writing_and_reading_is_identity(nanoseconds):
    assert durations.parse(durations.format_nanoseconds(nanoseconds)) == nanoseconds


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", 'time: invalid duration ""'),
        ("1", 'time: missing unit in duration "1"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        (".s", 'time: invalid duration ".s"'),
        ("9999999h", 'time: invalid duration "9999999h"'),
    ],
)
def test_invalid_durations_have_gos_errors(text, complaint):
    with pytest.raises(BadRequest) as refused:
        durations.parse(text)
    assert str(refused.value) == complaint
