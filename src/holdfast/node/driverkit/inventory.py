"""The inventory that the author of a driver returns, and its form in the API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.api.decode import JsonObject
from holdfast.api.quantity import AmountText, Quantity
from holdfast.runtime.errors import BadRequest, Refused

CounterAmounts = Mapping[str, AmountText]


class InvalidInventory(Refused):
    """The inventory of a driver is wrong; the message names the device and the field."""


class Version(str):
    """The value of an attribute that is a semantic version: ``Version("12.4.0")``."""

    __slots__ = ()


Scalar = bool | int | str
AttributeValue = Scalar | Sequence[Scalar]
"""A list of values needs the feature gate DRAListTypeAttributes."""


@dataclass(frozen=True, slots=True)
class Taint:
    """Keeps claims without a toleration from a device; ``NoExecute`` also evicts its pods."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class Capacity:
    """An amount of a shareable device, and the part of it that one claim may consume.

    A claim without a request consumes ``default``. Requests are rounded up to one of ``values``, or
    to ``minimum`` plus a multiple of ``step``, at most ``maximum``.
    """

    value: AmountText
    default: AmountText | None = None
    values: Sequence[AmountText] = ()
    minimum: AmountText | None = None
    maximum: AmountText | None = None
    step: AmountText | None = None


@dataclass(frozen=True, slots=True)
class CounterSet:
    """Amounts that several devices of the pool share, such as the memory of a divisible GPU."""

    name: str
    counters: CounterAmounts


@dataclass(frozen=True, slots=True)
class Device:
    """A device that claims can be allocated.

    ``consumes`` is what it takes from counter sets while it is allocated; a ``shareable`` device
    serves several claims, which divide its capacity.
    """

    name: str
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    capacity: Mapping[str, AmountText | Capacity] = field(default_factory=dict)
    consumes: Mapping[str, CounterAmounts] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    shareable: bool = False


Item = Device | CounterSet
Inventory = Iterable[Item] | Mapping[str, Iterable[Item]]
"""The items of one pool, which has the name of the node, or items by the name of their pool."""


def pools_of(inventory: Any, node: str) -> dict[str, list[Item]]:
    """Return the items of an inventory by pool; raises InvalidInventory."""
    given = inventory if isinstance(inventory, Mapping) else {node: inventory}
    pools = {}
    for pool, items in given.items():
        if not isinstance(items, Iterable) or isinstance(items, str | bytes):
            raise InvalidInventory(f"the inventory must be a list of Device, not {items!r}")
        pools[pool] = list(items)
        for i, item in enumerate(pools[pool]):
            if not isinstance(item, Device | CounterSet):
                raise InvalidInventory(f"item {i} of pool {pool} must be a Device, not {item!r}")
    return pools


def raw_device(device: Device) -> JsonObject:
    """Return a device in the form of the API; raises InvalidInventory."""
    at = f'device "{device.name}"'
    if not isinstance(device.name, str):
        raise InvalidInventory(f"{at}: name: must be a str")
    for field_name in ("attributes", "capacity", "consumes"):
        if not isinstance(getattr(device, field_name), Mapping):
            raise InvalidInventory(f"{at}: {field_name}: must be a dict")
    raw: JsonObject = {"name": device.name}
    if device.attributes:
        raw["attributes"] = {
            key: _raw_attribute(value, f"{at}: attributes[{key}]")
            for key, value in device.attributes.items()
        }
    if device.capacity:
        raw["capacity"] = {
            key: _raw_capacity(value, f"{at}: capacity[{key}]")
            for key, value in device.capacity.items()
        }
    if device.consumes:
        raw["consumesCounters"] = [
            {"counterSet": name, "counters": _raw_counters(counters, f"{at}: consumes[{name}]")}
            for name, counters in device.consumes.items()
        ]
    if device.taints:
        raw["taints"] = [_raw_taint(taint, at) for taint in device.taints]
    if device.shareable:
        raw["allowMultipleAllocations"] = True
    return raw


def raw_counter_set(counters: CounterSet) -> JsonObject:
    """Return a counter set in the form of the API; raises InvalidInventory."""
    at = f'counter set "{counters.name}"'
    return {"name": counters.name, "counters": _raw_counters(counters.counters, at)}


def _raw_counters(counters: CounterAmounts, at: str) -> JsonObject:
    if not isinstance(counters, Mapping):
        raise InvalidInventory(f"{at}: must be a dict of amounts, not {counters!r}")
    return {key: {"value": _amount(value, f"{at}[{key}]")} for key, value in counters.items()}


def _raw_taint(taint: Taint, at: str) -> JsonObject:
    if not isinstance(taint, Taint):
        raise InvalidInventory(f"{at}: taints: must be a list of Taint, not {taint!r}")
    raw = {"key": taint.key, "effect": taint.effect}
    return raw | {"value": taint.value} if taint.value else raw


def _raw_attribute(value: Any, at: str) -> JsonObject:
    if (kind := _kind(value)) is not None:
        return {kind: _plain(value)}
    items = list(value) if isinstance(value, Sequence) else []
    kinds = {_kind(item) for item in items}
    if len(kinds) != 1 or (kind := kinds.pop()) is None:
        raise InvalidInventory(
            f"{at}: must be a bool, an int, a str, a Version, or a list of one of them, "
            f"not {value!r}"
        )
    return {f"{kind}s": [_plain(item) for item in items]}


def _plain(value: Scalar) -> Scalar:
    """Return a value of the base type, not of a subclass such as Version, for encoding."""
    if isinstance(value, bool):
        return value
    return str.__str__(value) if isinstance(value, str) else int(value)


def _kind(value: Any) -> str | None:
    """Return the field of an attribute for a value; a bool is an int for Python."""
    kinds = ((Version, "version"), (str, "string"), (bool, "bool"), (int, "int"))
    return next((name for kind, name in kinds if isinstance(value, kind)), None)


def _raw_capacity(capacity: AmountText | Capacity, at: str) -> JsonObject:
    if not isinstance(capacity, Capacity):
        return {"value": _amount(capacity, at)}
    policy: JsonObject = {}
    if capacity.default is not None:
        policy["default"] = _amount(capacity.default, f"{at}.default")
    if capacity.values:
        policy["validValues"] = [_amount(value, f"{at}.values") for value in capacity.values]
    if limits := dict(_range(capacity, at)):
        policy["validRange"] = limits
    raw: JsonObject = {"value": _amount(capacity.value, f"{at}.value")}
    return raw | {"requestPolicy": policy} if policy else raw


def _range(capacity: Capacity, at: str) -> Iterator[tuple[str, str]]:
    limits = (
        ("min", "minimum", capacity.minimum),
        ("max", "maximum", capacity.maximum),
        ("step", "step", capacity.step),
    )
    for key, name, value in limits:
        if value is not None:
            yield key, _amount(value, f"{at}.{name}")


def _amount(value: Any, at: str) -> str:
    """Return the canonical text of an amount, which the API server stores."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidInventory(f'{at}: must be an amount, such as 4 or "80Gi", not {value!r}')
    try:
        return str(Quantity.parse(value))
    except BadRequest as error:
        raise InvalidInventory(f"{at}: {value!r}: {error}") from error
