"""Selectors over devices: compile an expression once, ask it about many devices.

The engine has no object types, so the four fields of ``device`` are declared as four dotted
variables: an unknown field then fails to compile, as it should. The cost of a selector is bounded
once for all devices of about the same size.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

from holdfast.api.devices import Device
from holdfast.cel import functions, values
from holdfast.cel.cost import cost_over_sizes
from holdfast.cel.device_sizes import NO_SIZES, DeviceSizes, sizes_of
from holdfast.cel.failures import (
    CompileError,
    CostExceeded,
    EvaluationError,
    check_size,
    failed,
    in_upstreams_words,
)
from holdfast.cel.rewriting import with_default_domains
from holdfast.cel.syntax import Node, read_tree
from holdfast.errors import BadRequest

COST_LIMIT = 100_000
"""Steps, 10 ms at most: a selector is asked about every device, and in practice takes hundreds."""
_ACTIVATION_LIMIT = 1_000
_REMEMBERED = 512
_T = cel.Type


@cache
def _environment(shared_devices: bool, list_attributes: bool) -> Any:
    variables = {
        "device.driver": _T.STRING,
        "device.attributes": _T.Map(_T.STRING, _T.Map(_T.STRING, _T.DYN)),
        "device.capacity": _T.Map(_T.STRING, _T.Map(_T.STRING, _T.BYTES)),
    }
    if shared_devices:
        variables["device.allowMultipleAllocations"] = _T.BOOL
    declared = [
        *functions.quantity_functions(),
        *functions.semver_functions(),
        *functions.list_functions(),
    ]
    if list_attributes:
        declared += functions.includes_function()
    extensions = [ext_bindings.ExtBindings(), ext_strings.ExtStrings(), ext_optional.ExtOptional()]
    environment = cel.NewEnv(variables=variables, extensions=extensions, functions=declared)
    environment.compile("true")  # a mistake in our declarations shows here, not as the user's
    return environment


class SelectableDevice:
    """One device as selectors see it; ``fault`` says why none can (a value we cannot read)."""

    __slots__ = ("_activation", "_environment", "_spent", "_values", "fault", "sizes")

    def __init__(
        self,
        environment: Any,
        values: Mapping[str, Any],
        sizes: DeviceSizes = NO_SIZES,
        fault: str = "",
    ) -> None:
        self.sizes = sizes
        self.fault = fault
        self._environment = environment
        self._values = values
        self._activation: Any = None
        self._spent = 0

    def activation(self, cost: int) -> Any:
        """The engine's form of the device, for an evaluation of this cost.

        What an evaluation allocates is freed with its activation, so one activation is used only
        as long as the evaluations with it cost little together.
        """
        self._spent += cost
        if self._activation is None or self._spent > _ACTIVATION_LIMIT:
            activation = self._environment.Activation(self._values)
            if cost > _ACTIVATION_LIMIT:
                return activation
            self._activation, self._spent = activation, cost
        return self._activation


@dataclass(frozen=True, slots=True)
class CompiledSelector:
    """A compiled expression over one device."""

    expression: str
    program: Any
    tree: Node
    _costs: dict[DeviceSizes, int | None] = field(default_factory=dict)

    def matches(self, subject: SelectableDevice) -> bool:
        """Tell whether the device is chosen; anything but a bool is an EvaluationError."""
        if subject.fault:
            raise EvaluationError(self.expression, subject.fault)
        cost = self._cost(subject.sizes)
        if cost is None:
            raise CostExceeded(self.expression)
        try:
            answer = self.program.eval(subject.activation(cost))
        except RuntimeError as limit:
            raise failed(self.expression, str(limit)) from None
        kind = answer.type()
        if kind == _T.BOOL:
            return bool(answer.value())
        if kind == _T.ERROR:
            raise EvaluationError(self.expression, in_upstreams_words(str(answer.value())))
        raise EvaluationError(
            self.expression,
            f"CEL result of type {kind.name().lower()} could not be converted to bool",
        )

    def _cost(self, sizes: DeviceSizes) -> int | None:
        """Bound the cost for a device of these sizes; None beyond the limit."""
        if sizes not in self._costs:
            self._costs[sizes] = cost_over_sizes(self.tree, sizes.scope(), COST_LIMIT)
        return self._costs[sizes]


class DeviceSelectors:
    """Compile selectors, remembering the latest and why those failed that did."""

    def __init__(self, *, shared_devices: bool = True, list_attributes: bool = False) -> None:
        self._environment = _environment(shared_devices, list_attributes)
        self._lists = list_attributes
        self._shared = shared_devices
        self._known: OrderedDict[str, CompiledSelector | CompileError] = OrderedDict()

    def compile(self, expression: str) -> CompiledSelector:
        """Compile an expression whose static type is bool or unknown, or raise CompileError."""
        known = self._known.get(expression)
        if known is None:
            known = self._known[expression] = self._compile(expression)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(expression)
        if isinstance(known, CompileError):
            raise known.with_traceback(None)
        return known

    def _compile(self, expression: str) -> CompiledSelector | CompileError:
        try:
            program = self._program(expression)
        except CompileError as refusal:
            return refusal
        return CompiledSelector(expression, program, read_tree(program.serialize()))

    def _program(self, expression: str) -> Any:
        check_size(expression)
        try:
            program = self._environment.compile(with_default_domains(expression))
        except RuntimeError as refusal:
            words = in_upstreams_words(str(refusal))
            raise CompileError(expression, f"compilation failed: {words}") from None
        kind = program.return_type()
        if kind not in (_T.BOOL, _T.DYN):
            raise CompileError(
                expression,
                f"must evaluate to bool or the unknown type, not {kind.name().lower()}",
            )
        return program

    def subject(self, driver: str, device: Device) -> SelectableDevice:
        """Make engine values of a device; names without a domain belong to the driver's."""
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
            return SelectableDevice(None, {}, fault=unreadable.message)
        data: dict[str, Any] = {
            "device.driver": driver,
            "device.attributes": attributes,
            "device.capacity": capacity,
        }
        if self._shared:
            data["device.allowMultipleAllocations"] = bool(device.allow_multiple_allocations)
        return SelectableDevice(self._environment, data, sizes_of(driver, attributes, capacity))


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
