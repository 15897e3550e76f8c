"""Share the result of a selector among devices that are equal in what the selector reads.

Evaluating a selector takes some 30 microseconds, and a cluster has tens of thousands of devices of
a few models. Devices of one model differ in attributes such as a UUID, which few selectors read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from holdfast.api.devices import Device, DeviceAttribute
from holdfast.cel import values
from holdfast.cel.cost import cost_over_sizes
from holdfast.cel.device_sizes import DeviceSizes
from holdfast.cel.errors import EvaluationError
from holdfast.cel.rewriting import DEVICE
from holdfast.cel.syntax import Constant, FunctionCall, Literal, Loop, Name, Node, Select
from holdfast.errors import BadRequest
from holdfast.shared_cache import SharedCache

if TYPE_CHECKING:
    from holdfast.cel.devices import CompiledSelector

Field = tuple[str, str, str]
"""``device.attributes`` or ``device.capacity``, domain and identifier."""
Result = bool | EvaluationError

_MAPS = ("device.attributes", "device.capacity")
_LARGEST_DEVICE = DeviceSizes(domains=32, names=32, characters=128, items=64)
"""What the API server accepts; the cost of most selectors is below the limit even there."""
_MAX_RESULTS = 262_144
"""Of all selectors together; about 200 bytes each."""


class _Results:
    """The results of one selector: by what it reads, or by device, if it may read all of it."""

    __slots__ = ("by_key", "fields")

    def __init__(self, fields: tuple[Field, ...] | None) -> None:
        self.fields = fields
        self.by_key: MutableMapping[Any, Result]
        self.by_key = WeakKeyDictionary() if fields is None else {}


class SharedResults:
    """The results of selectors by what they read; errors are results, too."""

    def __init__(self, *, cost_limit: int, lists: bool) -> None:
        self._cost_limit = cost_limit
        self._lists = lists
        self._known = SharedCache[_Results](_MAX_RESULTS)

    def get(
        self,
        selector: CompiledSelector,
        driver: str,
        device: Device,
        evaluate: Callable[[], Result],
        *,
        owner: str = "",
        identity: object = None,
    ) -> Result:
        """Return the result for an equal device, or that of ``evaluate``.

        ``owner`` is that of the selector. ``identity`` is an object that lives as long as the
        device is known: the key of results that may depend on all of it.
        """
        expression = selector.expression
        known = self._known.get(expression, owner)
        if known is None:
            known = _Results(self._fields_of(selector))
            self._known.put(expression, known, owner)
        if not self._is_readable(device) or (known.fields is None and identity is None):
            return evaluate()
        key = identity
        if known.fields is not None:
            key = (driver, device.allow_multiple_allocations, *_read(known.fields, driver, device))
        result = known.by_key.get(key)
        if result is None:
            if len(known.by_key) >= _MAX_RESULTS:
                self._known.grow(expression, -len(known.by_key))
                known.by_key.clear()
            result = known.by_key[key] = evaluate()
            self._known.grow(expression, 1)
        return result

    def _fields_of(self, selector: CompiledSelector) -> tuple[Field, ...] | None:
        """Return what a selector reads; None if that is unknown, or its cost depends on sizes."""
        cost = cost_over_sizes(selector.tree, _LARGEST_DEVICE.scope(), self._cost_limit)
        return None if cost is None else fields_read(selector.tree)

    def _is_readable(self, device: Device) -> bool:
        """Return whether all values can be read: otherwise every selector fails."""
        try:
            for attribute in device.attributes.values():
                if self._lists or not _is_plain(attribute):
                    values.attribute(attribute, lists=self._lists)
            for amount in device.capacity.values():
                values.quantity(amount.value)
        except BadRequest:
            return False
        return True


def fields_read(tree: Node) -> tuple[Field, ...] | None:
    """Return the attributes and capacities that an expression reads; None: possibly all."""
    try:
        return tuple(sorted(set(_fields_in(tree))))
    except _AllFields:
        return None


class _AllFields(Exception):
    """A map of fields is used as a whole, or with a name that is computed."""


def _fields_in(node: Node) -> Iterator[Field]:
    if (field := _field(node)) is not None:
        yield field
        return
    match node:
        case Name(name) if name in (DEVICE, *_MAPS):
            raise _AllFields
        case Select(operand, _):
            yield from _fields_in(operand)
        case FunctionCall(_, arguments) | Literal(arguments, _):
            for argument in arguments:
                yield from _fields_in(argument)
        case Loop():
            for part in (node.over, node.start, node.condition, node.step, node.result):
                yield from _fields_in(part)


def _field(node: Node) -> Field | None:
    """Return the field of ``device.attributes[?"domain"].orValue({}).identifier``, else None."""
    match node:
        case Select(domain, identifier):
            pass
        case FunctionCall("_[_]" | "_[?_]" | "_?._", (domain, Constant(bytes(text)))):
            identifier = text.decode(errors="replace")
        case _:
            return None
    match domain:
        case FunctionCall(
            "orValue",
            (FunctionCall("_[?_]", (Name(name), Constant(bytes(text)))), Literal((), True)),
        ) if name in _MAPS:
            return name, text.decode(errors="replace"), identifier
    return None


def _read(fields: tuple[Field, ...], driver: str, device: Device) -> Iterator[Hashable]:
    """Yield the values of fields; the slice may omit the driver's own domain."""
    for variable, domain, identifier in fields:
        if variable == _MAPS[0]:
            yield device.attributes.get(f"{domain}/{identifier}")
            yield device.attributes.get(identifier) if domain == driver else None
        else:
            for name in (f"{domain}/{identifier}", identifier if domain == driver else ""):
                amount = device.capacity.get(name)
                yield None if amount is None else str(amount.value)


def _is_plain(attribute: DeviceAttribute) -> bool:
    return not (attribute.string is None and attribute.int_ is None and attribute.bool_ is None)
