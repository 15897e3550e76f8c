"""CEL as in Kubernetes: the environment, Kubernetes' value types and functions, device selectors.

Lives here: everything that depends on the engine (cel-expr-python), Kubernetes' functions on
quantities, versions and lists, workarounds for what the engine lacks, and the errors of
expressions. May not live here: uses of expressions (allocating devices, validating objects), I/O,
clocks.

What the engine does not support is an error: two-variable comprehensions, the url, ip, cidr and
format libraries and a bare ``device`` do not compile; ``find`` and ``findAll`` compile and fail
when evaluated. The engine counts only the steps of loops, not cost. ``cost`` therefore bounds the
cost before an evaluation; an expression above the limit fails with upstream's message.
"""

from holdfast.cel.devices import CompiledSelector, DeviceSelectors, SelectableDevice
from holdfast.cel.errors import CompileError, EvaluationError

__all__ = [
    "CompileError",
    "CompiledSelector",
    "DeviceSelectors",
    "EvaluationError",
    "SelectableDevice",
]
