"""Consumable capacity: how much of a shared device's capacity one request consumes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.api.devices import DeviceCapacity
from holdfast.api.quantity import BINARY_SI, Quantity

RequestPolicy = Mapping[str, Any]
ConsumedCapacity = dict[str, Quantity]
"""Consumed amounts by capacity name."""


def consumed_amount(requested: Quantity | None, capacity: DeviceCapacity) -> Quantity:
    """Return what a request consumes: its amount rounded up by the policy, the default, or all."""
    policy = capacity.request_policy or {}
    if requested is None:
        default = policy.get("default")
        return Quantity.parse(capacity.value if default is None else default)
    valid_range = policy.get("validRange") or {}
    if valid_range.get("min") is not None:
        return _within_range(requested, valid_range)
    for value in policy.get("validValues") or ():
        if requested <= (valid := Quantity.parse(value)):
            return valid
    return requested


def _within_range(requested: Quantity, valid: RequestPolicy) -> Quantity:
    least = Quantity.parse(valid["min"])
    if requested < least:
        return least
    if valid.get("step") is None:
        return requested
    step = Quantity.parse(valid["step"]).value()
    steps = -(-(requested.value() - least.value()) // step)
    return Quantity(least.value() + step * steps, 0, BINARY_SI)


def violates_policy(amount: Quantity, policy: RequestPolicy | None) -> bool:
    """Return whether the request policy forbids this amount."""
    if not policy:
        return False
    default = policy.get("default")
    if default is not None and amount == Quantity.parse(default):
        return False
    if valid_range := policy.get("validRange"):
        return _outside(amount, valid_range)
    valid_values = policy.get("validValues") or ()
    return bool(valid_values) and all(amount != Quantity.parse(v) for v in valid_values)


def _outside(amount: Quantity, valid: RequestPolicy) -> bool:
    if valid.get("max") is not None and amount > Quantity.parse(valid["max"]):
        return True
    if valid.get("step") is None:
        return False
    least, step = Quantity.parse(valid["min"]).value(), Quantity.parse(valid["step"]).value()
    return (amount.value() - least) % step != 0


def forbidden_request(capacities: Mapping[str, DeviceCapacity], requests: Mapping[str, Any]) -> str:
    """Describe why ``consumed_capacity`` returns None; "" if it does not."""
    for name in requests:
        if name not in capacities:
            return f"it has no capacity {name}"
    for name, capacity in capacities.items():
        text = requests.get(name)
        amount = consumed_amount(None if text is None else Quantity.parse(text), capacity)
        if violates_policy(amount, capacity.request_policy):
            return f"its request policy for {name} does not allow {amount}"
    return ""


def consumed_capacity(
    capacities: Mapping[str, DeviceCapacity], requests: Mapping[str, Any]
) -> ConsumedCapacity | None:
    """Return what a request consumes of each capacity of a device; None if it can never fit."""
    if any(name not in capacities for name in requests):
        return None
    amounts: ConsumedCapacity = {}
    for name, capacity in capacities.items():
        text = requests.get(name)
        amount = consumed_amount(None if text is None else Quantity.parse(text), capacity)
        if violates_policy(amount, capacity.request_policy):
            return None
        amounts[name] = amount
    return amounts
