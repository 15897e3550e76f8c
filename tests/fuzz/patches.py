"""Patches of every type: valid ones from one object to another, and invalid ones."""

from __future__ import annotations

from typing import Any

from fuzz.bodies import as_json, damage
from fuzz.mutation import few_pods, mutate
from fuzz.odd_values import PATCHES, RAW_BODIES, REPLICAS, TEXTS
from fuzz.values import Values

_DIRECTIVES = (
    {"$patch": "replace"}, {"$patch": "delete"}, {"$patch": "nonsense"}, {"$retainKeys": ["a"]},
    {"$setElementOrder/containers": [{"name": "c"}]}, {"$deleteFromPrimitiveList/a": [1]},
    {"$retainKeys": 5}, {"$setElementOrder/containers": 5}, {"$deleteFromPrimitiveList/x": "a"},
    {"$patch": 5}, {"$setElementOrder/x": [{}]}, {"$deleteFromPrimitiveList/finalizers": ["a", {}]},
)  # fmt: skip


def write_patch(values: Values, old: Any, new: Any, *, custom: bool) -> tuple[str, bytes]:
    """Return (content type, body) of a patch from ``old`` to ``new``, or a similar one."""
    roll = values.rng.random()
    if roll < 0.03:
        return values.pick(PATCHES), values.pick(RAW_BODIES)
    if roll < 0.35:
        media, change = PATCHES[0], _json_patch(values, old, new)
    elif roll < 0.65 or custom:
        media, change = PATCHES[1], difference(old, new)
    elif roll < 0.95:
        media, change = PATCHES[2], difference(old, new)
        for _ in range(values.pick((0, 0, 1, 2))):
            _direct(values, change)
    else:
        media, change = values.pick(PATCHES), difference(old, new)
    if values.chance(0.1) and isinstance(change, dict):
        mutate(values, change)
    body = as_json(few_pods(change))
    return media, damage(values, body) if values.chance(0.02) else body


def difference(old: Any, new: Any) -> Any:
    """Return the merge patch from one value to another."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    change = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old or old[key] != value:
            change[key] = difference(old.get(key), value)
    return change


def _direct(values: Values, change: Any) -> None:
    """Add a directive of strategic merge patches at a random place."""
    target = change
    while isinstance(target, dict):
        inner = [v for v in target.values() if isinstance(v, dict | list) and v]
        if not inner or values.chance(0.3):
            target.update(values.fresh(_DIRECTIVES))
            return
        target = values.pick(inner)
        if isinstance(target, list):
            target = values.pick(target)


def _json_patch(values: Values, old: Any, new: Any) -> Any:
    change = difference(old, new)
    if not isinstance(change, dict):
        return change
    operations: list[Any] = [
        {"op": "remove", "path": f"/{key}"}
        if value is None
        else {"op": "add", "path": f"/{_escaped(key)}", "value": new.get(key)}
        for key, value in change.items()
    ]
    if values.chance(0.4) or not operations:
        operations += [_operation(values, old) for _ in range(values.pick((1, 1, 2, 5)))]
    return operations


def _operation(values: Values, old: Any) -> Any:
    """Return an operation on an existing or similar path."""
    made: dict[str, Any] = {
        "op": values.usual(
            ("add", "remove", "replace", "move", "copy", "test", "nonsense", 5), 6, 0.95
        ),
        "path": _pointer(values, old),
    }
    if values.chance(0.8):
        choices = ("a", 1, {}, [], None, *REPLICAS, *TEXTS[:20])
        made["value"] = values.pick(choices)
    if made["op"] in ("move", "copy"):
        made["from"] = _pointer(values, old)
    if values.chance(0.1):
        mutate(values, made)
    return made


def _pointer(values: Values, old: Any) -> Any:
    steps = []
    while isinstance(old, dict | list) and old and values.chance(0.8):
        if isinstance(old, dict):
            step = values.pick(list(old))
            old = old[step]
        else:
            step = values.rng.randrange(len(old))
            old = old[step]
        steps.append(_escaped(str(step)))
    if values.chance(0.15):
        steps.append(values.pick(("-", "99", "-1", "~", "~2", "", "a", "00", "1e1", "٣")))
    return "".join(f"/{step}" for step in steps) if values.chance(0.97) else values.pick(TEXTS)


def _escaped(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")
