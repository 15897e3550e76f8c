"""Send requests to an API server and record its responses as comparable text.

Values that differ between runs are replaced: uids and resource versions by their order of
appearance, times by the seconds since the start, generated names by their prefix. A response is
recorded as one line per field; of later responses of the same kind only the changed lines.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from apiserver.server_fixture import Answer, RunningServer
from holdfast.api.timestamps import parse_rfc3339

GENERATED = "generated-"
_IGNORED_HEADERS = {"date", "content-length", "server", "audit-id"}
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"20(?:23-11|23-12)-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_NAME = re.compile(GENERATED + r"[a-z0-9]{5}")
_IN_MESSAGE = re.compile(r"(?<=in record \()\d+(?=\))")
_IN_YAML = re.compile(r"(?<=resourceVersion: ')\d+(?=')")
_CACHING = "no-cache, private"
_STATUS = [("kind", "Status"), ("apiVersion", "v1"), ("metadata", {})]
_LONG = 400
"""Longer texts are truncated, with a digest."""


class Recorder:
    """The recorded responses of one file."""

    def __init__(self, api: RunningServer, now: float) -> None:
        self.lines: list[str] = []
        self._api = api
        self._began = now
        self._uids: dict[str, str] = {}
        self._versions: dict[str, str] = {}
        self._last: dict[str, dict[str, Any]] = {}

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    async def ask(
        self, title: str, method: str, path: str, body: Any = None,
        headers: dict[str, str] | None = None, **query: str,
    ) -> Answer:  # fmt: skip
        """Send a request and record its response under a title."""
        answer = await self._api.call(method, path, body, headers=headers, **query)
        asked = "&".join(f"{key}={self._plain(value)}" for key, value in query.items())
        self.lines += ["", f"# {title}", f"{method} {path}{'?' if asked else ''}{asked}"]
        self.lines += self._head(answer)
        self.lines += self._body(answer)
        return answer

    async def brief(
        self, title: str, method: str, path: str, body: Any = None,
        headers: dict[str, str] | None = None, **query: str,
    ) -> Answer:  # fmt: skip
        """Send a request and record its response in one line: the status, and an error.

        For a successful write the line also has the generation and the warnings.
        """
        answer = await self._api.call(method, path, body, headers=headers, **query)
        self.lines.append(f"{title}: {answer.status}{self._outcome(answer)}")
        return answer

    async def methods(self, path: str, **query: str) -> None:
        """Send an empty body with every method; methods with the same response share a line."""
        found: dict[str, list[str]] = {}
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            media = "merge-patch+json" if method == "PATCH" else "json"
            headers = {"content-type": f"application/{media}"}
            body = None if method == "GET" else {}
            answer = await self._api.call(method, path, body, headers=headers, **query)
            outcome = f"{answer.status}{self._outcome(answer)}"
            found.setdefault(outcome, []).append(method)
        for outcome, methods in found.items():
            self.lines.append(f"{path.rpartition('/')[2]} {' '.join(methods)}: {outcome}")

    def note(self, line: str) -> None:
        """Record a given line."""
        self.lines.append(line)

    def line(self, value: Any) -> None:
        """Record a value in one line; a long one is truncated, with a digest."""
        self.lines.append(self._truncated(self._without_differences(value)))

    def events(self, title: str, events: list[Any]) -> None:
        """Record the events of a watch."""
        self.lines += ["", f"# {title}"]
        for event in events:
            self.lines.append(event["type"])
            self.lines += self._changed(event["object"])

    def _head(self, answer: Answer) -> list[str]:
        """Return the status and media type in one line, then the unusual headers."""
        kept = {
            k.lower(): v for k, v in answer.headers.items() if k.lower() not in _IGNORED_HEADERS
        }
        media, caching = kept.pop("content-type", ""), kept.pop("cache-control", "none")
        if caching != _CACHING:
            kept["cache-control"] = caching
        others = [f"{key}: {self._plain(value)}" for key, value in sorted(kept.items())]
        return [f"{answer.status} {media}", *others]

    def _body(self, answer: Answer) -> list[str]:
        media = answer.headers.get("content-type", "")
        if not media.startswith("application/json"):
            text = _IN_YAML.sub(lambda m: self._version(m[0]), answer.body.decode())
            return self._plain(text).splitlines()
        return self._changed(answer.json)

    def _outcome(self, answer: Answer) -> str:
        if not answer.headers.get("content-type", "").startswith("application/json"):
            return f" {answer.body.decode()!r}"
        body = answer.json
        if body.get("kind") == "Status":
            return " " + self._truncated(self._without_differences(body.get("message", "")))
        if "items" in body:
            return f" {len(body['items'])} items"
        generation = body.get("metadata", {}).get("generation")
        told = f" generation {generation}" if generation else ""
        return told + "".join(f"\n  {w}" for w in answer.headers.getall("warning", ()))

    def _changed(self, body: Any) -> list[str]:
        """Return the fields of a body that differ from the last body of its kind."""
        return self._compared(self._without_differences(body))

    def _compared(self, body: Any) -> list[str]:
        if not isinstance(body, dict):
            return [json.dumps(body, ensure_ascii=False)]
        if list(body.items())[:3] == _STATUS:
            return ["Status " + json.dumps(dict(list(body.items())[3:]), ensure_ascii=False)]
        items = body.pop("items", None) if body.get("kind", "").endswith("List") else None
        lines = self._of_fields(str(body.get("kind")), dict(_leaves(body, "")))
        for number, item in enumerate(items or ()):
            lines += [f"items[{number}]", *(f"  {line}" for line in self._compared(item))]
        return lines

    def _of_fields(self, kind: str, fields: dict[str, Any]) -> list[str]:
        before = self._last.get(kind)
        self._last[kind] = fields
        shown = {path: f"{path}: {self._truncated(value)}" for path, value in fields.items()}
        if before is None:
            return list(shown.values())
        if list(before.items()) == list(fields.items()):
            return [f"(the last {kind} again)"]
        lines = [f"- {path}" for path in before if path not in fields]
        lines += [f"+ {line}" for path, line in shown.items() if path not in before]
        lines += [f"~ {line}" for path, line in shown.items()
                  if path in before and before[path] != fields[path]]  # fmt: skip
        return lines or [f"(the last {kind} in another order)"]

    def _truncated(self, value: Any) -> str:
        text = json.dumps(value, ensure_ascii=False)
        if len(text) <= _LONG:
            return text
        return f"{text[:_LONG]}... {len(text)} characters, {digest(text.encode())}"

    def _without_differences(self, value: Any, key: str = "") -> Any:
        """Replace values that differ between runs."""
        if isinstance(value, dict):
            return {k: self._without_differences(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [self._without_differences(v) for v in value]
        if not isinstance(value, str):
            return value
        if key == "resourceVersion" and value.isdigit():
            return self._version(value)
        if key == "continue" and value:
            return "<continue>"
        return self._plain(value)

    def _version(self, value: str) -> str:
        return self._versions.setdefault(value, f"<version {len(self._versions) + 1}>")

    def _plain(self, text: str) -> str:
        text = _UID.sub(lambda m: self._uids.setdefault(m[0], f"<uid {len(self._uids) + 1}>"), text)
        text = _TIME.sub(lambda m: f"<{parse_rfc3339(m[0]) - self._began:+.0f} s>", text)
        text = _IN_MESSAGE.sub(lambda m: self._version(m[0]), text)
        return _NAME.sub(f"{GENERATED}<random>", text)


def _leaves(value: Any, path: str) -> list[tuple[str, Any]]:
    """Return the scalars and empty collections in a value with their paths, in order.

    >>> _leaves({"a": [{"b": 1}, {}]}, "")
    [('a[0].b', 1), ('a[1]', {})]
    """
    if isinstance(value, dict) and value and not path.startswith("columnDefinitions["):
        dot = "." if path else ""
        return [leaf for k, v in value.items() for leaf in _leaves(v, f"{path}{dot}{k}")]
    if isinstance(value, list) and any(isinstance(v, dict | list) for v in value):
        return [leaf for i, v in enumerate(value) for leaf in _leaves(v, f"{path}[{i}]")]
    return [(path, value)]


def digest(content: bytes) -> str:
    """Return a hash of bytes."""
    return "sha256 " + hashlib.sha256(content).hexdigest()[:16]
