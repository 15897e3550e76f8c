"""Printers, and functions for cells that many printers use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.api.timestamps import parse_rfc3339
from holdfast.runtime.errors import BadRequest

Obj = Mapping[str, Any]
TableCells = list[Any]
NONE, UNSET, UNKNOWN = "<none>", "<unset>", "<unknown>"
_FEW = 3


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """A printer column; with a priority > 0 it is shown only with ``-o wide``."""

    name: str
    type: str = "string"
    json_path: str = ""
    description: str = ""
    format: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Printer:
    """The printer of a kind: its columns, and a function for the cells of an object."""

    columns: tuple[PrinterColumn, ...]
    cells: Callable[[Obj, float], TableCells]
    conditions: Callable[[Obj], list[dict[str, str]]] | None = None


def columns(*specifications: str) -> tuple[PrinterColumn, ...]:
    """Parse short column specifications: ``+`` is for ``-o wide`` only, ``:integer`` the type.

    >>> [(c.name, c.type, c.priority) for c in columns("Name", "Count:integer", "+Node")]
    [('Name', 'string', 0), ('Count', 'integer', 0), ('Node', 'string', 1)]
    """
    parsed = []
    for specification in specifications:
        name, _, kind = specification.removeprefix("+").partition(":")
        parsed.append(
            PrinterColumn(
                name,
                type=kind or "string",
                format="name" if name in ("Name", "Attacher") else "",
                priority=1 if specification.startswith("+") else 0,
            )
        )
    return tuple(parsed)


def age_text(seconds: float) -> str:
    """Format a duration in seconds with two or three significant digits, as upstream.

    >>> [age_text(s) for s in (5, 125, 600, 3 * 3600 + 60, 50 * 3600, 9e6, 8e7)]
    ['5s', '2m5s', '10m', '3h1m', '2d2h', '104d', '2y195d']
    >>> age_text(-1), age_text(-2)
    ('0s', '<invalid>')
    """
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 120:
        return f"{max(whole, 0)}s"
    minutes, hours = whole // 60, whole // 3600
    days = hours // 24
    if minutes < 180:
        return _two(minutes, "m", whole % 60 if minutes < 10 else 0, "s")
    if hours < 48:
        return _two(hours, "h", minutes % 60 if hours < 8 else 0, "m")
    if hours < 24 * 365 * 2:
        return _two(days, "d", hours % 24 if days < 8 else 0, "h")
    return _two(days // 365, "y", days % 365 if days < 365 * 8 else 0, "d")


def _two(big: int, big_unit: str, small: int, small_unit: str) -> str:
    return f"{big}{big_unit}{small}{small_unit}" if small else f"{big}{big_unit}"


def since(timestamp: Any, now: float) -> str:
    """Return the age of a timestamp; ``<unknown>`` if it is absent."""
    if not timestamp:
        return UNKNOWN
    try:
        return age_text(now - parse_rfc3339(timestamp))
    except (TypeError, BadRequest):
        return "<invalid>"


def age(obj: Obj, now: float) -> str:
    """Return the age of an object."""
    return since(meta(obj).get("creationTimestamp"), now)


def meta(obj: Obj) -> dict[str, Any]:
    """Return the metadata of an object, {} if it has none."""
    return obj.get("metadata") or {}


def name(obj: Obj) -> str:
    """Return the name of an object."""
    return str(meta(obj).get("name", ""))


def part(obj: Obj, *path: str) -> dict[str, Any]:
    """Return the map at a path, {} if it is absent."""
    at: Any = obj
    for key in path:
        at = at.get(key) or {}
    return at if isinstance(at, dict) else {}


def items(obj: Obj, *path: str) -> list[Any]:
    """Return the list at a path, [] if it is absent."""
    return part(obj, *path[:-1]).get(path[-1]) or []


def condition(obj: Obj, kind: str) -> dict[str, Any]:
    """Return the status condition of a type, {} if there is none."""
    for one in items(obj, "status", "conditions"):
        if one.get("type") == kind:
            return dict(one)
    return {}


def holds(obj: Obj, kind: str) -> bool:
    """Return whether the status condition of a type is True."""
    return condition(obj, kind).get("status") == "True"


def or_else(value: Any, fallback: str) -> Any:
    """Return the fallback if the value is None or ""; 0 and False are returned."""
    return fallback if value is None or value == "" else value


def labels_text(labels: Mapping[str, str] | None) -> str:
    """Format labels as ``a=1,b=2``."""
    return ",".join(f"{k}={v}" for k, v in sorted((labels or {}).items())) or NONE


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """Format a label selector as for kubectl; an empty one is ``<none>``.

    >>> selector_text({"matchLabels": {"b": "1"},
    ...                "matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}]})
    'a in (x,y),b=1'
    """
    selector = selector or {}
    terms = [(k, f"{k}={v}") for k, v in (selector.get("matchLabels") or {}).items()]
    for term in selector.get("matchExpressions") or ():
        key, values = term.get("key", ""), ",".join(sorted(term.get("values") or ()))
        text_by_operator = {
            "In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})",
            "Exists": key, "DoesNotExist": f"!{key}",
        }  # fmt: skip
        terms.append((key, text_by_operator.get(term.get("operator", ""), "<error>")))
    return ",".join(text for _, text in sorted(terms, key=lambda t: t[0])) or NONE


def container_cells(template: Obj) -> TableCells:
    """Return two cells: the names and the images of the containers of a pod template."""
    containers = items(template, "spec", "containers")
    return [
        ",".join(c.get("name", "") for c in containers),
        ",".join(c.get("image", "") for c in containers),
    ]


def first_few(texts: Iterable[str], empty: str = UNSET) -> str:
    """Join the first three texts and count the rest.

    >>> first_few(["a", "b", "c", "d"])
    'a,b,c + 1 more...'
    """
    listed = list(texts)
    if not listed:
        return empty
    text = ",".join(listed[:_FEW])
    return f"{text} + {len(listed) - _FEW} more..." if len(listed) > _FEW else text


NAME_AGE = Printer(columns("Name", "Age"), lambda obj, now: [name(obj), age(obj, now)])
# As upstream for kinds without a printer: the time of creation instead of the age.
NAME_CREATED = Printer(
    columns("Name", "Created At:date"),
    lambda obj, now: [name(obj), meta(obj).get("creationTimestamp") or UNKNOWN],
)
