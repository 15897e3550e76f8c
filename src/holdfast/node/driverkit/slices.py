"""Plan the ResourceSlices of a driver's pools: pure functions of inventory and stored slices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.api.decode import JsonObject
from holdfast.api.validation.resource_slice import check_slice
from holdfast.node.driverkit.inventory import (
    CounterSet,
    Device,
    InvalidInventory,
    Item,
    raw_counter_set,
    raw_device,
)

MOST_DEVICES, MOST_ADVANCED_DEVICES, MOST_COUNTER_SETS = 128, 64, 8
"""The most devices of a slice; the same if one has taints or counters; the most counter sets."""
_INDEX = re.compile(r"([0-9a-f]{5,})-")


@dataclass(frozen=True, slots=True)
class SliceOwner:
    """The driver and the node that slices belong to."""

    driver: str
    node: str
    node_uid: str

    def new_slice(self, index: int, spec: JsonObject) -> JsonObject:
        """Return a slice; names sort in the order of allocation."""
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {
                "generateName": f"{index:05x}-{self.driver}-{self.node}-",
                "ownerReferences": [
                    {
                        "apiVersion": "v1",
                        "kind": "Node",
                        "name": self.node,
                        "uid": self.node_uid,
                        "controller": True,
                    },
                ],
            },
            "spec": spec,
        }

    def spec(self, pool: str, generation: int, count: int, content: JsonObject) -> JsonObject:
        """Return the spec of a slice of a pool."""
        numbers = {"name": pool, "generation": generation, "resourceSliceCount": count}
        return {"driver": self.driver, "nodeName": self.node, "pool": numbers, **content}


@dataclass(slots=True)
class SlicePlan:
    """Writes that bring the slices of one pool to the wanted state, in this order."""

    delete: list[JsonObject] = field(default_factory=list)
    update: list[JsonObject] = field(default_factory=list)
    create: list[JsonObject] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.delete or self.update or self.create)


def contents_of(items: Sequence[Item]) -> list[JsonObject]:
    """Divide the items of a pool into slices; a pool without items has one empty slice."""
    sets = [raw_counter_set(item) for item in items if isinstance(item, CounterSet)]
    devices = [raw_device(item) for item in items if isinstance(item, Device)]
    advanced = any(d.get("taints") or d.get("consumesCounters") for d in devices)
    most = MOST_ADVANCED_DEVICES if advanced else MOST_DEVICES
    contents: list[JsonObject] = [
        {"sharedCounters": part} for part in _parts(sets, MOST_COUNTER_SETS)
    ]
    contents += ({"devices": part} for part in _parts(devices, most))
    return contents or [{}]


def check_pools(owner: SliceOwner, pools: Mapping[str, Sequence[JsonObject]]) -> None:
    """Raise InvalidInventory for what the API server or the scheduler would reject."""
    for pool, contents in pools.items():
        devices = [d for content in contents for d in content.get("devices", ())]
        sets = [s for content in contents for s in content.get("sharedCounters", ())]
        problems = [*_duplicates(devices, "device"), *_duplicates(sets, "counter set")]
        problems += _counter_problems(devices, sets)
        for content in contents:
            raw = {"metadata": {}, "spec": owner.spec(pool, 1, len(contents), content)}
            problems += (_named(str(cause), content) for cause in check_slice(raw, None))
        if problems:
            raise InvalidInventory(f"pool {pool}: {'; '.join(problems)}")


def plan_pool(
    owner: SliceOwner,
    pool: str,
    wanted: Sequence[JsonObject],
    stored: Sequence[JsonObject],
    accepted: Mapping[str, tuple[JsonObject, JsonObject]],
) -> SlicePlan:
    """Plan the writes for one pool.

    ``stored`` are its slices; ``accepted`` has, by slice name, the written content and the content
    that the server stored. Slices of old generations or other owners, and those whose index is not
    wanted, are deleted. The generation stays if at most one update is needed and no creation.
    """
    plan = SlicePlan()
    current: dict[int, JsonObject] = {}
    newest = max((_pool(raw).get("generation", 0) for raw in stored), default=0)
    for raw in sorted(stored, key=_name):
        index = _index(raw)
        usable = _pool(raw).get("generation", 0) == newest and _owned(raw, owner)
        if usable and 0 <= index < len(wanted) and index not in current:
            current[index] = raw
        else:
            plan.delete.append(raw)
    times = _taint_times(current.values())
    contents = [_with_times(content, times) for content in wanted]
    changed = [
        index
        for index, raw in current.items()
        if _pool(raw).get("resourceSliceCount") != len(wanted)
        or not _same(wanted[index], raw, accepted)
    ]
    missing = [index for index in range(len(wanted)) if index not in current]
    keep = not missing and len(changed) <= 1
    generation = newest if keep else newest + 1
    for index in sorted(changed if keep else current):
        spec = owner.spec(pool, generation, len(wanted), contents[index])
        plan.update.append({**current[index], "spec": spec})
    for index in missing:
        spec = owner.spec(pool, generation, len(wanted), contents[index])
        plan.create.append(owner.new_slice(index, spec))
    return plan


def content_of(raw: JsonObject) -> JsonObject:
    """Return the content of a slice, without the times of taints: the server sets them."""
    spec = raw["spec"]
    content = {key: spec[key] for key in ("devices", "sharedCounters") if spec.get(key)}
    return _with_times(content, None)


def dropped_fields(sent: Any, stored: Any, at: str = "") -> Iterator[str]:
    """Yield the paths of fields that the server did not store as sent.

    >>> list(dropped_fields({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}]}))
    ['a[0].c']
    """
    if isinstance(sent, dict) and isinstance(stored, dict):
        for key, value in sent.items():
            path = f"{at}.{key}" if at else key
            if key not in stored:
                yield path
            else:
                yield from dropped_fields(value, stored[key], path)
    elif isinstance(sent, list) and isinstance(stored, list) and len(sent) == len(stored):
        for i, (one, other) in enumerate(zip(sent, stored, strict=True)):
            yield from dropped_fields(one, other, f"{at}[{i}]")
    elif sent != stored:
        yield at


def _parts(items: list[JsonObject], most: int) -> Iterator[list[JsonObject]]:
    for start in range(0, len(items), most):
        yield items[start : start + most]


def _duplicates(items: Iterable[JsonObject], word: str) -> Iterator[str]:
    seen: set[str] = set()
    for item in items:
        if item["name"] in seen:
            yield f'two {word}s have the name "{item["name"]}"'
        seen.add(item["name"])


def _counter_problems(devices: Iterable[JsonObject], sets: Iterable[JsonObject]) -> Iterator[str]:
    known = {one["name"]: one["counters"] for one in sets}
    for device in devices:
        at = f'device "{device["name"]}": consumes'
        for used in device.get("consumesCounters", ()):
            name = used["counterSet"]
            if name not in known:
                yield f"{at}[{name}]: there is no such counter set in the pool"
                continue
            for counter in used["counters"]:
                if counter not in known[name]:
                    yield f"{at}[{name}][{counter}]: the counter set has no such counter"


def _named(message: str, content: JsonObject) -> str:
    """Replace the index of a device in a message by its name.

    >>> _named("spec.devices[0].name: Invalid value", {"devices": [{"name": "X"}]})
    'device "X": name: Invalid value'
    """
    match = re.match(r"spec\.devices\[(\d+)\]\.?", message)
    if match is None:
        return message
    name = content["devices"][int(match[1])]["name"]
    return f'device "{name}": {message[match.end() :]}'


def _name(raw: JsonObject) -> str:
    return str(raw["metadata"]["name"])


def _pool(raw: JsonObject) -> JsonObject:
    pool: JsonObject = raw["spec"].get("pool", {})
    return pool


def _index(raw: JsonObject) -> int:
    """Return the index in the name of a slice, or -1."""
    match = _INDEX.match(_name(raw))
    return -1 if match is None else int(match[1], 16)


def _owned(raw: JsonObject, owner: SliceOwner) -> bool:
    references = raw["metadata"].get("ownerReferences") or ()
    return any(reference.get("uid") == owner.node_uid for reference in references)


def _same(
    wanted: JsonObject, raw: JsonObject, accepted: Mapping[str, tuple[JsonObject, JsonObject]]
) -> bool:
    """Tell whether a slice has this content, or the server's version of it."""
    stored = content_of(raw)
    return wanted == stored or accepted.get(_name(raw)) == (wanted, stored)


def _taint_times(stored: Iterable[JsonObject]) -> dict[tuple[str, ...], str]:
    """Return when the stored taints were added, by device and taint."""
    return {
        _taint_key(device, taint): taint["timeAdded"]
        for raw in stored
        for device in raw["spec"].get("devices") or ()
        for taint in device.get("taints") or ()
        if taint.get("timeAdded")
    }


def _with_times(content: JsonObject, times: Mapping[tuple[str, ...], str] | None) -> JsonObject:
    """Copy a content with the known times of its taints; a taint without one gets a new one."""
    if not any("taints" in device for device in content.get("devices", ())):
        return content
    return {"devices": [_device_with_times(device, times or {}) for device in content["devices"]]}


def _device_with_times(device: JsonObject, times: Mapping[tuple[str, ...], str]) -> JsonObject:
    if "taints" not in device:
        return device
    taints = []
    for taint in device["taints"]:
        plain = {key: value for key, value in taint.items() if key != "timeAdded"}
        time = times.get(_taint_key(device, taint))
        taints.append({**plain, "timeAdded": time} if time else plain)
    return {**device, "taints": taints}


def _taint_key(device: JsonObject, taint: JsonObject) -> tuple[str, ...]:
    return device["name"], taint["key"], taint.get("value", ""), taint["effect"]
