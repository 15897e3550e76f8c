"""CustomResourceDefinitions with random schemas."""

from __future__ import annotations

from typing import Any

from fuzz.kinds import Kind
from fuzz.values import Values

Raw = dict[str, Any]
GROUP = "fuzz.example.com"
_PLURALS = ("things", "gadgets", "widgets")
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_FIELDS = ("a", "b", "spec", "status", "deletionTimestamp", "items", "name", "x-y", "kind", "$ref")
_PATTERNS = ("^[a-z]+$", "^(a+)+$", "\\d{3}", "(", "(?=a)", "[a-", "a{1,9999}", "\\p{L}", "^$")
_RULES = ("true", "has(self.a)", "self.a == 1", "self.size() > 1", "oldSelf == self", "self.", "1",
          "self.all(x, x > 1)", "'a'.matches('(')", "self.a.b.c")  # fmt: skip
_FORMATS = ("date-time", "int32", "byte", "nonsense", "ipv4", "duration", "uuid", "email", "uri")
_DEFAULTS = (1, "a", {}, [], None, {"a": 1}, True, {"b": None}, [1, "a"])


def definition(values: Values) -> Raw:
    """Return a CRD, mostly a valid one."""
    plural = values.pick(_PLURALS)
    versions = [
        _version(values, name, storage=position == 0)
        for position, name in enumerate(values.pick((("v1",), ("v1", "v2"), ("v1beta1", "v1"))))
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP, "scope": _scope(plural),
            "names": {"plural": plural, "kind": plural[:-1].title(), "singular": plural[:-1]},
            "versions": versions,
        },
    }  # fmt: skip


def _scope(plural: str) -> str:
    return "Namespaced" if plural == "things" else "Cluster"


def _version(values: Values, name: str, *, storage: bool) -> Raw:
    made: Raw = {"name": name, "served": True, "storage": storage}
    made["schema"] = {"openAPIV3Schema": _object(values, 0)}
    if values.chance(0.4):
        made["subresources"] = {"status": {}}
        if values.chance(0.5):
            made["subresources"]["scale"] = {
                "specReplicasPath": values.usual(
                    (".spec.replicas", ".spec.a", ".a", ".", "spec", ".spec[0]"), 2
                ),
                "statusReplicasPath": values.usual(
                    (".status.replicas", ".status.b", ".status", ".x.y"), 2
                ),
                "labelSelectorPath": values.usual((".status.selector", ".status.x", ""), 2),
            }
    if values.chance(0.5):
        made["additionalPrinterColumns"] = [
            {
                "name": values.pick(("A", "Age", "B")),
                "type": values.usual(
                    ("string", "integer", "date", "number", "boolean", "odd"), 5, 0.97
                ),
                "jsonPath": values.usual((".spec.a", ".a", ".metadata.creationTimestamp",
                                          ".spec.a[?(@.b=='c')]", ".a[*].b", ".spec['a']", ".a[",
                                          "a"), 5, 0.95),
            }
            for _ in range(values.pick((1, 2)))
        ]  # fmt: skip
    if values.chance(0.05):
        made["selectableFields"] = [{"jsonPath": values.usual((".a", ".spec.a", ".x[0]", ""), 2)}]
    return made


def _object(values: Values, depth: int) -> Raw:
    names = [values.usual(_FIELDS, 8, 0.97) for _ in range(values.pick((1, 2, 3)))]
    made: Raw = {"type": "object", "properties": {n: _schema(values, depth + 1) for n in names}}
    if values.chance(0.15):
        made["required"] = [values.usual(_FIELDS, 8, 0.97)]
    if values.chance(0.2):
        made["x-kubernetes-preserve-unknown-fields"] = True
    if values.chance(0.15):
        made["x-kubernetes-validations"] = [
            {"rule": values.usual(_RULES, 2), "message": values.pick(("no", "", "a\nb"))}
        ]
    return made


def _schema(values: Values, depth: int) -> Raw:
    made = _object(values, depth) if depth < 3 and values.chance(0.4) else _leaf(values, depth)
    if values.chance(0.03):
        made["default"] = values.fresh(_DEFAULTS)
    if values.chance(0.1):
        made["nullable"] = values.chance(0.5)
    if values.chance(0.03):
        made["enum"] = values.pick((["a", "b"], [1, 2], [{}], [], ["a", 1, None]))
    if values.chance(0.03):
        logic: tuple[Raw, ...] = (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"not": {"required": ["a"]}},
            {"anyOf": [{"minimum": 1}, {"maximum": 5}]}, {"oneOf": "x"}, {"allOf": [5]},
        )  # fmt: skip
        made |= values.pick(logic)
    return made


def _leaf(values: Values, depth: int) -> Raw:
    sort = values.rng.randrange(8)
    if sort == 0 and depth < 4:
        return {"type": "array", "items": _schema(values, depth + 1), "maxItems": 5}
    if sort == 1:
        items = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
        keys = values.usual((["a"], ["a"], ["b"], []), 2, 0.9)
        return {"type": "array", "items": items, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": keys}  # fmt: skip
    if sort == 2:
        return {"type": "object", "additionalProperties": {"type": "string"}}
    if sort == 3:
        return {"x-kubernetes-int-or-string": True}
    if sort == 4:
        return {"type": "integer", "minimum": values.usual((0, 1, -(2**63), 10**30, 0.5), 2, 0.9)}
    if sort == 5:
        return {"type": "string", "pattern": values.usual(_PATTERNS, 2, 0.9)}
    if sort == 6:
        return {"type": "string", "format": values.usual(_FORMATS, 3), "maxLength": 9}
    return {
        "type": values.usual(("string", "integer", "boolean", "number", "null", "odd"), 4, 0.97)
    }


def defined(obj: Any) -> list[tuple[Kind, Raw]]:
    """Return the kinds and schemas of an accepted CRD."""
    spec = obj["spec"]
    names = spec["names"]
    return [
        (
            Kind(spec["group"], version["name"], names["plural"], names["kind"],
                 spec["scope"] == "Namespaced", _VERBS,
                 tuple(version.get("subresources") or ()), custom=True),
            (version.get("schema") or {}).get("openAPIV3Schema") or {},
        )
        for version in spec["versions"]
        if version.get("served")
    ]  # fmt: skip
