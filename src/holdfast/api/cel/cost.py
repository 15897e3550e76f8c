"""Bound the cost of an expression before it is evaluated.

The engine limits only the steps of loops: strings and lists may double in every ``cel.bind``, and
the time of a call grows with its arguments. So the syntax tree is walked with bounds on the size of
every value, starting from the input values. One unit of cost is about 0.1 microseconds, as measured
with this engine. The cost also bounds memory: ten characters, or half an entry, cost one unit.

An evaluation cannot be stopped, and any user who may create a claim writes selectors. Without a
bound 27 nested ``cel.bind`` that double a string took 6 s and a gigabyte. ``map`` over 9,000 items
took 6 s, because the engine copies the list in every step, and ``contains`` with a long text 20 s.

This is not upstream's number. Upstream refuses an expression at creation by another estimate, which
``estimate`` computes. The bound here is for this engine; it may be too high, never too low
(decision 0014).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.api.cel.function_costs import BOUNDS, CHEAP, IN_PYTHON, PYTHON_CALL
from holdfast.api.cel.size_bounds import (
    SCALAR_BOUND,
    CostCounter,
    SizeBound,
    ValueBound,
    container_bound,
    text_bound,
    union_bound,
)
from holdfast.api.cel.syntax import Constant, FunctionCall, Literal, Loop, Name, Node, Select

LOOP_STEPS = 10_000
"""The engine's limit on the steps of all loops in one evaluation."""
_PACKED_LENGTH = 400
"""The length of the longest quantity or version."""

VariableSizes = Mapping[str, SizeBound]


def cost_over_values(tree: Node, values: Mapping[str, Any], limit: int) -> int | None:
    """Return an upper bound of the cost for these values; None if it is above the limit."""
    return _CostBound(limit).cost_of(
        tree, lambda charge: {name: ValueBound([value], charge) for name, value in values.items()}
    )


def cost_over_sizes(tree: Node, scope: VariableSizes, limit: int) -> int | None:
    """Return an upper bound of the cost for values of these sizes; None if above the limit."""
    return _CostBound(limit).cost_of(tree, lambda _: scope)


def weight_of(value: Any) -> int:
    """Return the cost of converting a value into engine values."""
    return ValueBound([value], lambda _: None).weight


class _LimitReached(Exception):
    pass


class _CostBound:
    """Sums up the largest cost of one evaluation."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._cost = 0

    def cost_of(self, tree: Node, scope: Callable[[CostCounter], VariableSizes]) -> int | None:
        try:
            self.visit(tree, scope(self.charge), 1)
        except (_LimitReached, RecursionError):
            return None
        return self._cost

    def charge(self, steps: int) -> None:
        self._cost += steps
        if self._cost > self._limit:
            raise _LimitReached

    def visit(self, node: Node, scope: VariableSizes, times: int) -> SizeBound:
        """Add the cost of evaluating a node ``times`` times, and return a bound of its value."""
        self.charge(times)
        match node:
            case Constant(content):
                return SCALAR_BOUND if content is None else text_bound(len(content))
            case Name(name):
                return scope.get(name, SCALAR_BOUND)
            case Select(operand, field):
                self.charge(4 * times)
                return self.visit(operand, scope, times).field(field)
            case Literal(elements):
                return self._literal([self.visit(e, scope, times) for e in elements], times)
            case Loop():
                return self._loop(node, scope, times)
            case FunctionCall(function, arguments):
                seen = [self.visit(a, scope, times) for a in arguments]
                return self._call(function, arguments, seen, times)

    def _literal(self, elements: Sequence[SizeBound], times: int) -> SizeBound:
        self.charge(4 * len(elements) * times)
        entry: SizeBound = SCALAR_BOUND
        for element in elements:
            entry = union_bound(entry, element, self.charge)
        return container_bound(len(elements), entry)

    def _loop(self, loop: Loop, scope: VariableSizes, times: int) -> SizeBound:
        over = self.visit(loop.over, scope, times)
        result = self.visit(loop.start, scope, times)
        steps = min(over.length, LOOP_STEPS)
        if steps:
            inner = min(steps * times, LOOP_STEPS)
            collects = isinstance(loop.start, Literal) and not loop.start.elements
            known = container_bound(steps, SCALAR_BOUND) if collects else result
            within = {**scope, loop.result_name: known, **_loop_variables(loop, over)}
            self.visit(loop.condition, within, inner)
            step = self.visit(loop.step, within, inner)
            if collects:
                result = container_bound(steps, step.entry or SCALAR_BOUND)
            else:
                result = union_bound(result, step, self.charge)
        return self.visit(loop.result, {**scope, loop.result_name: result}, times)

    def _call(
        self, function: str, nodes: Sequence[Node], seen: Sequence[SizeBound], times: int
    ) -> SizeBound:
        if bound := BOUNDS.get(function):
            cost, value = bound(self.charge, nodes, seen)
        elif function in IN_PYTHON:
            cost, value = PYTHON_CALL + 2 * sum(a.weight for a in seen), text_bound(_PACKED_LENGTH)
        elif function in CHEAP:
            cost, value = 1, SCALAR_BOUND
        else:
            # The result of any other function is at most as large as its arguments together.
            size = sum(a.length for a in seen)
            cost, value = 1 + size, text_bound(32 + size)
        self.charge(cost * times)
        return value


def _loop_variables(loop: Loop, over: SizeBound) -> VariableSizes:
    if not loop.second_variable:
        return {loop.variable: over.key}
    first = over.key if over.is_map else SCALAR_BOUND
    return {loop.variable: first, loop.second_variable: over.entry or SCALAR_BOUND}
