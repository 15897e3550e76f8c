"""A minimal API server in memory, for the ApiCalls that plugins yield.

Stored objects are added to a world at once, instead of through informers. It supports create, get,
merge patch (also of status) and delete, with resource versions, uid preconditions and finalizers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from msgspec.structs import replace

from holdfast.api.decode import JsonObject, convert_object, json_values
from holdfast.api.meta import Object
from holdfast.runtime.errors import AlreadyExists, Conflict, HoldfastError, NotFound
from holdfast.scheduling.framework.plugin import ApiCall, PreBindCalls, Reject
from holdfast.scheduling.framework.world import World
from holdfast.testing.builders import resource_of, typed


def _never(_: ApiCall) -> HoldfastError | None:
    return None


class MemoryApi:
    """Objects by path; ``fail`` returns the error to raise for a call, or None."""

    def __init__(
        self, world: World | None = None, fail: Callable[[ApiCall], HoldfastError | None] = _never
    ) -> None:
        self.world = world
        self.fail = fail
        self.objects: dict[str, JsonObject] = {}
        self.calls: list[ApiCall] = []
        self.unsent: list[ApiCall] = []
        """Calls that send nothing: sleeps, events and observed metrics."""
        self.now = 1_700_000_000.0
        """The time; a sleep advances it and then calls ``on_sleep``."""
        self.on_sleep: Callable[[], None] = lambda: None
        self._versions = count(100)
        self._made = count()

    def put(self, raw: JsonObject) -> Object:
        """Store an object as another client would."""
        meta = raw["metadata"]
        path = resource_of(raw).path(meta.get("namespace", ""), meta["name"])
        self.objects[path] = copy.deepcopy(raw)
        self.objects[path]["metadata"].setdefault("uid", typed(raw).uid)
        stored: Object = typed(self._stored(path))
        return stored

    def load(self, objects: Iterable[Object]) -> None:
        """Store objects that the world already has; later versions are higher than theirs."""
        self._versions = count(1_000_000)
        for obj in objects:
            raw: JsonObject = json_values(obj)
            self.objects[resource_of(raw).path(obj.namespace, obj.name)] = raw

    def of_kind(self, kind: str) -> list[JsonObject]:
        """Return all stored objects of a kind."""
        return [raw for raw in self.objects.values() if raw["kind"] == kind]

    def drive(self, steps: PreBindCalls) -> Reject | None:
        """Run a plugin's generator and return what it returns; its exceptions are raised."""
        try:
            call = next(steps)
            while True:
                try:
                    answer = self.carry_out(call)
                except HoldfastError as failure:
                    call = steps.throw(failure)
                else:
                    call = steps.send(answer)
        except StopIteration as end:
            result: Reject | None = end.value
            return result

    def carry_out(self, call: ApiCall) -> Any:
        """Execute one call and return the stored object, or the time after a sleep."""
        if call.verb in ("sleep", "event", "observe", "turn"):
            return self._not_sent(call)
        self.calls.append(call)
        failure = self.fail(call)
        if failure is not None:
            raise failure
        verbs = {
            "create": self._create, "get": self._get, "patch": self._patch, "delete": self._delete,
        }  # fmt: skip
        # A body may have typed values; what is stored is JSON.
        raw = verbs[call.verb](replace(call, body=json_values(call.body)))
        return None if call.returns is None else convert_object(copy.deepcopy(raw), call.returns)

    def _not_sent(self, call: ApiCall) -> Any:
        self.unsent.append(call)
        if call.verb == "sleep":
            self.now += call.body
            self.on_sleep()
        return self.now

    def _create(self, call: ApiCall) -> JsonObject:
        raw = copy.deepcopy(call.body)
        meta, number = raw["metadata"], next(self._made)
        meta["name"] = meta.get("name") or f"{meta['generateName']}{number}"
        meta["uid"] = f"made-{number}"
        path = f"{call.path}/{meta['name']}"
        if path in self.objects:
            raise AlreadyExists(f"{path} is there already")
        self.objects[path] = raw
        return self._stored(path)

    def _get(self, call: ApiCall) -> JsonObject:
        return self._found(call.path)

    def _patch(self, call: ApiCall) -> JsonObject:
        path = call.path.removesuffix("/status")
        raw = self._found(path)
        for field, guard in call.body.get("metadata", {}).items():
            if field in ("uid", "resourceVersion") and guard != raw["metadata"].get(field):
                raise Conflict(f"{path} is at another {field} than {guard}")
        of_status = path != call.path
        change = {k: v for k, v in call.body.items() if (k == "status") == of_status}
        self.objects[path] = merge(raw, change)
        return self._stored(path)

    def _delete(self, call: ApiCall) -> JsonObject:
        raw = self._found(call.path)
        if raw["metadata"].get("finalizers"):
            raw["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
            return self._stored(call.path)
        del self.objects[call.path]
        if self.world is not None:
            self.world.delete(typed(raw))
        return raw

    def _found(self, path: str) -> JsonObject:
        if path not in self.objects:
            raise NotFound(f"{path} not found")
        return self.objects[path]

    def _stored(self, path: str) -> JsonObject:
        raw = self.objects[path]
        raw["metadata"]["resourceVersion"] = str(next(self._versions))
        if self.world is not None:
            self.world.upsert(typed(raw))
        return raw


def merge(old: Any, patch: Any) -> Any:
    """Apply a JSON merge patch.

    >>> merge({"a": 1, "b": {"c": 2}}, {"a": None, "b": {"d": 3}})
    {'b': {'c': 2, 'd': 3}}
    """
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = copy.deepcopy(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged
