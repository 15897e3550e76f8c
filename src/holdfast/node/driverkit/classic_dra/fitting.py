"""Compute the free devices of a node, and whether claims fit: pure functions around ``fits``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from holdfast.api.quantity import AmountText, Quantity
from holdfast.runtime.errors import BadRequest, HoldfastError, Retryable

Attribute = bool | int | str | tuple[bool | int | str, ...]
_ZERO = Quantity(0)
MAX_NAMES = 5
"""The number of nodes that are listed for one reason."""
NO_FREE_DEVICE = "no free device fits"
"""Why a claim does not fit if ``fits`` gives no reason."""


class Unsuitable(HoldfastError):
    """A claim cannot be allocated on a node; the message is shown in an event."""


class Retry(Retryable):
    """A function cannot do its work now; the kit calls it again after some seconds."""

    def __init__(self, after: float, message: str = "not now") -> None:
        super().__init__(f"{message}; trying again in {after:g} s", after=after)


class WrongChoice(HoldfastError):
    """The function ``fits`` chose a device that is not free: a defect of the driver."""


@dataclass(frozen=True, slots=True)
class FreeDevice:
    """A device of a node, or the rest of one that claims share."""

    name: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    capacity: Mapping[str, Quantity] = field(default_factory=dict)
    """The capacity that is left."""
    in_use: bool = False
    """Whether claims have shares of it: it cannot be taken whole."""

    def has(self, amounts: Mapping[str, AmountText] | None = None, /, **more: AmountText) -> bool:
        """Return whether at least these amounts are left.

        >>> FreeDevice("gpu-0", capacity={"memory": quantity("4Gi")}).has(memory="2Gi")
        True
        """
        wanted = {**(amounts or {}), **more}
        return all(quantity(value) <= self.capacity.get(k, _ZERO) for k, value in wanted.items())


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a device: amounts of its capacity."""

    device: str
    capacity: Mapping[str, AmountText]


Chosen = str | FreeDevice | Share


@dataclass(frozen=True, slots=True)
class Choice:
    """Devices for a claim: a name or a ``FreeDevice`` is taken whole, a ``Share`` in part."""

    devices: Sequence[Chosen] = ()
    data: Any = None
    """For the handle, if the driver has no ``allocate``: a dataclass or a JSON value."""
    shared: bool = False
    """Whether several pods may use the claim at a time."""
    granted: int | None = None
    """The amount that an optional claim got; by default the number of devices and shares."""

    @property
    def whole(self) -> tuple[str, ...]:
        """Names of the devices that are taken whole."""
        return tuple(_name(one) for one in self.devices if not isinstance(one, Share))

    @property
    def shares(self) -> tuple[Share, ...]:
        """The parts of devices."""
        return tuple(one for one in self.devices if isinstance(one, Share))

    @property
    def amount(self) -> int:
        """The amount that the claim got, in the driver's unit."""
        return len(self.devices) if self.granted is None else self.granted


@dataclass(frozen=True, slots=True)
class ClaimParameters:
    """The parameters of a claim and of its class."""

    parameters: Any = None
    class_parameters: Any = None


Fits = Callable[[Sequence[FreeDevice], Any, Any], Choice | None]
"""The author's function: free devices, parameters of the claim, parameters of the class."""


@lru_cache(maxsize=65536)
def quantity(value: AmountText) -> Quantity:
    """Parse an amount; raises WrongChoice. A negative one would add to what is free."""
    try:
        amount = Quantity.parse(value)
    except BadRequest as error:
        raise WrongChoice(f"{value!r} is not an amount: {error}") from error
    if amount < _ZERO:
        raise WrongChoice(f"{value!r} is not an amount: it is negative")
    return amount


def without(free: Sequence[FreeDevice], choice: Choice) -> list[FreeDevice]:
    """Return the devices that are left after a choice; raises WrongChoice if it is not free."""
    left = {device.name: device for device in free}
    for name in choice.whole:
        device = left.pop(name, None)
        if device is None or device.in_use:
            raise WrongChoice(f"fits chose device {name}, which is not free")
    for share in choice.shares:
        device = left.get(share.device)
        if device is None or not device.has(share.capacity):
            raise WrongChoice(f"fits chose a share of device {share.device} that is not free")
        left[share.device] = _reduced(device, share)
    return list(left.values())


def remaining(devices: Iterable[FreeDevice], bookings: Iterable[Choice]) -> list[FreeDevice]:
    """Return the devices that bookings leave free; bookings of missing devices are ignored."""
    left = {device.name: device for device in devices}
    for booking in bookings:
        for name in booking.whole:
            left.pop(name, None)
        for share in booking.shares:
            if share.device in left:
                left[share.device] = _reduced(left[share.device], share)
    return list(left.values())


def choose(
    fits: Fits, free: Sequence[FreeDevice], requests: Sequence[ClaimParameters]
) -> tuple[Choice, ...] | str:
    """Return a choice for each request such that all fit together, or why one does not fit.

    An optional request that does not fit gets an empty choice.
    """
    choices = []
    for request in requests:
        try:
            choice = fits(free, request.parameters, request.class_parameters)
            reason = NO_FREE_DEVICE
        except Unsuitable as unsuitable:
            choice, reason = None, str(unsuitable)
        if choice is None:
            if not is_optional(request.parameters):
                return reason
            choice = Choice(granted=0)
        if not isinstance(choice, Choice):
            raise WrongChoice(f"fits must return a Choice or None, not {choice!r}")
        free = without(free, choice)
        granted = choice.amount if is_optional(request.parameters) else choice.granted
        choices.append(replace(choice, devices=tuple(choice.devices), granted=granted))
    return tuple(choices)


def reasons_text(reasons: Mapping[str, str]) -> str:
    """Write why nodes are refused; nodes with the same reason are grouped.

    >>> reasons_text({"n2": "too old", "n1": "too old", "n3": "too hot"})
    'n1, n2: too old; n3: too hot'
    """
    nodes: dict[str, list[str]] = {}
    for node in sorted(reasons):
        nodes.setdefault(reasons[node], []).append(node)
    return "; ".join(f"{_names(names)}: {why}" for why, names in nodes.items())


def _names(nodes: Sequence[str]) -> str:
    more = len(nodes) - MAX_NAMES
    return ", ".join(nodes[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True)
class Count:
    """The number that a claim requests; with ``min`` 0 it is allocated even if nothing is free."""

    min: int = 1
    max: int = 1


def is_optional(request: Any) -> bool:
    """Return whether a claim is allocated even if nothing is free.

    >>> is_optional({"count": {"min": 0, "max": 2}}), is_optional({"optional": False})
    (True, False)
    """
    count = _field(request, "count")
    return _field(request, "optional") is True or _field(count, "min") == 0


def less_preferred(granted: Mapping[str, int], potential: Iterable[str]) -> set[str]:
    """Return the nodes that give nothing to an optional claim, if a potential node gives some."""
    if any(granted.get(node, 0) > 0 for node in potential):
        return {node for node, amount in granted.items() if amount == 0}
    return set()


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _name(chosen: Chosen) -> str:
    if isinstance(chosen, Share):
        return chosen.device
    return chosen if isinstance(chosen, str) else chosen.name


def _reduced(device: FreeDevice, share: Share) -> FreeDevice:
    left = dict(device.capacity)
    for key, amount in share.capacity.items():
        left[key] = left.get(key, _ZERO) - quantity(amount)
    return replace(device, capacity=left, in_use=True)
