"""Parse and format the timestamps of objects.

Pure packages use this module; ``holdfast.runtime.clock`` returns the current time.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from functools import lru_cache

from holdfast.runtime.errors import BadRequest


def parse_rfc3339(text: str) -> float:
    """Parse an RFC 3339 time into seconds since the epoch.

    >>> parse_rfc3339("1970-01-01T01:00:00+01:00"), parse_rfc3339("1970-01-01T00:00:00.5Z")
    (0.0, 0.5)
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise BadRequest(f'"{text}" is not an RFC 3339 time') from None
    if time.tzinfo is None:
        raise BadRequest(f'"{text}" is not an RFC 3339 time: it has no time zone')
    return time.timestamp()


def seconds_of(time: str | None) -> float | None:
    """Return a time in seconds since the epoch, None if it is absent or unreadable.

    >>> seconds_of("1970-01-01T00:01:00Z"), seconds_of("yesterday"), seconds_of(None)
    (60.0, None, None)
    """
    try:
        return parse_rfc3339(time) if time else None
    except BadRequest:
        return None


def rfc3339(seconds: float) -> str:
    """Format a time as Kubernetes does, in whole seconds.

    >>> rfc3339(0)
    '1970-01-01T00:00:00Z'
    """
    return _whole_second(math.floor(seconds))


@lru_cache(maxsize=256)
def _whole_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(seconds: float) -> str:
    """Format a MicroTime (Leases, events): six decimal digits.

    >>> rfc3339_micro(0.5)
    '1970-01-01T00:00:00.500000Z'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
