"""Selectors over devices: compile an expression once, ask it about many devices.

The engine has no object types, so the four fields of ``device`` are declared as four dotted
variables: an unknown field then fails to compile, as it should. A device is turned into engine
values once (``Subject``) however many selectors look at it.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import cache
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

from holdfast.api.devices import Device
from holdfast.cel import functions, values
from holdfast.cel.failures import CompileError, EvaluationError, in_upstreams_words
from holdfast.cel.rewriting import with_default_domains
from holdfast.errors import BadRequest

MAX_EXPRESSION_BYTES = 10 * 1024
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


@dataclass(frozen=True, slots=True)
class Subject:
    """One device as selectors see it; ``fault`` says why none can (a value we cannot read)."""

    activation: Any
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Selector:
    """A compiled expression over one device."""

    expression: str
    program: Any

    def matches(self, subject: Subject) -> bool:
        """Tell whether the device is chosen; anything but a bool is an EvaluationError."""
        if subject.fault:
            raise EvaluationError(self.expression, subject.fault)
        try:
            answer = self.program.eval(subject.activation)
        except RuntimeError as limit:
            raise EvaluationError(self.expression, in_upstreams_words(str(limit))) from None
        kind = answer.type()
        if kind == _T.BOOL:
            return bool(answer.value())
        if kind == _T.ERROR:
            raise EvaluationError(self.expression, in_upstreams_words(str(answer.value())))
        raise EvaluationError(
            self.expression,
            f"CEL result of type {kind.name().lower()} could not be converted to bool",
        )


class DeviceSelectors:
    """Compile selectors, remembering the latest; failures are not remembered."""

    def __init__(self, *, shared_devices: bool = True, list_attributes: bool = False) -> None:
        self._environment = _environment(shared_devices, list_attributes)
        self._lists = list_attributes
        self._shared = shared_devices
        self._known: OrderedDict[str, Selector] = OrderedDict()

    def compile(self, expression: str) -> Selector:
        """Compile an expression whose static type is bool or unknown, or raise CompileError."""
        if known := self._known.get(expression):
            self._known.move_to_end(expression)
            return known
        selector = Selector(expression, self._program(expression))
        self._known[expression] = selector
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return selector

    def _program(self, expression: str) -> Any:
        if len(expression.encode()) > MAX_EXPRESSION_BYTES:
            raise CompileError(expression, f"must be at most {MAX_EXPRESSION_BYTES} bytes long")
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

    def subject(self, driver: str, device: Device) -> Subject:
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
            return Subject(None, unreadable.message)
        data: dict[str, Any] = {
            "device.driver": driver,
            "device.attributes": attributes,
            "device.capacity": capacity,
        }
        if self._shared:
            data["device.allowMultipleAllocations"] = bool(device.allow_multiple_allocations)
        return Subject(self._environment.Activation(data))


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
