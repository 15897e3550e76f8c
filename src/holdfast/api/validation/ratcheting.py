"""Ratcheting: an update is refused for the errors it adds, not for those of the stored object."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from holdfast.api.decode import JsonMapping
from holdfast.runtime.errors import BadRequest, Cause


def ratcheting(
    check: Callable[[JsonMapping], Iterable[Cause]],
) -> Callable[[JsonMapping, JsonMapping | None], Iterable[Cause]]:
    """Return a check of updates that ignores the errors of the stored object.

    A list that was too long may become shorter.
    """

    def check_update(new: JsonMapping, old: JsonMapping | None) -> Iterable[Cause]:
        if old is None:
            return check(new)
        causes = list(check(new))
        if not causes:
            return causes
        before: set[Cause] = set()
        # The stored object of another server may have wrong types.
        with suppress(AttributeError, LookupError, TypeError, ValueError, BadRequest):
            before.update(check(old))
        lengths = {cause.field: _count(cause) for cause in before if _is_excess(cause)}
        return [
            cause
            for cause in causes
            if cause not in before
            and not (_is_excess(cause) and _count(cause) <= lengths.get(cause.field, 0))
        ]

    return check_update


def _is_excess(cause: Cause) -> bool:
    return cause.reason == "FieldValueTooMany"


def _count(cause: Cause) -> int:
    """Return the length in the message of ``field_errors.too_many``."""
    return int(cause.message.split(": ")[1])
