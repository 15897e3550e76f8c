"""CEL as in Kubernetes: the environment, Kubernetes' value types and functions, device selectors.

Lives here: everything that depends on the engine (cel-expr-python), Kubernetes' functions, static
types of devices and schemas, cost, and the errors of expressions. May not live here: uses of
expressions (allocating devices, validating objects), I/O, clocks.

An expression is checked with upstream's types (``environment``, ``declarations``), its cost is
estimated as upstream does (``estimate``), and its tree is rewritten (``rewriting``) for the engine,
which lacks Kubernetes' types. The engine counts only the rounds of loops, so the cost of an
evaluation is bounded before it (``cost``). docs/cel.md lists what is built and what differs.
"""

from holdfast.api.cel.devices import CompiledSelector, DeviceSelectors, SelectableDevice
from holdfast.api.cel.errors import CompileError, EvaluationError

__all__ = [
    "CompileError",
    "CompiledSelector",
    "DeviceSelectors",
    "EvaluationError",
    "SelectableDevice",
]
