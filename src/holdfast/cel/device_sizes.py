"""Rough sizes of devices, to bound the cost of a selector once for many devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from holdfast.cel.cost import VariableSizes
from holdfast.cel.ranges import DeclaredSize
from holdfast.cel.rewriting import DEVICE
from holdfast.cel.size_bounds import (
    ComputedBound,
    SizeBound,
    container_bound,
    text_bound,
    union_bound,
)

_Values = Mapping[str, Mapping[str, Any]]
"""By domain and identifier."""


class DeviceSizes(NamedTuple):
    """Upper bounds, rounded up to powers of two so that similar devices have equal sizes."""

    domains: int
    names: int
    """The most names in one domain."""
    characters: int
    """The length of the longest name or value."""
    items: int
    """The length of the longest list value; 0 if there is none."""

    def scope(self) -> VariableSizes:
        """Return size bounds of the variables of a selector."""
        string = text_bound(self.characters)
        value: SizeBound = string
        if self.items:
            value = union_bound(string, container_bound(self.items, string), lambda _: None)
        return {
            "device.driver": string,
            "device.attributes": self._table(self.domains, self._table(self.names, value)),
            "device.capacity": self._table(self.domains, self._table(self.names, string)),
        }

    def _table(self, length: int, entry: SizeBound) -> ComputedBound:
        whole = container_bound(length, entry)
        return ComputedBound(
            whole.length, whole.weight, entry, text_bound(self.characters), is_map=True
        )


def declared_sizes() -> Mapping[str, DeclaredSize]:
    """Return the sizes that devices may have, for upstream's estimate of a selector's cost."""
    attribute = DeclaredSize(64)  # characters; the most items of a list are fewer
    name = DeclaredSize(32)
    attributes = DeclaredSize(32, attribute, name, any_field=attribute)
    fields = {
        "driver": DeclaredSize(63),
        "attributes": DeclaredSize(32, attributes, DeclaredSize(63)),
        "capacity": DeclaredSize(32, DeclaredSize(32, DeclaredSize(), name), DeclaredSize(63)),
        "allowMultipleAllocations": DeclaredSize(1),
    }
    return {DEVICE: DeclaredSize(fields=fields)}


NO_SIZES = DeviceSizes(0, 0, 0, 0)


def sizes_of(driver: str, attributes: _Values, capacity: _Values) -> DeviceSizes:
    """Return the sizes of a device."""
    longest, names, items = len(driver), 0, 0
    for domains in (attributes, capacity):
        for domain, table in domains.items():
            values = table.values()
            lists = [value for value in values if type(value) is list]
            texts = [len(value) for value in values if type(value) in (str, bytes)]
            texts += [len(value) for one in lists for value in one if type(value) in (str, bytes)]
            longest = max(longest, len(domain), *map(len, table), *texts)
            names = max(names, len(table))
            items = max(items, *map(len, lists)) if lists else items
    domains_bound = _rounded(max(len(attributes), len(capacity)))
    return DeviceSizes(domains_bound, _rounded(names), _rounded(longest), _rounded(items))


def _rounded(size: int) -> int:
    return 1 << (size - 1).bit_length() if size else 0
