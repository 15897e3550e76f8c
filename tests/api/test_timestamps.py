"""Timestamps."""

import pytest

from holdfast.api.timestamps import parse_rfc3339, rfc3339
from holdfast.runtime.errors import BadRequest


@pytest.mark.parametrize("text", ["2026-01-02T03:04:05Z", "1970-01-01T00:00:00Z"])
def test_reading_and_writing_is_identity(text):
    assert rfc3339(parse_rfc3339(text)) == text


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-02T03:04:05", "2026-13-02T03:04:05Z"])
def test_invalid_times_are_rejected(text):
    with pytest.raises(BadRequest, match="is not an RFC 3339 time"):
        parse_rfc3339(text)
