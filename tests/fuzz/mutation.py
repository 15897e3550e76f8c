"""Damage JSON values at random places."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from fuzz.odd_values import (
    COUNTS_OF_PODS,
    FINALIZERS,
    INT_OR_STRINGS,
    LABELLED,
    NAMES,
    NAMESPACES,
    NUMBERS,
    QUANTITIES,
    REPLICAS,
    SCHEDULING_KEYS,
    SCHEDULING_VALUES,
    TEXTS,
    TIMES,
)
from fuzz.values import Values

Place = tuple[Any, Any]
_LARGE = 10_000


def places(value: Any) -> list[Place]:
    """Return every (container, key) in a value, at any depth."""
    found: list[Place] = []
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        keys = holder if isinstance(holder, dict) else range(len(holder))
        for key in keys:
            found.append((holder, key))
            if isinstance(holder[key], dict | list):
                waiting.append(holder[key])
    return found


def mutate(values: Values, obj: dict[str, Any]) -> None:
    """Damage one place of an object, and sometimes its metadata."""
    if values.chance(0.2):
        values.pick(_METADATA_ATTACKS)(values, obj)
        return
    where = [p for p in places(obj) if p[1] not in ("apiVersion", "kind") or values.chance(0.05)]
    if not where:
        obj["unknown"] = 1
        return
    holder, key = values.pick(where)
    if key in COUNTS_OF_PODS:
        holder[key] = values.pick(REPLICAS)
        return
    with suppress(RecursionError):  # of a copy that is already nested deep
        values.pick(_DAMAGES)(values, holder, key)


def few_pods(value: Any) -> Any:
    """Replace large numbers of replicas by small ones: creating many pods takes too long."""
    for holder, key in places(value) if isinstance(value, dict | list) else ():
        one = holder[key]
        if key in COUNTS_OF_PODS and isinstance(one, int) and 10 < one < 2**31:
            holder[key] = 3
    return value


def _drop(_values: Values, holder: Any, key: Any) -> None:
    del holder[key]


def _null(_values: Values, holder: Any, key: Any) -> None:
    holder[key] = None


def _other_type(values: Values, holder: Any, key: Any) -> None:
    holder[key] = values.pick(({}, [], "a", 5, True, [{}], {"a": 1}, [None], [[]], 1.5, ""))


def _text(values: Values, holder: Any, key: Any) -> None:
    holder[key] = values.pick(TEXTS)


def _number(values: Values, holder: Any, key: Any) -> None:
    holder[key] = values.pick(NUMBERS)


def _like(values: Values, holder: Any, key: Any) -> None:
    """Replace a value by another of the same type."""
    old = holder[key]
    if isinstance(old, str):
        holder[key] = values.pick((*NAMES, *NAMESPACES))
    elif isinstance(old, bool):
        holder[key] = not old
    elif isinstance(old, int | float):
        holder[key] = values.pick((0, 1, -1, 7))
    elif isinstance(old, list):
        del old[values.rng.randrange(len(old) + 1) :]
    elif isinstance(old, dict) and old:
        del old[values.pick(list(old))]


def _special(values: Values, holder: Any, key: Any) -> None:
    holder[key] = values.pick(values.pick((QUANTITIES, TIMES, INT_OR_STRINGS)))


def _repeat(values: Values, holder: Any, key: Any) -> None:
    """Repeat the items of a list, a few times or many times."""
    if isinstance(holder[key], list) and holder[key]:
        most = _LARGE // (1 + len(places(holder[key])))
        times = min(values.pick((2, 2, 3, 300, 3_000)), most)
        holder[key] = [copy.deepcopy(one) for _ in range(times) for one in holder[key]]
    else:
        holder[key] = [holder[key]] * 2


def _nest(values: Values, holder: Any, key: Any) -> None:
    inner = holder[key]
    for _ in range(values.pick((1, 2, 20, 99, 190, 400))):
        inner = [inner] if values.chance(0.5) else {"a": inner}
    holder[key] = inner


def _unknown_field(values: Values, holder: Any, key: Any) -> None:
    target = holder[key] if isinstance(holder[key], dict) else holder
    if isinstance(target, dict):
        for number in range(values.pick((1, 1, 1, 2, 40))):
            target[f"{values.pick(TEXTS)}{number or ''}"] = values.pick((1, "a", None, {}, []))


def _swap(values: Values, holder: Any, key: Any) -> None:
    """Replace a value by that of another key."""
    if isinstance(holder, dict) and len(holder) > 1:
        holder[key] = copy.deepcopy(holder[values.pick(list(holder))])


_DAMAGES: tuple[Callable[[Values, Any, Any], None], ...] = (
    _drop, _drop, _null, _other_type, _other_type, _text, _text, _number, _like, _like, _like,
    _special, _special, _repeat, _nest, _unknown_field, _swap,
)  # fmt: skip


def annotate(values: Values, obj: dict[str, Any]) -> None:
    """Set an annotation or label that the scheduler reads to a valid or invalid value."""
    where = values.pick(("annotations", "labels"))
    holder = _metadata(obj)
    if not isinstance(holder.get(where), dict):
        holder[where] = {}
    key = values.pick(SCHEDULING_KEYS)
    holder[where][key] = values.pick(SCHEDULING_VALUES if where == "annotations" else LABELLED)


def _metadata(obj: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(obj.get("metadata"), dict):
        obj["metadata"] = {}
    meta: dict[str, Any] = obj["metadata"]
    return meta


def _owners(values: Values, obj: dict[str, Any]) -> None:
    """Set owner references: existing or missing objects, the object itself, or several."""
    meta = _metadata(obj)
    meta["ownerReferences"] = [
        {
            "apiVersion": values.pick(("v1", "apps/v1", "apps/v1", "nonsense", "a/b/c", "")),
            "kind": values.pick(("Pod", "ReplicaSet", "Deployment", "Node", "Nonsense", "")),
            "name": values.pick((meta.get("name"), *NAMES)),
            "uid": values.pick((meta.get("uid"), "", *values.uids)),
            "controller": values.pick((True, False, None)),
            "blockOwnerDeletion": values.pick((True, False, None)),
        }
        for _ in range(values.pick((1, 1, 2, 3)))
    ]


def _finalizers(values: Values, obj: dict[str, Any]) -> None:
    _metadata(obj)["finalizers"] = [values.pick(FINALIZERS) for _ in range(values.pick((1, 2)))]


def _set(field: str, *choices: Any) -> Callable[[Values, dict[str, Any]], None]:
    def attack(values: Values, obj: dict[str, Any]) -> None:
        _metadata(obj)[field] = values.fresh(choices)

    return attack


_MANAGED = {"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"}
_METADATA_ATTACKS: tuple[Callable[[Values, dict[str, Any]], None], ...] = (
    _owners, _owners, _finalizers, _finalizers,
    _set("deletionTimestamp", *TIMES),
    _set("deletionGracePeriodSeconds", *NUMBERS),
    _set("creationTimestamp", *TIMES),
    _set("generateName", "a-", "", "x" * 300, "A_", "a."),
    _set("resourceVersion", "1", "0", "nonsense", "9" * 400, 5, "-1"),
    _set("managedFields", [], [_MANAGED], [{}], "x", [_MANAGED | {"fieldsV1": {"f:a": 5}}] * 20),
    _set("name", *TEXTS, *NAMES),
    _set("namespace", *NAMESPACES, *TEXTS[:20]),
    _set("uid", "", "x", "u1", "u2", 5),
    _set("generation", *NUMBERS),
    _set("selfLink", *TEXTS),
    _set("labels", {"app": "web"}, {t: "a" for t in TEXTS[:12]}, {"app": 5}, {"a": "x" * 64}, [],
         {f"k{i}": "v" for i in range(500)}),
    _set("annotations", {"a": "x" * 300_000}, {"a": "b"}, 
         {f"k{i}": "v" for i in range(500)}, {"kubectl.kubernetes.io/last-applied": "{"},
         {"scheduling.koordinator.sh/reservation-allocated": "5"},
         {"scheduling.koordinator.sh/reservation-affinity": "{"}),
)  # fmt: skip
