"""What an expression may cost, bounded before it is evaluated.

The engine limits the steps of loops and nothing else: strings and lists may double in every
``cel.bind``, and one call may take as long as its arguments are large. So the tree is walked with
bounds on the size of every value, starting from the values that are there. Costs count steps of
about 0.1 microseconds, as measured with this engine; memory follows, since whatever is made costs
a step for ten characters or half an entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.cel.extents import SCALAR, Charge, Extent, Given, either, several, text
from holdfast.cel.function_costs import BOUNDS, CHEAP, IN_PYTHON, PYTHON_CALL
from holdfast.cel.syntax import Constant, FunctionCall, Literal, Loop, Name, Node, Select

LOOP_STEPS = 10_000
"""The engine's own limit on the steps of all loops of one evaluation."""
_PACKED_LENGTH = 400
"""The longest quantity or version."""

VariableSizes = Mapping[str, Extent]


def cost_over_values(tree: Node, values: Mapping[str, Any], limit: int) -> int | None:
    """Bound the cost of an expression over these values; None beyond the limit."""
    return _Estimate(limit).cost_of(
        tree, lambda charge: {name: Given([value], charge) for name, value in values.items()}
    )


def cost_over_sizes(tree: Node, scope: VariableSizes, limit: int) -> int | None:
    """Bound the cost of an expression over values of these sizes; None beyond the limit."""
    return _Estimate(limit).cost_of(tree, lambda _: scope)


def weight_of(value: Any) -> int:
    """How many steps it takes to turn a value into engine values."""
    return Given([value], lambda _: None).weight


class _LimitReached(Exception):
    pass


class _Estimate:
    """Adds up the cost of one evaluation."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._cost = 0

    def cost_of(self, tree: Node, scope: Callable[[Charge], VariableSizes]) -> int | None:
        try:
            self.visit(tree, scope(self.charge), 1)
        except (_LimitReached, RecursionError):
            return None
        return self._cost

    def charge(self, steps: int) -> None:
        self._cost += steps
        if self._cost > self._limit:
            raise _LimitReached

    def visit(self, node: Node, scope: VariableSizes, times: int) -> Extent:
        """Count a node that is evaluated so many times, and bound its value."""
        self.charge(times)
        match node:
            case Constant(content):
                return SCALAR if content is None else text(len(content))
            case Name(name):
                return scope.get(name, SCALAR)
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

    def _literal(self, elements: Sequence[Extent], times: int) -> Extent:
        self.charge(4 * len(elements) * times)
        entry: Extent = SCALAR
        for element in elements:
            entry = either(entry, element, self.charge)
        return several(len(elements), entry)

    def _loop(self, loop: Loop, scope: VariableSizes, times: int) -> Extent:
        over = self.visit(loop.over, scope, times)
        result = self.visit(loop.start, scope, times)
        steps = min(over.length, LOOP_STEPS)
        if steps:
            inner = min(steps * times, LOOP_STEPS)
            collects = loop.start == Literal(())
            known = several(steps, SCALAR) if collects else result
            within = {**scope, loop.variable: over.key, loop.result_name: known}
            self.visit(loop.condition, within, inner)
            step = self.visit(loop.step, within, inner)
            if collects:
                result = several(steps, step.entry or SCALAR)
            else:
                result = either(result, step, self.charge)
        return self.visit(loop.result, {**scope, loop.result_name: result}, times)

    def _call(
        self, function: str, nodes: Sequence[Node], seen: Sequence[Extent], times: int
    ) -> Extent:
        if bound := BOUNDS.get(function):
            cost, value = bound(self.charge, nodes, seen)
        elif function in IN_PYTHON:
            cost, value = PYTHON_CALL + 2 * sum(a.weight for a in seen), text(_PACKED_LENGTH)
        elif function in CHEAP:
            cost, value = 1, SCALAR
        else:
            # No unknown function makes more of its arguments than they are together.
            size = sum(a.length for a in seen)
            cost, value = 1 + size, text(32 + size)
        self.charge(cost * times)
        return value
