"""Defaults of claims, claim templates, slices and device taint rules.

Types are checked earlier. In a stored object, a value of a wrong type and an amount that cannot be
read stay unchanged, so that the object can still be edited.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from holdfast.api.decode import JsonObject
from holdfast.api.defaults.raw_fields import (
    ensure_map,
    entries,
    expect_amount,
    if_present,
    set_defaults,
)
from holdfast.api.devices import EXACT_COUNT
from holdfast.api.json_fields import map_at, maps_at
from holdfast.runtime.errors import BadRequest

Amount = tuple[Any, Any]
"""A map or list, and the key or index of a quantity in it."""


def default_claim(raw: JsonObject) -> None:
    """Default a resource claim."""
    _default_requests(ensure_map(raw, "spec"))
    for result in _results(raw):
        _default_tolerations(result)
    _make_canonical(claim_amounts(raw))


def default_claim_template(raw: JsonObject) -> None:
    """Default a template of resource claims."""
    _default_requests(ensure_map(ensure_map(raw, "spec"), "spec"))
    _make_canonical(claim_amounts(raw["spec"]))


def default_slice(raw: JsonObject) -> None:
    """Default a slice."""
    spec = ensure_map(raw, "spec")
    if isinstance(pool := spec.get("pool"), dict):
        set_defaults(pool, generation=0)
    for one in (*maps_at(spec, "sharedCounters"), *_devices(spec, "consumesCounters")):
        _default_values(one, "counters")
    for device in maps_at(spec, "devices"):
        _default_values(device, "capacity")
    _make_canonical(slice_amounts(raw))


def stamp_taints(raw: JsonObject, now: str) -> None:
    """Set the time, in RFC 3339, of taints that have none."""
    spec = ensure_map(raw, "spec")
    for device in entries(spec, "devices"):
        for taint in entries(device, "taints"):
            set_defaults(taint, timeAdded=now)
    if_present(spec, "taint", lambda taint: set_defaults(taint, timeAdded=now))


def claim_amounts(raw: JsonObject) -> Iterator[Amount]:
    """Yield the quantities of a claim: requested and consumed capacity."""
    for wanted in _wanted(map_at(raw, "spec")):
        yield from _in_map(map_at(map_at(wanted, "capacity"), "requests"))
    for result in _results(raw):
        yield from _in_map(map_at(result, "consumedCapacity"))


def slice_amounts(raw: JsonObject) -> Iterator[Amount]:
    """Yield the quantities of a slice: capacities, the policies of requests, counters."""
    spec = map_at(raw, "spec")
    for one in (*maps_at(spec, "sharedCounters"), *_devices(spec, "consumesCounters")):
        for counter in _values(one, "counters"):
            yield from _in_map(counter, "value")
    for device in maps_at(spec, "devices"):
        for capacity in _values(device, "capacity"):
            yield from _in_map(capacity, "value")
            policy = map_at(capacity, "requestPolicy")
            yield from _in_map(policy, "default")
            yield from _in_map(map_at(policy, "validRange"), "min", "max", "step")
            if isinstance(options := policy.get("validValues"), list):
                yield from ((options, i) for i in range(len(options)))


def _make_canonical(amounts: Iterable[Amount]) -> None:
    for holder, key in amounts:
        with suppress(BadRequest):
            holder[key] = expect_amount(holder[key])


def _default_requests(spec: JsonObject) -> None:
    for request in entries(ensure_map(spec, "devices"), "requests"):
        if_present(request, "exactly", _default_request)
        for alternative in entries(request, "firstAvailable"):
            _default_request(alternative)


def _default_request(request: JsonObject) -> None:
    set_defaults(request, allocationMode=EXACT_COUNT)
    if not request.get("count"):
        request.pop("count", None)
        if request["allocationMode"] == EXACT_COUNT:
            request["count"] = 1
    _default_tolerations(request)


def _default_tolerations(where: JsonObject) -> None:
    for toleration in maps_at(where, "tolerations"):
        set_defaults(toleration, operator="Equal")


def _default_values(where: JsonObject, key: str) -> None:
    """Set the amounts that are absent in the map of maps under a key."""
    table = map_at(where, key)
    for name in [name for name, value in table.items() if value is None]:
        table[name] = {}
    for value in _values(where, key):
        if value.get("value") is None:
            value["value"] = "0"


def _wanted(spec: JsonObject) -> Iterator[JsonObject]:
    for request in maps_at(map_at(spec, "devices"), "requests"):
        yield from (map_at(request, "exactly"), *maps_at(request, "firstAvailable"))


def _results(raw: JsonObject) -> list[JsonObject]:
    allocation = map_at(map_at(raw, "status"), "allocation")
    return maps_at(map_at(allocation, "devices"), "results")


def _devices(spec: JsonObject, key: str) -> Iterator[JsonObject]:
    for device in maps_at(spec, "devices"):
        yield from maps_at(device, key)


def _in_map(table: JsonObject, *keys: str) -> Iterator[Amount]:
    """Yield the amounts in a map, or those under some of its keys."""
    for key in keys or list(table):
        if table.get(key) is not None:
            yield table, key


def _values(where: JsonObject, key: str) -> list[JsonObject]:
    return [one for one in map_at(where, key).values() if isinstance(one, dict)]
