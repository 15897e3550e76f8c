"""The two environments of the engine: one checks expressions, the other evaluates them.

The checker has Kubernetes' types and functions as upstream declares them (``declarations``). The
engine cannot evaluate values of such types, so the checked tree is rewritten (``rewriting``) and
evaluated by an environment with our functions on values that the engine has (``functions``).

Spellings that the engine's parser rejects are replaced by accepted ones of the same length, so that
positions in messages stay the same: ``exists_one(k, v, p)`` is ``existsOne(k, v, p)``;
``has(device.driver)`` is ``true``, because the fields of ``device`` are variables for the checker.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from cel_expr_python import cel
from google.protobuf import any_pb2, descriptor_pool, duration_pb2, struct_pb2, timestamp_pb2

from holdfast.api.cel.declarations import REDECLARED, declarations, type_config
from holdfast.api.cel.errors import CompileError, as_cel_go_message, check_size
from holdfast.api.cel.functions import evaluated_functions
from holdfast.api.cel.literals import check_literals
from holdfast.api.cel.static_types import OPTIONAL
from holdfast.api.cel.syntax import Constant, FunctionCall, MessageLiteral, Node, read_tree, walk
from holdfast.api.cel.tree_writing import write_tree

_EXTENSIONS = ("optional", "sets", "lists", "two-var-comprehensions")
_CONVERSIONS = ("bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint")
_WELL_KNOWN = (any_pb2, duration_pb2, struct_pb2, timestamp_pb2)


class TooDeep(RecursionError):
    """The tree has too many levels to be evaluated."""


class Checker:
    """Parses and checks expressions over typed variables."""

    def __init__(
        self,
        variables: Mapping[str, str],
        *more: str,
        bindings: bool = False,
        messages: descriptor_pool.DescriptorPool | None = None,
    ) -> None:
        typed = {name: cel.Type(text) for name, text in variables.items() if not _is_optional(text)}
        optional = tuple((name, text) for name, text in variables.items() if _is_optional(text))
        self._environment = cel.NewEnv(
            config=_config(bindings, more, optional),
            variables=typed,
            descriptor_pool=messages or descriptor_pool.Default(),
        )
        self._environment.compile("true")  # reports errors of our own declarations

    def check(self, expression: str) -> Node:
        """Return the checked tree of an expression, or raise CompileError with cel-go's message."""
        check_size(expression)
        try:
            checked = self._environment.compile(with_known_macros(expression))
            tree, offsets = read_tree(checked.serialize())
            check_literals(expression, tree, offsets)
            _check_conversions(expression, tree)
        except RuntimeError as refusal:
            message = as_cel_go_message(str(refusal))
            raise CompileError(expression, f"compilation failed: {message}") from None
        except MessageLiteral as literal:
            message = f"compilation failed: {literal}{{}} is not built: protobuf messages"
            raise CompileError(expression, message) from None
        return tree


def _is_optional(type_: str) -> bool:
    return type_.startswith(OPTIONAL)  # the engine's own constructor spoils its name


@lru_cache(maxsize=64)
def _config(bindings: bool, more: tuple[str, ...], variables: tuple[tuple[str, str], ...]) -> Any:
    """Return a configuration of the checker; parsing one takes five milliseconds."""
    extensions = (*_EXTENSIONS, "bindings") if bindings else _EXTENSIONS
    config = {
        "name": "kubernetes",
        "extensions": [{"name": name} for name in extensions],
        "stdlib": {"exclude_functions": [{"name": name} for name in REDECLARED]},
        "functions": declarations(*more),
        "variables": [{"name": name} | type_config(text) for name, text in variables],
    }
    return cel.NewEnvConfigFromYaml(json.dumps(config))


def _check_conversions(expression: str, tree: Node) -> None:
    """Raise CompileError if a conversion of a constant fails: upstream evaluates it at once."""
    for node in walk(tree):
        if isinstance(node, FunctionCall) and _is_constant(node):
            result = program_of(node).eval(evaluator().Activation({}))
            if result.type() == cel.Type.ERROR:
                message = as_cel_go_message(str(result.value()))
                raise CompileError(expression, f"program instantiation failed: {message}")


def _is_constant(node: Node) -> bool:
    """Return whether a node is a constant, or conversions of one."""
    if not isinstance(node, FunctionCall):
        return isinstance(node, Constant)
    return (
        node.function in _CONVERSIONS
        and len(node.arguments) == 1
        and _is_constant(node.arguments[0])
    )


def new_pool() -> descriptor_pool.DescriptorPool:
    """Return a pool of message types with those that CEL itself needs."""
    pool = descriptor_pool.DescriptorPool()
    for module in _WELL_KNOWN:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    return pool


@cache
def evaluator() -> Any:
    """Return the environment that evaluates rewritten trees; it has no types of variables."""
    extensions = [{"name": name} for name in (*_EXTENSIONS, "bindings", "strings")]
    config = cel.NewEnvConfigFromYaml(json.dumps({"name": "values", "extensions": extensions}))
    functions = [cel.FunctionDecl(n, list(o)) for n, o in evaluated_functions().items()]
    environment = cel.NewEnv(config=config, functions=functions)
    environment.compile("true")
    return environment


def program_of(tree: Node) -> Any:
    """Return a program that evaluates a rewritten tree; raise TooDeep if the engine cannot."""
    try:
        return evaluator().deserialize(write_tree(tree))
    except RuntimeError:
        raise TooDeep from None  # protobuf reads a hundred nested messages


_TOKEN = re.compile(
    r"""
      [rRbB]{0,2}(?:\"\"\".*?\"\"\"|'''.*?''')
    | [bB]?[rR][bB]?(?:"[^"\n]*"|'[^'\n]*')
    | [bB]?(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    | (?P<blank>\s+|//[^\n]*)
    | [A-Za-z_][A-Za-z_0-9]*
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
_OPEN, _CLOSE = ("(", "[", "{"), (")", "]", "}")
_FIELDS = ("driver", "attributes", "capacity", "allowMultipleAllocations")


def with_known_macros(expression: str) -> str:
    """Return the expression with spellings that the engine accepts.

    >>> with_known_macros("a.exists_one(k, v, true) && b.exists_one(k, true)")
    'a.existsOne (k, v, true) && b.exists_one(k, true)'
    """
    if "exists_one" not in expression and "has" not in expression:
        return expression
    tokens = [m for m in _TOKEN.finditer(expression) if m["blank"] is None]
    texts = [m[0] for m in tokens]
    edits = []
    for i, text in enumerate(texts):
        if text == "exists_one" and _arguments(texts, i + 1) == 3:
            edits.append((tokens[i].start(), tokens[i].end(), "existsOne"))
        elif text == "has" and _is_device_field(texts[i + 1 : i + 6]):
            edits.append((tokens[i].start(), tokens[i + 5].end(), "true"))
    for start, end, new in reversed(edits):
        expression = expression[:start] + new.ljust(end - start) + expression[end:]
    return expression


def _is_device_field(texts: list[str]) -> bool:
    match texts:
        case ["(", "device", ".", field, ")"]:
            return field in _FIELDS
    return False


def _arguments(texts: list[str], at: int) -> int:
    """Return the number of arguments of the call whose bracket is at this token."""
    depth, commas = 0, 0
    for text in texts[at:]:
        depth += (text in _OPEN) - (text in _CLOSE)
        if depth == 0:
            break
        commas += text == "," and depth == 1
    return commas + 1
