"""The regular expressions of a schema, in Go's syntax and in time linear in the text.

RE2 is the engine that Go's own is modelled on: a pattern such as ``^(a+)+$``, which takes a
backtracking engine for ever, costs no more than any other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import re2

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True
_GO_WORDS = {
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
    """A pattern that is no regular expression of Go's; the message is Go's own."""


@lru_cache(maxsize=1024)
def matcher(pattern: str) -> Callable[[str], bool]:
    r"""Compile a pattern to a function that tells whether some part of a text matches it.

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
    return f"error parsing regexp: {_GO_WORDS.get(code, code)}: `{part}`"
