"""Validate a number of pods that may be a percentage."""

from __future__ import annotations

import re
from collections.abc import Iterable

from holdfast.api import field_errors
from holdfast.api.validation.template import NOT_NEGATIVE
from holdfast.runtime.errors import Cause

_PERCENT = re.compile("[0-9]+%")
_NO_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or "
    "'93%', regex used for validation is '[0-9]+%')"
)


def check_int_or_percent(
    amount: int | str, path: str, *, most_percent: int | None
) -> Iterable[Cause]:
    """Yield what is wrong with a number of pods or a percentage.

    Without ``most_percent`` a percentage may have at most nine digits.
    """
    if isinstance(amount, int):
        if amount < 0:
            yield field_errors.invalid(path, amount, NOT_NEGATIVE)
    elif not _PERCENT.fullmatch(amount):
        yield field_errors.invalid(path, amount, _NO_PERCENT)
    elif len(amount) > 10 or (most_percent is not None and int(amount[:-1]) > most_percent):
        yield field_errors.invalid(
            path, amount, f"must not be greater than {most_percent or 999999999}%"
        )
