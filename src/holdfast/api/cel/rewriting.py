"""Rewrite a checked tree into one that the engine can evaluate.

- A function that the engine has with other arguments gets another name.
- An unknown domain of ``device.attributes`` and ``device.capacity`` is an empty map: a lookup
  becomes ``device.attributes[?domain].orValue({})``. ``domain in device.attributes`` still tests
  whether it exists. ``cel.bind`` of ``device`` or of these maps is replaced by what it binds.
- Macros whose expansion the engine cannot evaluate (``transformMap``) collect a list, which one of
  our functions turns into a map.
- Our functions cannot return an optional value: they return a value that is empty for "none".
- Lists of the types set and map are equal in any order, and their sum has no item twice.
- With ``optionalOldSelf`` the variable ``oldSelf`` is an optional value.

The alternative would be our own evaluator. Then one implementation of CEL would check expressions
and another would evaluate them; here the engine does both (decision 0014).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from holdfast.api.cel.functions import IMPLEMENTATIONS, evaluated_name
from holdfast.api.cel.list_functions import (
    COMPUTED_PATTERNS,
    MAP_OF,
    MAP_SUM,
    SAME_ITEMS,
    SET_SUM,
)
from holdfast.api.cel.schema_types import SchemaType
from holdfast.api.cel.syntax import (
    Constant,
    FunctionCall,
    Literal,
    Loop,
    Name,
    Node,
    Select,
    walk,
)
from holdfast.api.cel.tree_writing import part
from holdfast.runtime.errors import BadRequest

DEVICE = "device"
TABLES = ("device.attributes", "device.capacity")
SELF, OLD_SELF, HAS_OLD_SELF = "self", "oldSelf", "@hasOldSelf"
_INSERT = "cel.@mapInsert"
_EMPTY_MAP, _EMPTY_LIST = Literal((), is_map=True), Literal(())
_TRUE = Constant(None, b"\x10\x01")
_CONVERSIONS = (
    ("string_to_quantity",), ("string_to_semver",), ("string_to_ip",), ("string_to_cidr",),
)  # fmt: skip
_OPTIONAL_RESULTS = ("format-named", "format-validate")
_UNWRAP = ("optional_unwrap", "optional_unwrapOpt")

Aliases = Mapping[str, Name]


def evaluated_tree(
    tree: Node, *, optional_old_self: bool = False, self_type: SchemaType | None = None
) -> Node:
    """Return the tree to evaluate; ``self_type`` is the type of ``self`` in rules."""
    return _Rewriter(optional_old_self, self_type).node(tree, {})


def _string(text: str) -> Constant:
    return Constant(text.encode(), part(6, text.encode()))


def _folded(call: FunctionCall) -> Constant | None:
    """Return the value of a call with a constant text, such as ``quantity("1Gi")``."""
    if call.overloads not in _CONVERSIONS or not isinstance(call.arguments[0], Constant):
        return None
    text = call.arguments[0]
    try:
        value = IMPLEMENTATIONS[call.overloads[0]]((text.text or b"").decode())
    except (BadRequest, UnicodeDecodeError):
        return None  # an error when it is evaluated, as upstream
    return Constant(value, part(7, value))


def _call(function: str, *arguments: Node, member: bool = False) -> FunctionCall:
    return FunctionCall(function, arguments, member)


class _Rewriter:
    def __init__(self, optional_old_self: bool, self_type: SchemaType | None) -> None:
        self._optional_old_self = optional_old_self
        self._types: dict[str, SchemaType | None] = {SELF: self_type, OLD_SELF: self_type}
        """The types of the variables, including those of loops."""

    def node(self, node: Node, aliases: Aliases) -> Node:
        match node:
            case Constant():
                return node
            case Name(name):
                return self._name(aliases.get(name, node))
            case Select():
                return self._select(node, aliases)
            case FunctionCall(_, arguments):
                rewritten = tuple(self.node(one, aliases) for one in arguments)
                return self._unordered(node, rewritten) or self._function(
                    replace(node, arguments=rewritten)
                )
            case Literal(elements):
                return replace(node, elements=tuple(self.node(one, aliases) for one in elements))
            case Loop():
                return self._loop(node, aliases)

    def _name(self, name: Name) -> Node:
        if name.name != OLD_SELF or not self._optional_old_self:
            return name
        present = _call("optional.of", name)
        return _call("_?_:_", Name(HAS_OLD_SELF), present, _call("optional.none"))

    def _select(self, node: Select, aliases: Aliases) -> Node:
        operand = self.node(node.operand, aliases)
        if isinstance(operand, Name) and operand.name == DEVICE:
            return Name(f"{DEVICE}.{node.field}")
        if _is_table(operand):
            if node.tests_presence:
                return _TRUE  # as upstream, where a lookup always finds a map
            return _domain(operand, _string(node.field))
        return replace(node, operand=operand)

    def _function(self, call: FunctionCall) -> Node:
        if call.function in ("_[_]", "_[?_]", "_?._") and _is_table(call.arguments[0]):
            domain = _domain(call.arguments[0], call.arguments[1])
            return domain if call.function == "_[_]" else _call("optional.of", domain)
        if call.overloads and call.overloads[0] in _UNWRAP:
            return _unwrapped(call.arguments[0])
        if (constant := _folded(call)) is not None:
            return constant
        if call.function in COMPUTED_PATTERNS and not isinstance(call.arguments[1], Constant):
            return _call(COMPUTED_PATTERNS[call.function], *call.arguments)
        renamed = replace(call, function=evaluated_name(call.function, call.overloads))
        if call.overloads and call.overloads[0] in _OPTIONAL_RESULTS:
            return _call("optional.ofNonZeroValue", renamed)
        return renamed

    def _unordered(self, call: FunctionCall, arguments: tuple[Node, ...]) -> Node | None:
        """Return the call for lists whose order does not count, None for all other values."""
        if call.function not in ("_==_", "_!=_", "_+_"):
            return None
        type_ = self._type(call.arguments[0])
        if type_ is None or type_.list_type not in ("set", "map"):
            return None
        if call.function != "_+_":
            same = _call(SAME_ITEMS, *arguments)
            return same if call.function == "_==_" else _call("!_", same)
        if type_.list_type == "set":
            return _call(SET_SUM, *arguments)
        return _call(MAP_SUM, *arguments, Literal(tuple(map(_string, type_.map_keys))))

    def _type(self, node: Node) -> SchemaType | None:
        """Return the type of a value that a path from a variable leads to."""
        match node:
            case Name(name):
                return self._types.get(name)
            case Select(operand, field):
                schema_type = self._type(operand)
                return None if schema_type is None else schema_type.field(field)
            case FunctionCall("_[_]", (container, _)):
                schema_type = self._type(container)
                return None if schema_type is None else schema_type.items
            case FunctionCall("_+_", (first, _)):
                schema_type = self._type(first)
                return schema_type if schema_type is not None and schema_type.list_type else None
        return None

    def _loop(self, loop: Loop, aliases: Aliases) -> Node:
        start = self.node(loop.start, aliases)
        if loop.binds and isinstance(start, Name) and start.name in (DEVICE, *TABLES):
            return self.node(loop.result, {**aliases, loop.result_name: start})
        own = (loop.variable, loop.second_variable, loop.result_name)
        over = self.node(loop.over, aliases)
        outer, self._types = self._types, {**self._types, **self._loop_types(loop)}
        inner = {name: node for name, node in aliases.items() if name not in own}
        rewritten = replace(
            loop,
            over=over,
            start=start,
            condition=self.node(loop.condition, inner),
            step=self.node(loop.step, inner),
            result=self.node(loop.result, inner),
        )
        self._types = outer
        return _collecting(rewritten)

    def _loop_types(self, loop: Loop) -> dict[str, SchemaType | None]:
        over = self._type(loop.over)
        items = None if over is None else over.items
        is_list = over is not None and over.name == "list"
        if loop.second_variable:
            return {loop.variable: None, loop.second_variable: items}
        return {loop.variable: items if is_list else None}


def _is_table(node: Node) -> bool:
    return isinstance(node, Name) and node.name in TABLES


def _domain(table: Node, domain: Node) -> Node:
    return _call("orValue", _call("_[?_]", table, domain), _EMPTY_MAP, member=True)


def _unwrapped(values: Node) -> Node:
    """Return ``values.filter(v, v.hasValue()).map(v, v.value())`` as one loop."""
    name, accumulator = Name("@value"), Name("@found")
    one = Literal((_call("value", name, member=True),))
    added = _call("_+_", accumulator, one)
    step = _call("_?_:_", _call("hasValue", name, member=True), added, accumulator)
    return Loop("@value", values, "@found", _EMPTY_LIST, _TRUE, step, accumulator)


def _collecting(loop: Loop) -> Node:
    """Return a loop that collects entries in a list, if it inserts them into a map."""
    inserts = any(isinstance(one, FunctionCall) and one.function == _INSERT
                  and one.arguments[0] == Name(loop.result_name, one.arguments[0].type)
                  for one in walk(loop.step))  # fmt: skip
    if not inserts:
        return loop
    step = _with_appends(loop.step, loop.result_name)
    result = _call(MAP_OF, loop.result)
    return replace(loop, start=_EMPTY_LIST, step=step, result=result)


def _with_appends(step: Node, result_name: str) -> Node:
    if not isinstance(step, FunctionCall):
        return step
    if step.function == _INSERT:
        entry = step.arguments[1] if len(step.arguments) == 2 else Literal(step.arguments[1:])
        return _call("_+_", Name(result_name), Literal((entry,)))
    arguments = tuple(_with_appends(one, result_name) for one in step.arguments)
    return replace(step, arguments=arguments)
