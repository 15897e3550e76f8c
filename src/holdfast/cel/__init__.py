"""CEL as Kubernetes speaks it: the environment, its own value types, selectors over devices.

Lives here: the one place that knows the engine (cel-expr-python), Kubernetes' functions on
quantities, versions and lists, the rewriting that makes up for what the engine lacks, and the
errors expressions end in. May not live here: what an expression is used for (choosing devices,
validating objects), I/O, clocks.

What the engine cannot do is refused, never guessed: two-variable comprehensions, the url, ip,
cidr and format libraries and a bare ``device`` do not compile; ``find`` and ``findAll`` compile
and fail when evaluated. The engine counts no cost, only the steps of loops; ``cost`` bounds the
cost of an evaluation beforehand, and what may cost too much is refused in upstream's words.
"""

from holdfast.cel.devices import CompiledSelector, DeviceSelectors, SelectableDevice
from holdfast.cel.failures import CompileError, EvaluationError

__all__ = [
    "CompileError",
    "CompiledSelector",
    "DeviceSelectors",
    "EvaluationError",
    "SelectableDevice",
]
