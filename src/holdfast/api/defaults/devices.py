"""Defaults of claims, claim templates, slices and device taint rules."""

from __future__ import annotations

from holdfast.api.defaults.raw_fields import (
    Raw,
    entries,
    expect_amount,
    expect_map,
    if_present,
    map_at,
    set_defaults,
)


def default_claim(raw: Raw) -> None:
    """Default a resource claim."""
    _default_requests(map_at(raw, "spec"))
    if_present(raw, "status", _default_status)


def default_claim_template(raw: Raw) -> None:
    """Default a template of resource claims."""
    _default_requests(map_at(map_at(raw, "spec"), "spec"))


def default_slice(raw: Raw) -> None:
    """Write all quantities of a slice in canonical form."""
    spec = map_at(raw, "spec")
    if_present(spec, "pool", lambda pool: set_defaults(pool, generation=0))
    for device in entries(spec, "devices"):
        for capacity in _values(device, "capacity"):
            _default_amount(capacity)
            if_present(capacity, "requestPolicy", _default_policy)
        for consumption in entries(device, "consumesCounters"):
            _default_counters(consumption)
    for counter_set in entries(spec, "sharedCounters"):
        _default_counters(counter_set)


def stamp_taints(raw: Raw, now: str) -> None:
    """Set the time of taints that have none, given as RFC 3339."""
    spec = map_at(raw, "spec")
    for device in entries(spec, "devices"):
        for taint in entries(device, "taints"):
            set_defaults(taint, timeAdded=now)
    if_present(spec, "taint", lambda taint: set_defaults(taint, timeAdded=now))


def _default_requests(spec: Raw) -> None:
    for request in entries(map_at(spec, "devices"), "requests"):
        if_present(request, "exactly", _default_request)
        for alternative in entries(request, "firstAvailable"):
            _default_request(alternative)


def _default_request(request: Raw) -> None:
    set_defaults(request, allocationMode="ExactCount")
    if not request.get("count"):
        request.pop("count", None)
        if request["allocationMode"] == "ExactCount":
            request["count"] = 1
    _default_tolerations(request)
    if_present(request, "capacity", lambda capacity: _canonical_values(capacity, "requests"))


def _default_tolerations(where: Raw) -> None:
    for toleration in entries(where, "tolerations"):
        set_defaults(toleration, operator="Equal")


def _default_status(status: Raw) -> None:
    devices = expect_map((status.get("allocation") or {}).get("devices") or {}, "devices")
    for result in entries(devices, "results"):
        _default_tolerations(result)
        _canonical_values(result, "consumedCapacity")


def _default_policy(policy: Raw) -> None:
    _canonical(policy, "default")
    if options := policy.get("validValues"):
        policy["validValues"] = [expect_amount("0" if one is None else one) for one in options]
    if_present(policy, "validRange", lambda limits: _canonical(limits, "min", "max", "step"))


def _default_counters(where: Raw) -> None:
    for counter in _values(where, "counters"):
        _default_amount(counter)


def _default_amount(where: Raw) -> None:
    if where.get("value") is None:
        where["value"] = "0"
    _canonical(where, "value")


def _values(where: Raw, key: str) -> list[Raw]:
    """Return the maps in the map under a key; a null becomes an empty map."""
    table = expect_map(where.get(key) or {}, key)
    for name in [name for name, value in table.items() if value is None]:
        table[name] = {}
    return [expect_map(value, key) for value in table.values()]


def _canonical(where: Raw, *keys: str) -> None:
    for key in keys:
        if where.get(key) is not None:
            where[key] = expect_amount(where[key])


def _canonical_values(where: Raw, key: str) -> None:
    if amounts := where.get(key):
        where[key] = {
            name: expect_amount("0" if value is None else value)
            for name, value in expect_map(amounts, key).items()
        }
