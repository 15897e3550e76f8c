"""The CEL rules of a schema (``x-kubernetes-validations``): which of them a value breaks.

A rule the engine cannot evaluate as Kubernetes would is left alone, and whoever writes the CRD is
told so: other people's CRDs stay usable. What is no CEL at all is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.api import causes
from holdfast.cel.failures import CompileError, EvaluationError
from holdfast.cel.rules import compile_expression, escaped
from holdfast.errors import Cause

if TYPE_CHECKING:
    from holdfast.apiserver.structural.node import Node

ABSENT: Any = type("Absent", (), {"__repr__": lambda _: "ABSENT"})()
KEY = "x-kubernetes-validations"
_NAMES = ("name", "generateName")
_TYPED = frozenset({"date-time", "datetime", "date", "duration", "byte"})
"""Formats whose values are no strings in rules; the engine cannot be given such values."""
_UNKNOWN = ("undeclared reference", "no matching overload", "unsupported")
_BLOCKING = frozenset({
    "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany",
    "FieldValueTypeInvalid",
})  # fmt: skip
_UNASKED = (
    "some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation"
)
_STEP = re.compile(r"\.([^.\[\]]+)|\['([^']+)'\]")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule as it stands in the schema."""

    text: str
    message: str = ""
    message_expression: str = ""
    reason: str = ""
    field_path: str = ""
    unbuilt: str = ""
    """Why it is not evaluated, or ""."""

    @classmethod
    def read(cls, raw: Mapping[str, Any], typed: Set[str]) -> Rule:
        """Read one entry of ``x-kubernetes-validations``; ``typed`` are fields it cannot see."""
        text = raw.get("rule") or ""
        return cls(
            text, (raw.get("message") or "").strip(), raw.get("messageExpression") or "",
            raw.get("reason") or "", raw.get("fieldPath") or "", _unbuilt(raw, text, typed),
        )  # fmt: skip

    def broken_by(self, seen: Any, before: Any, value: Any, path: str) -> Cause | None:
        """Judge one value; None when the rule holds."""
        try:
            verdict = compile_expression(self.text).value(seen, before)
        except (CompileError, EvaluationError) as failure:
            words = f"{failure.message} evaluating rule: {self.message or self.text.strip()}"
            return _invalid(path, value, words)
        if verdict is True:
            return None
        return self._cause(self._words(seen, before), value, path + _plain(self.field_path))

    def _words(self, seen: Any, before: Any) -> str:
        if self.message_expression:
            try:
                made = compile_expression(self.message_expression).value(seen, before)
            except (CompileError, EvaluationError):
                made = ""
            if isinstance(made, str) and made.strip():
                return made.strip()
        return self.message or f"failed rule: {self.text.strip()}"

    def _cause(self, words: str, value: Any, path: str) -> Cause:
        match self.reason:
            case "FieldValueForbidden":
                return causes.forbidden(path, words)
            case "FieldValueRequired":
                return causes.required(path, words)
            case "FieldValueDuplicate":
                return causes.duplicate(path, value)
        return _invalid(path, value, words)


def _invalid(path: str, value: Any, words: str) -> Cause:
    """Say that a value will not do; what is no scalar is not shown, as upstream."""
    if isinstance(value, dict | list):
        return Cause(path, f"Invalid value: {words}", "FieldValueInvalid")
    return causes.invalid(path, value, words)


def read_rules(schema: Mapping[str, Any]) -> tuple[Rule, ...]:
    """Read the rules of one schema, not of those below it."""
    raw = schema.get(KEY) or ()
    return tuple(Rule.read(one, _typed_fields(schema, "self")) for one in raw)


def _typed_fields(schema: Mapping[str, Any], name: str) -> frozenset[str]:
    """Name the fields, of the value or of what is in it, that are no strings in rules."""
    found = {escaped(name)} if schema.get("format") in _TYPED else set()
    below = list((schema.get("properties") or {}).items())
    below += [(name, schema[k]) for k in ("items", "additionalProperties")
              if isinstance(schema.get(k), dict)]  # fmt: skip
    return frozenset(found.union(*(_typed_fields(sub, key) for key, sub in below)))


def _unbuilt(raw: Mapping[str, Any], text: str, typed: Set[str]) -> str:
    if raw.get("optionalOldSelf"):
        return "optionalOldSelf is not built"
    words = set(re.findall(r"\w+", text))
    unseen = words & typed
    if unseen:
        return f"times, durations and bytes are not built in rules: {', '.join(sorted(unseen))}"
    try:
        compile_expression(text)
    except CompileError as wrong:
        if any(words in wrong.message for words in _UNKNOWN):
            return wrong.message
    return ""


def rule_problems(node: Node, path: str = "") -> Iterator[Cause]:
    """Yield what is no CEL in the rules of a schema, and of all below it."""
    for at, rule in rules_in(node, path):
        if not rule.text.strip():
            yield causes.required(f"{at}.rule", "must not be empty")
        for part, text in (("rule", rule.text), ("messageExpression", rule.message_expression)):
            if text.strip() and not rule.unbuilt:
                yield from _problem(f"{at}.{part}", text)


def rules_in(node: Node, path: str = "") -> Iterator[tuple[str, Rule]]:
    """Walk over every rule of a schema, with the path at which it stands."""
    for i, rule in enumerate(node.rules):
        yield f"{path}.{KEY}[{i}]" if path else f"{KEY}[{i}]", rule
    for name, child in _children(node):
        yield from rules_in(child, f"{path}.{name}" if path else name)


def _problem(path: str, text: str) -> Iterator[Cause]:
    try:
        compile_expression(text)
    except CompileError as wrong:
        yield causes.invalid(path, text, wrong.message)


def _children(node: Node) -> Iterator[tuple[str, Node]]:
    yield from ((f"properties[{name}]", child) for name, child in node.properties.items())
    if node.items is not None:
        yield "items", node.items
    if node.additional is not None and not isinstance(node.additional, bool):
        yield "additionalProperties", node.additional


def checked_rules(node: Node, value: Any, old: Any, found: Collection[Cause]) -> Iterator[Cause]:
    """Yield the rules a whole object breaks; a shape too wrong for them keeps them unasked."""
    if not node.has_rules:
        return
    if any(cause.reason in _BLOCKING for cause in found):
        yield Cause("<nil>", f"Invalid value: null: {_UNASKED}", "FieldValueInvalid")
    else:
        yield from broken_rules(node, value, "", old)


def broken_rules(node: Node, value: Any, path: str, old: Any = ABSENT) -> Iterator[Cause]:
    """Yield every rule a value breaks; what has not changed is not judged again.

    A rule that speaks of ``oldSelf`` is asked only where there was a value before. Items of a
    list have one only if the list is a map.
    """
    if not node.has_rules or value is None:
        return
    if node.rules:
        yield from _here(node, value, path, old)
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for name, one in value.items():
            child = node.child(name)
            if child is not None and not isinstance(child, bool):
                where = f"{path}.{name}" if path else name
                yield from broken_rules(child, one, where, before.get(name, ABSENT))
    elif isinstance(value, list) and node.items is not None:
        known = _by_key(node, old)
        for i, one in enumerate(value):
            was = known.get(_key(node, one), ABSENT) if known else ABSENT
            yield from broken_rules(node.items, one, f"{path}[{i}]", was)


def _here(node: Node, value: Any, path: str, old: Any) -> Iterator[Cause]:
    seen = _seen(node, value, root=not path)
    before = None if old is ABSENT else _seen(node, old, root=not path)
    unchanged = old is not ABSENT and value == old
    for rule in node.rules:
        if rule.unbuilt:
            continue
        looks_back = compile_expression(rule.text).looks_back
        if old is ABSENT if looks_back else unchanged:
            continue
        if (cause := rule.broken_by(seen, before, value, path)) is not None:
            yield cause


def _seen(node: Node, value: Any, *, root: bool = False) -> Any:
    """Copy a value as rules see it: only fields the schema knows, under names CEL has."""
    if isinstance(value, list):
        return value if node.items is None else [_seen(node.items, one) for one in value]
    if not isinstance(value, dict):
        return value
    out: dict[str, Any] = {}
    for name, one in value.items():
        child = node.properties.get(name)
        if root and name == "metadata":
            out[name] = {k: one[k] for k in _NAMES if k in one}
        elif child is not None:
            out[escaped(name)] = _seen(child, one)
        elif node.additional is not None:
            more = node.additional
            out[name] = one if isinstance(more, bool) else _seen(more, one)
    return out


def _by_key(node: Node, old: Any) -> dict[str, Any]:
    if node.list_type != "map" or not isinstance(old, list):
        return {}
    return {_key(node, one): one for one in old}


def _key(node: Node, item: Any) -> str:
    return repr([item.get(k) for k in node.map_keys]) if isinstance(item, dict) else repr(item)


def _plain(field_path: str) -> str:
    """Write a rule's fieldPath as a path below the value.

    >>> _plain(".name"), _plain(".a['b-c']"), _plain("")
    ('.name', '.a[b-c]', '')
    """
    steps = _STEP.findall(field_path)
    return "".join(f".{plain}" if plain else f"[{quoted}]" for plain, quoted in steps)
