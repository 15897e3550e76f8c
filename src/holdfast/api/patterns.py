"""The regular expressions of schemas: Go's syntax, linear time.

Go's engine follows RE2, which is used here: a pattern such as ``^(a+)+$``, which takes exponential
time in a backtracking engine, costs no more than any other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import re2

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True
_GO_MESSAGES = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
    "pattern too large - compile failed": "expression too large",
}


class PatternError(ValueError):
    """A pattern that Go cannot compile; the message is Go's."""


@lru_cache(maxsize=1024)
def matcher(pattern: str) -> Callable[[str], bool]:
    r"""Compile a pattern to a function that returns whether it matches a part of a text.

    >>> matcher("^a$")("a\n"), matcher(r"^\$[$]$")("$$")
    (False, True)
    >>> matcher("(?=a)")
    Traceback (most recent call last):
    holdfast...PatternError: error parsing regexp: invalid or unsupported Perl syntax: `(?=`
    """
    try:
        search = re2.compile(pattern, _OPTIONS).search
    except re2.error as wrong:
        raise PatternError(_go_message(wrong.args[0])) from None
    return lambda text: search(text.encode()) is not None


def _go_message(error: bytes) -> str:
    code, _, part = error.decode(errors="replace").partition(": ")
    return f"error parsing regexp: {_GO_MESSAGES.get(code, code)}: `{part}`"
