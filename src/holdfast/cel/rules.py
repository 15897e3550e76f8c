"""Rules over one value of an object: ``x-kubernetes-validations`` of a CRD's schema.

A rule sees the value as ``self`` and, where it was there before, as ``oldSelf``. Types are not
checked beforehand: what a real API server refuses when the CRD is written may here fail when an
object is. Times and durations are the texts they are written as.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

from holdfast.cel import functions
from holdfast.cel.failures import CompileError, EvaluationError, in_upstreams_words

_T = cel.Type
_OLD = re.compile(r"\boldSelf\b")
_TEXTS = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")
_RESERVED = frozenset({
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function",
    "if", "import", "let", "loop", "package", "namespace", "return",
})  # fmt: skip
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))


@cache
def _environment() -> Any:
    declared = [
        *functions.quantity_functions(),
        *functions.semver_functions(),
        *functions.list_functions(),
    ]
    extensions = [ext_bindings.ExtBindings(), ext_strings.ExtStrings(), ext_optional.ExtOptional()]
    variables = {"self": _T.DYN, "oldSelf": _T.DYN}
    environment = cel.NewEnv(variables=variables, extensions=extensions, functions=declared)
    environment.compile("true")  # a mistake in our declarations shows here, not as the user's
    return environment


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled rule or message; ``looks_back`` tells whether it speaks of ``oldSelf``."""

    text: str
    program: Any
    looks_back: bool

    def value(self, seen: Any, before: Any) -> Any:
        """Evaluate it; what goes wrong is an EvaluationError."""
        given = {"self": seen, **({"oldSelf": before} if self.looks_back else {})}
        try:
            answer = self.program.eval(_environment().Activation(given))
        except RuntimeError as limit:
            raise EvaluationError(self.text, in_upstreams_words(str(limit))) from None
        if answer.type() == _T.ERROR:
            raise EvaluationError(self.text, in_upstreams_words(str(answer.value())))
        return answer.value()


@lru_cache(maxsize=1024)
def compile_expression(text: str) -> Expression:
    """Compile an expression over ``self`` and ``oldSelf``, or raise CompileError."""
    try:
        program = _environment().compile(text)
    except RuntimeError as refusal:
        words = in_upstreams_words(str(refusal))
        raise CompileError(text, f"compilation failed: {words}") from None
    return Expression(text, program, bool(_OLD.search(_TEXTS.sub("", text))))


def escaped(name: str) -> str:
    """Write a field's name as rules must, where CEL has no such name.

    >>> escaped("namespace"), escaped("a-b"), escaped("plain")
    ('__namespace__', 'a__dash__b', 'plain')
    """
    if name in _RESERVED:
        return f"__{name}__"
    for bad, good in _ESCAPES:
        name = name.replace(bad, good)
    return name
