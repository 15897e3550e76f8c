"""How large a device is, roughly: enough to bound the cost of a selector once for many devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from holdfast.cel.cost import VariableSizes
from holdfast.cel.extents import Extent, Made, either, several, text

_Values = Mapping[str, Mapping[str, Any]]
"""By domain and identifier."""


class DeviceSizes(NamedTuple):
    """Upper bounds, each a power of two: devices of one driver differ little."""

    domains: int
    names: int
    """In one domain."""
    characters: int
    """Of names and values."""
    items: int
    """Of values that are lists; 0 without any."""

    def scope(self) -> VariableSizes:
        """The variables of a selector, as large as they may be."""
        string = text(self.characters)
        value: Extent = string
        if self.items:
            value = either(string, several(self.items, string), lambda _: None)
        return {
            "device.driver": string,
            "device.attributes": self._table(self.domains, self._table(self.names, value)),
            "device.capacity": self._table(self.domains, self._table(self.names, string)),
        }

    def _table(self, length: int, entry: Extent) -> Made:
        whole = several(length, entry)
        return Made(whole.length, whole.weight, entry, text(self.characters), is_map=True)


NO_SIZES = DeviceSizes(0, 0, 0, 0)


def sizes_of(driver: str, attributes: _Values, capacity: _Values) -> DeviceSizes:
    """Measure a device."""
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
