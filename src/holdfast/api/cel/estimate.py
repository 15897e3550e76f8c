"""Estimate the largest cost of an expression as upstream does, before any value is known.

Upstream refuses an expression at creation by this number, so it has to be the same number. It is
computed from the checked tree: its static types, and the sizes that the types of its variables
declare. ``cost`` bounds the real cost of an evaluation with the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.api.cel.call_estimates import (
    NEW_LIST,
    NEW_MAP,
    OF_KUBERNETES,
    OF_LISTS,
    OF_OVERLOADS,
    READING,
    CallEstimate,
    Entries,
    Operand,
)
from holdfast.api.cel.ranges import NOTHING, ONE, UNKNOWN, DeclaredSize, Range, exactly
from holdfast.api.cel.rewriting import DEVICE
from holdfast.api.cel.syntax import (
    Constant,
    FunctionCall,
    Literal,
    Loop,
    Name,
    Node,
    Select,
)

_COMPARISONS = ("less", "less_equals", "greater", "greater_equals")
_TEXT_COMPARISONS = frozenset(f"{c}_{kind}" for c in _COMPARISONS for kind in ("string", "bytes"))


@dataclass(frozen=True, slots=True)
class _Value:
    """What is known about a value: ``path`` leads to it from a variable; () if no path does."""

    node: Node
    cost: Range
    path: tuple[str, ...] = ()
    computed: Range | None = None
    """Its size, if the expression alone determines it."""
    entries: Entries | None = None
    bound: Range | None = None
    """The size of what a variable is bound to."""


def estimated_cost(tree: Node, sizes: Mapping[str, DeclaredSize]) -> int:
    """Return the largest cost of a checked tree; ``sizes`` are those of its variables."""
    return _Estimate(sizes).visit(tree, {}).cost.high


class _Estimate:
    def __init__(self, sizes: Mapping[str, DeclaredSize]) -> None:
        self._sizes = sizes

    def visit(self, node: Node, scope: Mapping[str, _Value]) -> _Value:
        match node:
            case Constant():
                return _Value(node, NOTHING, computed=_constant_size(node))
            case Name(name):
                if (known := scope.get(name)) is not None:
                    return replace(known, node=node, cost=ONE, computed=None)
                path = tuple(name.split(".")) if name.startswith(f"{DEVICE}.") else (name,)
                return _Value(node, exactly(len(path)), path)
            case Select():
                return self._select(node, scope)
            case Literal():
                return self._literal(node, scope)
            case FunctionCall():
                return self._call(node, scope)
            case Loop() if node.binds:
                return self._binding(node, scope)
            case Loop():
                return self._loop(node, scope)

    def size(self, value: _Value) -> Range | None:
        """Return the size of a value, None if it is unknown."""
        if value.computed is not None:
            return value.computed
        if isinstance(value.node, Literal):
            count = len(value.node.elements)
            return exactly(count // 2 if value.node.is_map else count)
        if value.path and (declared := self._declared(value.path)) is not None:
            return declared
        return ONE if value.node.type.is_scalar else value.bound

    def _declared(self, path: tuple[str, ...]) -> Range | None:
        root = self._sizes.get(path[0]) or self._sizes.get("")
        return None if root is None else root.at(path[1:])

    def _select(self, node: Select, scope: Mapping[str, _Value]) -> _Value:
        operand = self.visit(node.operand, scope)
        if node.tests_presence:
            return _Value(node, operand.cost)
        is_device = isinstance(node.operand, Name) and node.operand.name == DEVICE
        looked_up = is_device or node.operand.type.has_fields
        cost = operand.cost.plus(ONE) if looked_up else operand.cost
        return _Value(node, cost, (*operand.path, node.field))

    def _literal(self, node: Literal, scope: Mapping[str, _Value]) -> _Value:
        seen = [self.visit(one, scope) for one in node.elements]
        cost = NEW_MAP if node.is_map else NEW_LIST
        for one in seen:
            cost = cost.plus(one.cost)
        keys = _union([self._most(one) for one in seen[::2]]) if node.is_map else ONE
        values = _union([self._most(one) for one in (seen[1::2] if node.is_map else seen)])
        return _Value(node, cost, entries=Entries(not node.is_map, keys, values))

    def _most(self, value: _Value) -> Range:
        size = self.size(value)
        return UNKNOWN if size is None else size

    def _binding(self, loop: Loop, scope: Mapping[str, _Value]) -> _Value:
        start = self.visit(loop.start, scope)
        cost = self.visit(loop.over, scope).cost.plus(start.cost)
        bound = replace(start, bound=self.size(start))
        result = self.visit(loop.result, {**scope, loop.result_name: bound})
        total = cost.plus(result.cost)
        return _Value(loop, total, computed=self.size(result), entries=result.entries)

    def _loop(self, loop: Loop, scope: Mapping[str, _Value]) -> _Value:
        over, start = self.visit(loop.over, scope), self.visit(loop.start, scope)
        within = {**scope, loop.result_name: replace(start, bound=self.size(start), path=())}
        result = self.visit(loop.result, within)
        within |= self._loop_variables(loop, over)
        step = self.visit(loop.step, within)
        a_round = self.visit(loop.condition, within).cost.plus(step.cost)
        rounds = self._most(over)
        cost = over.cost.plus(start.cost).plus(result.cost).plus(rounds.times(a_round))
        if isinstance(loop.start, Literal):
            return _Value(loop, cost, computed=rounds, entries=step.entries)
        computed = self.size(start) if isinstance(loop.start, Constant) else None
        return _Value(loop, cost, computed=computed)

    def _loop_variables(self, loop: Loop, over: _Value) -> dict[str, _Value]:
        entries = over.entries
        is_list = entries.is_list if entries else loop.over.type.name == "list"
        item = "@items" if is_list else "@values"

        def variable(step: str, size: Range | None) -> _Value:
            return _Value(loop.over, NOTHING, (*over.path, step), bound=size)

        keys, values = (entries.keys, entries.values) if entries else (None, None)
        if loop.second_variable:
            key = variable("@indices" if is_list else "@keys", keys)
            return {loop.variable: key, loop.second_variable: variable(item, values)}
        single = variable("@items", values) if is_list else variable("@keys", keys)
        return {loop.variable: single}

    def _call(self, call: FunctionCall, scope: Mapping[str, _Value]) -> _Value:
        seen = [self.visit(one, scope) for one in call.arguments]
        if call.function == "dyn":
            size = self.size(seen[0])
            return _Value(call, seen[0].cost.plus(ONE), computed=size, entries=seen[0].entries)
        if not call.overloads:
            return _Value(call, NOTHING)
        operands = [self._operand(one) for one in seen]
        estimates = [_overload_estimate(call.function, one, operands) for one in call.overloads]
        cost = estimates[0].cost
        for other in estimates[1:]:
            cost = cost.union(other.cost)
        sizes = [one.size for one in estimates if one.size is not None]
        value = _Value(call, cost, computed=_union(sizes) if sizes else None)
        return self._with_parts(call, value, seen)

    def _with_parts(self, call: FunctionCall, value: _Value, seen: Sequence[_Value]) -> _Value:
        """Return the value of a call with its path and the sizes of its entries."""
        for overload, step in (("index_list", "@items"), ("index_map", "@values")):
            if overload in call.overloads:
                inner = seen[0].entries.values if seen[0].entries else None
                value = replace(value, path=(*seen[0].path, step), computed=inner)
        pair = seen[1:] if call.function == "_?_:_" else seen
        if call.function in ("_?_:_", "_+_") and pair[0].entries and pair[1].entries:
            first, second = pair[0].entries, pair[1].entries
            keys, values = first.keys.union(second.keys), first.values.union(second.values)
            value = replace(value, entries=Entries(first.is_list, keys, values))
        return value

    def _operand(self, value: _Value) -> Operand:
        items = self._declared((*value.path, "@items")) if value.path else None
        return Operand(value.node, value.cost, self.size(value), items or UNKNOWN, value.entries)


def _constant_size(node: Constant) -> Range:
    if node.text is None:
        return ONE
    if node.type.name == "bytes":
        return exactly(len(node.text))
    return exactly(len(node.text.decode(errors="replace")))


def _union(ranges: Sequence[Range]) -> Range:
    if not ranges:
        return NOTHING
    return Range(min(one.low for one in ranges), max(one.high for one in ranges))


def _overload_estimate(function: str, overload: str, operands: Sequence[Operand]) -> CallEstimate:
    if overload in ("logical_or", "logical_and"):
        return CallEstimate(Range(operands[0].cost.low, _costs(operands).high))
    if overload == "conditional":
        condition, yes, no = operands
        cost = condition.cost.plus(yes.cost.union(no.cost))
        return CallEstimate(cost, yes.most.union(no.most))
    estimate = None
    for table, name in ((OF_LISTS, function), (OF_KUBERNETES, function), (OF_KUBERNETES, overload)):
        if estimate is None and name in table:
            estimate = table[name](operands)
    estimate = estimate or _standard_estimate(overload, operands)
    return CallEstimate(estimate.cost.plus(_costs(operands)), estimate.size)


def _costs(operands: Sequence[Operand]) -> Range:
    total = NOTHING
    for one in operands:
        total = total.plus(one.cost)
    return total


def _standard_estimate(overload: str, operands: Sequence[Operand]) -> CallEstimate:
    if overload in _TEXT_COMPARISONS or overload in ("equals", "not_equals"):
        most = min(operands[0].most.high, operands[1].most.high)
        return CallEstimate(Range(min(most, 1), most).scaled(READING))
    estimate = OF_OVERLOADS.get(overload)
    return CallEstimate(ONE) if estimate is None else estimate([one.most for one in operands])
