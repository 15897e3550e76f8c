"""Resource slices with the taints that DeviceTaintRules add to their devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from holdfast.api.devices import Device, DeviceTaintRule, DeviceTaintSelector, ResourceSlice
from holdfast.api.node import Taint
from holdfast.state.devices.slices import DeviceId

_replace = msgspec.structs.replace
_EVERYTHING = DeviceTaintSelector()
"""As in upstream's tracker, a rule without a selector applies to all devices."""


class SliceTracker:
    """Slices as published, and the rules; taints of several rules are in the order of their names.

    A slice that no rule concerns is returned as it is.
    """

    def __init__(self) -> None:
        self._slices: dict[str, ResourceSlice] = {}
        self._rules: dict[str, DeviceTaintRule] = {}

    def upsert_slice(self, slice_: ResourceSlice) -> ResourceSlice:
        """Store a slice and return it with the taints of the rules."""
        self._slices[slice_.name] = slice_
        return self._tainted(slice_)

    def delete_slice(self, name: str) -> None:
        """Remove a slice; an unknown one is ignored."""
        self._slices.pop(name, None)

    def upsert_rule(self, rule: DeviceTaintRule) -> list[ResourceSlice]:
        """Store a rule and return the slices that it changes, or that its old version changed."""
        old = self._rules.get(rule.name)
        self._rules[rule.name] = rule
        if old is not None and old.spec == rule.spec:
            return []
        return self._tainted_by((rule,) if old is None else (old, rule))

    def delete_rule(self, name: str) -> list[ResourceSlice]:
        """Remove a rule and return the slices that lose its taint."""
        old = self._rules.pop(name, None)
        return [] if old is None else self._tainted_by((old,))

    def fork(self) -> SliceTracker:
        """Return an independent copy."""
        copy = SliceTracker()
        copy._slices, copy._rules = dict(self._slices), dict(self._rules)
        return copy

    def _tainted_by(self, rules: Iterable[DeviceTaintRule]) -> list[ResourceSlice]:
        selectors = [rule.spec.device_selector or _EVERYTHING for rule in rules]
        return [
            self._tainted(slice_)
            for slice_ in self._slices.values()
            if any(_selects_any(selector, slice_) for selector in selectors)
        ]

    def _tainted(self, slice_: ResourceSlice) -> ResourceSlice:
        rules = [rule for _, rule in sorted(self._rules.items()) if _concerns(rule, slice_)]
        if not rules:
            return slice_
        devices = tuple(_with_taints(device, rules) for device in slice_.spec.devices)
        return _replace(slice_, spec=_replace(slice_.spec, devices=devices))


def taints_with_rules(
    device: DeviceId, taints: Sequence[Taint], rules: Iterable[DeviceTaintRule]
) -> list[tuple[Taint, str]]:
    """Return the taints of a device with the names of the rules that add them.

    "" for a taint of its slice, even if it is equal to that of a rule.
    """
    adding = [
        rule.name
        for rule in sorted(rules, key=lambda rule: rule.name)
        if _selects(rule.spec.device_selector or _EVERYTHING, device)
    ]
    names = [""] * (len(taints) - len(adding)) + adding
    return [*zip(taints, names, strict=True)]


def _selects(selector: DeviceTaintSelector, device: DeviceId) -> bool:
    wanted = (selector.driver, selector.pool, selector.device)
    return all(want in (None, has) for want, has in zip(wanted, device, strict=True))


def _concerns(rule: DeviceTaintRule, slice_: ResourceSlice) -> bool:
    return _selects_any(rule.spec.device_selector or _EVERYTHING, slice_)


def _selects_any(selector: DeviceTaintSelector, slice_: ResourceSlice) -> bool:
    """Return whether a selector selects a device of a slice."""
    spec = slice_.spec
    if selector.driver is not None and selector.driver != spec.driver:
        return False
    if selector.pool is not None and selector.pool != spec.pool.name:
        return False
    if selector.device is None:
        return bool(spec.devices)
    return any(device.name == selector.device for device in spec.devices)


def _with_taints(device: Device, rules: Iterable[DeviceTaintRule]) -> Device:
    """Return a device with the taints of rules that concern its slice."""
    added = tuple(_taints_of(device, rules))
    return _replace(device, taints=(*device.taints, *added)) if added else device


def _taints_of(device: Device, rules: Iterable[DeviceTaintRule]) -> Iterator[Taint]:
    for rule in rules:
        name = (rule.spec.device_selector or _EVERYTHING).device
        if name is None or name == device.name:
            yield rule.spec.taint
