"""Times as they stand in objects, read and written without asking any clock.

Pure rooms use these; ``holdfast.clock`` is for those who may know what time it is.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from functools import lru_cache

from holdfast.errors import BadRequest


def parse_rfc3339(text: str) -> float:
    """Read any RFC 3339 time as seconds since the epoch.

    >>> parse_rfc3339("1970-01-01T01:00:00+01:00"), parse_rfc3339("1970-01-01T00:00:00.5Z")
    (0.0, 0.5)
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise BadRequest(f'"{text}" is not an RFC 3339 time') from None
    if found.tzinfo is None:
        raise BadRequest(f'"{text}" is not an RFC 3339 time: it names no zone')
    return found.timestamp()


def rfc3339(seconds: float) -> str:
    """Write a time as Kubernetes does, whole seconds.

    >>> rfc3339(0)
    '1970-01-01T00:00:00Z'
    """
    return _whole_second(math.floor(seconds))


@lru_cache(maxsize=256)
def _whole_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(seconds: float) -> str:
    """Write a MicroTime (Leases, events): six digits.

    >>> rfc3339_micro(0.5)
    '1970-01-01T00:00:00.500000Z'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
