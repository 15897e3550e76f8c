"""The two environments of the engine: one checks expressions, the other evaluates them.

The checker knows Kubernetes' types and functions as upstream declares them (``declarations``). The
engine cannot evaluate values of such types, so the checked tree is rewritten (``rewriting``) and
evaluated by an environment with functions of ours on values that the engine has (``functions``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from cel_expr_python import cel
from google.protobuf import any_pb2, descriptor_pool, duration_pb2, struct_pb2, timestamp_pb2

from holdfast.cel.declarations import REDECLARED, declarations, type_config
from holdfast.cel.errors import CompileError, check_size
from holdfast.cel.functions import evaluated_functions
from holdfast.cel.literals import check_literals
from holdfast.cel.macros import with_known_macros
from holdfast.cel.messages import as_cel_go_message
from holdfast.cel.static_types import OPTIONAL
from holdfast.cel.syntax import Constant, FunctionCall, MessageLiteral, Node, read_tree, walk
from holdfast.cel.tree_writing import write_tree

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
    """Return a configuration of the checker; to parse one takes five milliseconds."""
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
            found = program_of(node).eval(evaluator().Activation({}))
            if found.type() == cel.Type.ERROR:
                message = as_cel_go_message(str(found.value()))
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
