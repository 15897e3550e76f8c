"""Validation rules of a CRD's schema: ``x-kubernetes-validations``.

A rule reads the value as ``self`` and the previous value, if any, as ``oldSelf``. Types are not
checked when the CRD is written, so an error that a real API server reports then is reported here
when an object is written. Times and durations are strings.

The cost of a rule is bounded from the sizes of the values before it is evaluated (``cost``). The
limit of one evaluation is higher than upstream's, because the bound is higher than the real cost.
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
from holdfast.cel.errors import (
    BudgetExceeded,
    CompileError,
    CostExceeded,
    EvaluationError,
    as_cel_go_message,
    check_size,
    engine_error,
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
    environment.compile(
        "true"
    )  # errors in our own declarations are raised here, not at a user's rule
    return environment


class CostBudget:
    """The remaining cost that all rules of one object may use."""

    def __init__(self, steps: int = OBJECT_LIMIT) -> None:
        self._left = steps

    def spend(self, steps: int) -> None:
        """Subtract cost; raise BudgetExceeded if the rest does not suffice."""
        self._left -= steps
        if self._left < 0:
            raise BudgetExceeded("running out of cost budget")


class RuleInput:
    """A value and its previous value, converted into engine values once for all rules."""

    def __init__(self, value: Any, previous: Any = None, budget: CostBudget | None = None) -> None:
        self.values = {"self": value, "oldSelf": previous}
        self.budget = budget or CostBudget()

    @cached_property
    def activation(self) -> Any:
        """The values as engine values."""
        self.budget.spend(sum(map(weight_of, self.values.values())))
        return _environment().Activation(self.values)


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled rule or message; ``uses_old_self``: whether it refers to ``oldSelf``."""

    text: str
    program: Any
    uses_old_self: bool
    tree: Node

    def value(self, inputs: RuleInput) -> Any:
        """Return the result; raise EvaluationError or BudgetExceeded."""
        cost = cost_over_values(self.tree, inputs.values, CALL_LIMIT)
        if cost is None:
            raise CostExceeded(self.text)
        inputs.budget.spend(cost)
        try:
            answer = self.program.eval(inputs.activation)
        except RuntimeError as limit:
            raise engine_error(self.text, str(limit)) from None
        if answer.type() == _T.ERROR:
            raise EvaluationError(self.text, as_cel_go_message(str(answer.value())))
        return answer.value()


@lru_cache(maxsize=1024)
def compile_expression(text: str) -> Expression:
    """Compile an expression over ``self`` and ``oldSelf``, or raise CompileError."""
    check_size(text)
    try:
        program = _environment().compile(text)
    except RuntimeError as refusal:
        message = as_cel_go_message(str(refusal))
        raise CompileError(text, f"compilation failed: {message}") from None
    looks_back = bool(_OLD.search(_TEXTS.sub("", text)))
    return Expression(text, program, looks_back, read_tree(program.serialize()))


def escape_field_name(name: str) -> str:
    """Return a field's name as rules write it: names that CEL cannot express are escaped.

    >>> escape_field_name("namespace"), escape_field_name("a-b"), escape_field_name("plain")
    ('__namespace__', 'a__dash__b', 'plain')
    """
    if name in _RESERVED:
        return f"__{name}__"
    for bad, good in _ESCAPES:
        name = name.replace(bad, good)
    return name
