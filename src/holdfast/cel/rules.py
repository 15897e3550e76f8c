"""Rules over one value of an object: ``x-kubernetes-validations`` of a CRD's schema.

A rule sees the value as ``self`` and, where it was there before, as ``oldSelf``. Types are not
checked beforehand: what a real API server refuses when the CRD is written may here fail when an
object is. Times and durations are the texts they are written as.

Before a rule is evaluated its cost is bounded from the sizes of the values (``cost``). The limit of
one evaluation stands above upstream's, because a bound is more than what is really spent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings

from holdfast.cel import functions
from holdfast.cel.cost import cost_over_values, weight_of
from holdfast.cel.failures import (
    BudgetExceeded,
    CompileError,
    CostExceeded,
    EvaluationError,
    check_size,
    failed,
    in_upstreams_words,
)
from holdfast.cel.syntax import Node, read_tree

CALL_LIMIT = 4_000_000
OBJECT_LIMIT = 10_000_000
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
    extensions = [ext_strings.ExtStrings(), ext_optional.ExtOptional()]
    variables = {"self": _T.DYN, "oldSelf": _T.DYN}
    environment = cel.NewEnv(variables=variables, extensions=extensions, functions=declared)
    environment.compile("true")  # a mistake in our declarations shows here, not as the user's
    return environment


class Budget:
    """The steps that all rules over one object may still take."""

    def __init__(self, steps: int = OBJECT_LIMIT) -> None:
        self._left = steps

    def spend(self, steps: int) -> None:
        """Take steps off; raises BudgetExceeded when there are not as many left."""
        self._left -= steps
        if self._left < 0:
            raise BudgetExceeded("running out of cost budget")


class RuleInput:
    """A value and the one before it, made into engine values once for all rules over it."""

    def __init__(self, seen: Any, before: Any = None, budget: Budget | None = None) -> None:
        self.values = {"self": seen, "oldSelf": before}
        self.budget = budget or Budget()

    @cached_property
    def activation(self) -> Any:
        """The engine's form of the values."""
        self.budget.spend(sum(map(weight_of, self.values.values())))
        return _environment().Activation(self.values)


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled rule or message; ``looks_back`` tells whether it speaks of ``oldSelf``."""

    text: str
    program: Any
    looks_back: bool
    tree: Node

    def value(self, given: RuleInput) -> Any:
        """Evaluate it; what goes wrong is an EvaluationError, or a BudgetExceeded."""
        cost = cost_over_values(self.tree, given.values, CALL_LIMIT)
        if cost is None:
            raise CostExceeded(self.text)
        given.budget.spend(cost)
        try:
            answer = self.program.eval(given.activation)
        except RuntimeError as limit:
            raise failed(self.text, str(limit)) from None
        if answer.type() == _T.ERROR:
            raise EvaluationError(self.text, in_upstreams_words(str(answer.value())))
        return answer.value()


@lru_cache(maxsize=1024)
def compile_expression(text: str) -> Expression:
    """Compile an expression over ``self`` and ``oldSelf``, or raise CompileError."""
    check_size(text)
    try:
        program = _environment().compile(text)
    except RuntimeError as refusal:
        words = in_upstreams_words(str(refusal))
        raise CompileError(text, f"compilation failed: {words}") from None
    looks_back = bool(_OLD.search(_TEXTS.sub("", text)))
    return Expression(text, program, looks_back, read_tree(program.serialize()))


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
