"""Device selectors: compile an expression once, evaluate it for many devices.

The checker has no closed object types, so the four fields of ``device`` are declared as four dotted
variables; an unknown field then fails to compile, as upstream. The runtime cost of a selector is
bounded once for all devices of similar size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from cel_expr_python import cel

from holdfast.api.cel import values
from holdfast.api.cel.cost import cost_over_sizes
from holdfast.api.cel.declarations import INCLUDES
from holdfast.api.cel.environment import Checker, evaluator, program_of
from holdfast.api.cel.errors import (
    TOO_DEEP,
    CompileError,
    CostExceeded,
    EvaluationError,
    as_cel_go_message,
    engine_error,
    is_bare_device,
)
from holdfast.api.cel.estimate import estimated_cost
from holdfast.api.cel.rewriting import DEVICE, evaluated_tree
from holdfast.api.cel.shared_results import (
    NO_SIZES,
    DeviceSizes,
    SharedResults,
    declared_sizes,
    sizes_of,
)
from holdfast.api.cel.syntax import Name, Node, Select, walk
from holdfast.api.devices import Device
from holdfast.runtime.errors import BadRequest
from holdfast.runtime.shared_cache import SharedCache

COST_LIMIT = 100_000
"""About 10 ms. A selector is evaluated for every device; in practice it costs some hundreds."""
ESTIMATE_LIMIT = 1_000_000
"""Upstream's limit at creation, in its own units."""
_ACTIVATION_LIMIT = 1_000
"""The cost after which an activation is replaced. One activation for good would keep the memory of
every evaluation."""
_WORK_OF_COMPILING, _WORK_OF_COMPILED_CHARACTER = 5_000, 30
"""The measured cost of compiling an expression, and of each of its characters, in the units of
COST_LIMIT."""
_WORK_OF_SIZED_CHARACTER = 10
"""The cost per character of finding the cost of a selector for devices of a new size."""
_CACHE_SIZE = 1024 * 1024
"""The characters of all cached selectors. A short selector takes 2 KiB of memory, the longest, with
10,000 characters, 2 MiB; one claim may have 8,192 selectors."""
_SIZE_OF_SELECTOR = 64
"""Added to the characters of each selector."""
_T = cel.Type


@cache
def _checker(shared_devices: bool, list_attributes: bool, bare_device: bool = False) -> Checker:
    attribute = "dyn" if list_attributes else "any"
    variables = {
        "device.driver": "string",
        "device.attributes": f"map<string, map<string, {attribute}>>",
        "device.capacity": "map<string, map<string, kubernetes.Quantity>>",
    }
    if shared_devices:
        variables["device.allowMultipleAllocations"] = "bool"
    if bare_device:
        variables[DEVICE] = "dyn"
    more = (INCLUDES,) if list_attributes else ()
    return Checker(variables, *more, bindings=True)


class SelectableDevice:
    """One device as selectors see it; ``read_error`` is set if one of its values cannot be read."""

    __slots__ = ("_activation", "_spent", "_values", "read_error", "sizes")

    def __init__(
        self, values: Mapping[str, Any], sizes: DeviceSizes = NO_SIZES, read_error: str = ""
    ) -> None:
        self.sizes = sizes
        self.read_error = read_error
        self._values = values
        self._activation: Any = None
        self._spent = 0

    def activation(self, cost: int) -> Any:
        """Return the device as engine values, for an evaluation of this cost.

        Memory of evaluations is freed with the activation, so an activation is replaced when the
        evaluations that used it exceed a total cost.
        """
        self._spent += cost
        if self._activation is None or self._spent > _ACTIVATION_LIMIT:
            activation = evaluator().Activation(self._values)
            if cost > _ACTIVATION_LIMIT:
                return activation
            self._activation, self._spent = activation, cost
        return self._activation


@dataclass(frozen=True, slots=True)
class CompiledSelector:
    """A compiled selector."""

    expression: str
    checked: Node
    """The tree with static types, for the estimate of its cost."""
    program: Any
    tree: Node
    """The tree that is evaluated."""
    _costs: dict[DeviceSizes, int | None] = field(default_factory=dict)

    def work_of(self, device: SelectableDevice) -> int:
        """Return an upper bound of the work of ``matches``, in the units of COST_LIMIT.

        It includes finding the cost for devices of a size that was not seen before.
        """
        if device.sizes not in self._costs:
            return len(self.expression) * _WORK_OF_SIZED_CHARACTER + (self._cost(device.sizes) or 0)
        return self._costs[device.sizes] or 0

    def matches(self, device: SelectableDevice) -> bool:
        """Return whether the device matches; raise EvaluationError if the result is not a bool."""
        if device.read_error:
            raise EvaluationError(self.expression, device.read_error)
        cost = self._cost(device.sizes)
        if cost is None:
            raise CostExceeded(self.expression)
        try:
            result = self.program.eval(device.activation(cost))
        except RuntimeError as limit:
            raise engine_error(self.expression, str(limit)) from None
        kind = result.type()
        if kind == _T.BOOL:
            return bool(result.value())
        if kind == _T.ERROR:
            raise EvaluationError(self.expression, as_cel_go_message(str(result.value())))
        raise EvaluationError(
            self.expression,
            f"CEL result of type {kind.name().lower()} could not be converted to bool",
        )

    @property
    def estimated_cost(self) -> int:
        """The largest cost by upstream's estimate, which decides at creation."""
        return estimated_cost(self.checked, declared_sizes())

    @property
    def is_too_complex(self) -> bool:
        """Whether it is refused at creation: by upstream's estimate, or as never evaluable here."""
        return self.estimated_cost > ESTIMATE_LIMIT or self._cost(NO_SIZES) is None

    def _cost(self, sizes: DeviceSizes) -> int | None:
        """Return the cost bound for a device of these sizes; None if above the limit."""
        if sizes not in self._costs:
            self._costs[sizes] = cost_over_sizes(self.tree, sizes.scope(), COST_LIMIT)
        return self._costs[sizes]


class DeviceSelectors:
    """Compiles selectors; caches the latest results of each owner, errors included.

    The owner of a selector is the namespace of its claim, or "" for that of a class.

    ``work`` is the cost of all compilations and evaluations so far, in the units of COST_LIMIT;
    cached results cost nothing. Callers use it to decide when a pause is due.
    """

    def __init__(self, *, shared_devices: bool = True, list_attributes: bool = False) -> None:
        self._lists = list_attributes
        self._shared = shared_devices
        self._known = SharedCache[CompiledSelector | CompileError](_CACHE_SIZE)
        self.work = 0
        self.shared_results = SharedResults(cost_limit=COST_LIMIT, lists=list_attributes)

    def compile(self, expression: str, owner: str = "") -> CompiledSelector:
        """Compile an expression whose static type is bool or unknown, or raise CompileError."""
        known = self._known.get(expression, owner)
        if known is None:
            self.work += _WORK_OF_COMPILING + len(expression) * _WORK_OF_COMPILED_CHARACTER
            known = self._compile(expression)
            self._known.put(expression, known, owner, len(expression) + _SIZE_OF_SELECTOR)
        if isinstance(known, CompileError):
            raise known.with_traceback(None)
        return known

    def _compile(self, expression: str) -> CompiledSelector | CompileError:
        try:
            checked = self._check(expression)
            tree = evaluated_tree(checked)
            return CompiledSelector(expression, checked, program_of(tree), tree)
        except CompileError as refusal:
            return refusal
        except RecursionError:
            return CompileError(expression, TOO_DEEP)

    def _check(self, expression: str) -> Node:
        try:
            checked = _checker(self._shared, self._lists).check(expression)
        except CompileError as refusal:
            if not is_bare_device(refusal.message):
                raise
            checked = _checker(self._shared, self._lists, bare_device=True).check(expression)
            _check_fields(expression, checked, self._shared)
        unknown = ("any", "dyn") if self._lists else ("any",)
        if checked.type.name != "bool" and checked.type.name not in unknown:
            message = f"must evaluate to bool or the unknown type, not {checked.type}"
            raise CompileError(expression, message)
        return checked

    def selectable_device(self, driver: str, device: Device) -> SelectableDevice:
        """Convert a device into engine values; names without a domain get the driver's domain."""
        attributes: dict[str, dict[str, Any]] = {}
        capacity: dict[str, dict[str, bytes]] = {}
        try:
            for name, attribute in device.attributes.items():
                domain, identifier = split_name(name, driver)
                value = _readable(name, attribute, self._lists)
                attributes.setdefault(domain, {})[identifier] = value
            for name, amount in device.capacity.items():
                domain, identifier = split_name(name, driver)
                capacity.setdefault(domain, {})[identifier] = values.quantity(amount.value)
        except BadRequest as unreadable:
            return SelectableDevice({}, read_error=unreadable.message)
        data: dict[str, Any] = {
            "device.driver": driver,
            "device.attributes": attributes,
            "device.capacity": capacity,
        }
        if self._shared:
            data["device.allowMultipleAllocations"] = bool(device.allow_multiple_allocations)
        data[DEVICE] = {name.removeprefix("device."): value for name, value in data.items()}
        return SelectableDevice(data, sizes_of(driver, attributes, capacity))


def _check_fields(expression: str, tree: Node, shared_devices: bool) -> None:
    known = {"driver", "attributes", "capacity"}
    if shared_devices:
        known.add("allowMultipleAllocations")
    for node in walk(tree):
        if not isinstance(node, Select) or not isinstance(node.operand, Name):
            continue
        if node.operand.name == DEVICE and node.field not in known:
            message = f"compilation failed: ERROR: undefined field '{node.field}'"
            raise CompileError(expression, message)


def _readable(name: str, attribute: Any, lists: bool) -> Any:
    try:
        return values.attribute(attribute, lists=lists)
    except BadRequest as unreadable:
        raise BadRequest(f"attribute {name}: {unreadable.message}") from None


def split_name(name: str, driver: str) -> tuple[str, str]:
    """Split a qualified name into domain and identifier.

    >>> split_name("model", "gpu.example.com"), split_name("a.com/model", "gpu.example.com")
    (('gpu.example.com', 'model'), ('a.com', 'model'))
    """
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)
