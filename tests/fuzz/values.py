"""Generate values by a schema; most of them are valid."""

from __future__ import annotations

import copy
import random
from collections import deque
from typing import Any

from fuzz.kinds import Kind, Schemas, words_of
from fuzz.odd_values import (
    COUNTS_OF_PODS,
    DURATIONS,
    INT_OR_STRINGS,
    LABEL_KEYS,
    LABEL_VALUES,
    NAMES,
    NAMESPACES,
    NUMBERS,
    QUANTITIES,
    REPLICAS,
    RESOURCES,
    TEXTS,
    TIMES,
)

_AMOUNTS = ("requests", "limits", "capacity", "allocatable", "hard", "used", "overhead")
_BY_NAME: dict[str, tuple[Any, ...]] = {
    "namespace": NAMESPACES,
    "operator": ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "Foo"),
    "topologyKey": LABEL_KEYS,
    "key": LABEL_KEYS,
    "effect": ("NoSchedule", "NoExecute", "PreferNoSchedule", "Foo"),
    "ttl": DURATIONS,
    "replicas": REPLICAS,
    "minReplicas": REPLICAS,
    "maxReplicas": REPLICAS,
    "parallelism": REPLICAS,
    "completions": REPLICAS,
    "nodeName": ("n1", "n2", "", "none"),
    "expression": ("true", "device.driver == 'a'", "1 +", "self.all(x, x > 1)", "'a'.matches('(')"),
    "image": ("x", "registry.example.com/a:1", ""),
    "resourceVersion": ("0", "1", "x"),
    "uid": ("", "11111111-2222-3333-4444-555555555555"),
    "schedulerName": ("default-scheduler", "koord-scheduler", "other"),
    "phase": ("Pending", "Running", "Succeeded", "Failed", "Available", "Bound", "Foo"),
    "status": ("True", "False", "Unknown", "Foo"),
    "driver": ("gpu.example.com", "a", ""),
}


_IDENTITY = ("apiVersion", "kind", "metadata", "namespace", "resourceVersion", "name", "uid")
"""Fields that ``grow`` does not change, because most changes of them are rejected."""


class Values:
    """Generates values with a seeded random generator."""

    def __init__(self, rng: random.Random, schemas: Schemas) -> None:
        self.rng = rng
        self._schemas = schemas
        self.uids: deque[str] = deque(["x", "u1"], maxlen=40)
        """The names of objects that exist or existed."""

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def pick(self, choices: Any) -> Any:
        return choices[self.rng.randrange(len(choices))]

    def fresh(self, choices: Any) -> Any:
        """Return a copy of one of the choices, which may be damaged later."""
        return copy.deepcopy(self.pick(choices))

    def usual(self, choices: Any, good: int, share: float = 0.8) -> Any:
        """Return mostly one of the first ``good`` choices."""
        return choices[self.rng.randrange(good)] if self.chance(share) else self.pick(choices)

    def object(self, kind: Kind) -> dict[str, Any]:
        """Return an object of a kind with its required fields and some others."""
        made = self.value(self._schemas.of(kind), kind.plural, 0)
        made = made if isinstance(made, dict) else {}
        return made | {"apiVersion": kind.api_version, "kind": kind.kind}

    def field(self, kind: Kind, name: str) -> Any:
        """Return a value of a field of a kind."""
        fields = self._schemas.of(kind).get("properties")
        return self.value(fields.get(name) if isinstance(fields, dict) else None, name, 1)

    def grow(self, kind: Kind, obj: dict[str, Any]) -> None:
        """Add a known field at a random place in an object."""
        schema: Any = self._schemas.of(kind)
        where: Any = obj
        name = kind.plural
        for _ in range(8):
            schema = self._schemas.resolve(schema)
            if isinstance(where, list) and where:
                schema, where = schema.get("items"), self.pick(where)
                continue
            fields = schema.get("properties") if isinstance(where, dict) else None
            if not isinstance(fields, dict) or not fields:
                break
            inner = [key for key in fields if isinstance(where.get(key), dict | list)]
            if inner and self.chance(0.7):
                name = self.pick(inner)
                schema, where = fields[name], where[name]
                continue
            name = self.pick([key for key in fields if key not in _IDENTITY] or list(fields))
            where[name] = self.value(fields[name], name, 1)
            return

    def value(self, schema: Any, name: str, depth: int) -> Any:
        """Return a value for a schema; ``name`` is the name of the field."""
        schema = self._schemas.resolve(schema)
        if isinstance(enum := schema.get("enum"), list) and enum and self.chance(0.9):
            return self.pick(enum)
        if "oneOf" in schema or schema.get("x-kubernetes-int-or-string"):
            is_amount = schema.get("format") != "int-or-string"
            return self.usual(QUANTITIES, 4) if is_amount else self.usual(INT_OR_STRINGS, 6)
        of_type = schema.get("type")
        if of_type == "object" or "properties" in schema:
            return self._mapping(schema, name, depth)
        if of_type == "array":
            size = self.pick((0, 1, 1, 1, 2, 2, 3)) if depth < 8 else 0
            return [self.value(schema.get("items"), name, depth + 1) for _ in range(size)]
        return self._scalar(schema, of_type, name)

    def _mapping(self, schema: dict[str, Any], name: str, depth: int) -> dict[str, Any]:
        fields = schema.get("properties")
        if not isinstance(fields, dict) or not fields:
            return self._free_mapping(schema, name, depth)
        required = schema.get("required") or ()
        share = 0.25 if depth < 3 else 0.1 if depth < 7 else 0.0
        return {
            key: self.value(inner, key, depth + 1)
            for key, inner in fields.items()
            if (key in required and self.chance(0.97)) or self.chance(share)
        }

    def _free_mapping(self, schema: dict[str, Any], name: str, depth: int) -> dict[str, Any]:
        keys: tuple[str, ...] = LABEL_KEYS
        if name in _AMOUNTS:
            keys = RESOURCES
        elif name in ("data", "binaryData", "stringData", "parameters"):
            keys = NAMES
        inner = schema.get("additionalProperties")
        if not isinstance(inner, dict):
            inner = {"type": "string"}
        size = self.pick((0, 1, 1, 2, 3))
        return {self.pick(keys): self.value(inner, name, depth + 1) for _ in range(size)}

    def _scalar(self, schema: dict[str, Any], of_type: Any, name: str) -> Any:
        if name in _BY_NAME and (name in COUNTS_OF_PODS or self.chance(0.9)):
            return self.usual(_BY_NAME[name], 2)
        if of_type in ("integer", "number"):
            return self.pick((0, 1, 1, 2, 3, 5, 10, 80)) if self.chance(0.9) else self.number()
        if of_type == "boolean":
            return self.chance(0.5)
        if of_type == "string":
            return self._text(schema, name)
        return self.pick(({}, [], "a", 1, True, {"a": {"b": 1}}))

    def number(self) -> Any:
        return self.pick(NUMBERS)

    def _text(self, schema: dict[str, Any], name: str) -> Any:
        shape = schema.get("format")
        if shape == "date-time":
            return self.usual(TIMES, 4)
        if shape == "byte":
            return self.usual(("", "YQ==", "no base64", "YQ", "////"), 2)
        if self.chance(0.05):
            return self.pick(TEXTS)
        words = words_of(str(schema.get("description", "")))
        if words and self.chance(0.6):
            return self.pick(words)
        if name.lower().endswith("labels") or name in ("matchLabels", "values", "value"):
            return self.pick(LABEL_VALUES)
        return self.pick(NAMES)
