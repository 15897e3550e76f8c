"""Generate requests from the served kinds and from earlier responses."""

from __future__ import annotations

import copy
import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fuzz.bodies import write_body
from fuzz.definitions import GROUP, defined, definition
from fuzz.kinds import Kind, Schemas
from fuzz.mutation import annotate, mutate
from fuzz.odd_values import ACCEPTS, IMPERSONATIONS, NAMES, NAMESPACES, TEXTS
from fuzz.options import delete_options, list_query, write_query
from fuzz.patches import write_patch
from fuzz.seeds import seed
from fuzz.subresources import write_part
from fuzz.values import Values

Raw = dict[str, Any]
_KEPT = 60
_BUSY = ("pods", "deployments", "replicasets", "nodes", "reservations", "resourceclaims",
         "poddisruptionbudgets", "resourcepolicies", "namespaces")  # fmt: skip
"""Kinds that components act on; half of the writes are of one of these."""
_PATHS = ("/", "/api", "/apis", "/version", "/healthz", "/livez/ping", "/readyz", "/metrics",
          "/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1", "/openapi/v3/apis/apps/v1",
          "/nowhere",
          "/apis/apps", "/api/v1", f"/apis/{GROUP}", f"/apis/{GROUP}/v1", "/api/v2",
          "/healthz/etcd",
          f"/openapi/v3/apis/{GROUP}/v1", "/apis//", "//", "/api/v1/namespaces/default/pods/",
          "/apis/apps/v1/watch/deployments", "/logs", "/debug/pprof", "/../etc/passwd")  # fmt: skip


@dataclass
class Probe:
    """One request."""

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    kind: Kind | None = None

    def __post_init__(self) -> None:
        # Characters that are invalid in a URL cannot be sent.
        self.path = _sendable(self.path)
        self.query = {key: _sendable(value) for key, value in self.query.items()}

    @property
    def watches(self) -> bool:
        return self.query.get("watch") == "true"


def _sendable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


class Fuzzer:
    """Generates requests; ``observe`` is called with each response."""

    def __init__(self, rng: random.Random, kinds: list[Kind], schemas: Schemas) -> None:
        self.values = Values(rng, schemas)
        self._schemas = schemas
        self._kinds = [k for k in kinds if "list" in k.verbs]
        self._reviews = [k for k in kinds if "list" not in k.verbs]
        self._busy = [k for k in self._kinds if k.plural in _BUSY]
        self._definitions = next(k for k in kinds if k.plural == "customresourcedefinitions")
        self._custom: dict[tuple[str, str], Kind] = {}
        self.stored: deque[tuple[Kind, Raw]] = deque(maxlen=_KEPT)
        self._continues: deque[str] = deque(["!!"], maxlen=5)

    def next(self) -> Probe:
        """Return the next request."""
        roll, values = self.values.rng.random(), self.values
        for share, make in (
            (0.34, self._create), (0.46, self._update), (0.62, self._patch),
            (0.72, self._subresource), (0.78, self._delete), (0.79, self._delete_all),
            (0.83, self._get), (0.91, self._list),
            (0.96, self._define), (0.98, self._review),
        ):  # fmt: skip
            if roll < share:
                probe = make()
                break
        else:
            probe = Probe("GET", values.pick(_PATHS))
        if values.chance(0.3):
            probe.headers["accept"] = values.usual(ACCEPTS, 7)
        if values.chance(0.03):
            probe.headers |= values.pick(IMPERSONATIONS)
        if values.chance(0.01):
            probe.method = values.pick(("POST", "PUT", "PATCH", "DELETE", "GET", "HEAD", "OPTIONS"))
        return probe

    def observe(self, probe: Probe, status: int, body: bytes) -> None:
        """Remember stored objects, new kinds and continue tokens of a response."""
        unread = probe.watches or probe.kind is None or not body.startswith(b"{")
        if status >= 300 or unread:
            return
        answer = msgspec.json.decode(body)
        if probe.kind is self._definitions and answer.get("kind") == probe.kind.kind:
            for kind, schema in defined(answer):
                self._custom[kind.version, kind.plural] = kind
                self._schemas.define(kind, schema)
        if probe.method in ("POST", "PUT", "PATCH") and "dryRun" not in probe.query:
            if answer.get("kind") == probe.kind.kind and "name" in answer.get("metadata", {}):
                self.stored.append((probe.kind, answer))
                self.values.uids.append(answer["metadata"]["uid"])
        elif token := (answer.get("metadata") or {}).get("continue"):
            self._continues.append(token)

    def _kind(self) -> Kind:
        values = self.values
        if self._custom and values.chance(0.15):
            return values.pick(list(self._custom.values()))
        return values.pick(self._busy if values.chance(0.5) else self._kinds)

    def _new(self, kind: Kind) -> Raw:
        """Return an object to create: a seed or a random one, sometimes damaged."""
        values = self.values
        if kind is self._definitions:
            obj: Raw | None = definition(values)
        else:
            obj = None if values.chance(0.15) else seed(values, kind.plural)
        if obj is None:
            obj = values.object(kind)
            meta = obj["metadata"] if isinstance(obj.get("metadata"), dict) else {}
            name = {"name": values.pick(NAMES)}
            obj["metadata"] = meta | name if values.chance(0.2) else name
        obj |= {"apiVersion": kind.api_version, "kind": kind.kind}
        self._damage(kind, obj)
        return obj

    def _damage(self, kind: Kind, obj: Raw) -> None:
        values = self.values
        for _ in range(values.pick((0, 1, 1, 2, 4))):
            values.grow(kind, obj)
        for _ in range(values.pick((0, 0, 0, 0, 0, 1, 1, 2))):
            mutate(values, obj)
        if values.chance(0.1):
            annotate(values, obj)

    def _target(self) -> tuple[Kind, str, str, Raw | None]:
        """Return an object for a request: a stored one, or a random name."""
        values = self.values
        if self.stored and values.chance(0.85):
            kind, obj = values.pick(self.stored)
            meta = obj["metadata"]
            return kind, meta.get("namespace", ""), meta["name"], copy.deepcopy(obj)
        kind = self._kind()
        namespace = values.pick(NAMESPACES) if kind.namespaced else ""
        name = values.pick(NAMES) if values.chance(0.9) else values.pick(TEXTS)
        return kind, namespace, name, None

    def _create(self) -> Probe:
        values, kind = self.values, self._kind()
        namespace = values.pick(NAMESPACES) if kind.namespaced else ""
        media, body = write_body(values, self._new(kind))
        return Probe("POST", kind.path(namespace), write_query(values), {"content-type": media},
                    body, kind)  # fmt: skip

    def _update(self) -> Probe:
        values = self.values
        kind, namespace, name, obj = self._target()
        obj = obj or self._new(kind)
        if values.chance(0.5) and isinstance(obj.get("metadata"), dict):
            obj["metadata"].pop("resourceVersion", None)
        self._damage(kind, obj)
        media, body = write_body(values, obj)
        return Probe("PUT", kind.path(namespace, name), write_query(values),
                    {"content-type": media}, body, kind)  # fmt: skip

    def _patch(self) -> Probe:
        values = self.values
        kind, namespace, name, obj = self._target()
        old = obj or {}
        new = copy.deepcopy(old) if obj else self._new(kind)
        self._damage(kind, new)
        media, body = write_patch(values, old, new, custom=kind.custom)
        return Probe("PATCH", kind.path(namespace, name), write_query(values),
                    {"content-type": media}, body, kind)  # fmt: skip

    def _subresource(self) -> Probe:
        values = self.values
        kind, namespace, name, obj = self._target()
        if not kind.parts and values.chance(0.9):
            return self._get()
        part = values.pick(kind.parts or ("status", "scale", "nothing"))
        if obj is not None:
            obj["metadata"].pop("resourceVersion", None)
            if part == "status" and values.chance(0.6):
                obj["status"] = values.field(kind, "status")
            self._damage(kind, obj)
        method, media, body = write_part(values, part, name, obj or self._new(kind))
        headers = {"content-type": media} if body else {}
        where = kind.path(namespace, name, part)
        return Probe(method, where, write_query(values), headers, body, kind)

    def _delete(self) -> Probe:
        kind, namespace, name, _ = self._target()
        media, body = delete_options(self.values)
        return Probe("DELETE", kind.path(namespace, name), write_query(self.values),
                    {"content-type": media}, body, kind)  # fmt: skip

    def _delete_all(self) -> Probe:
        values, kind = self.values, self._kind()
        namespace = values.pick(NAMESPACES) if kind.namespaced else ""
        return Probe("DELETE", kind.path(namespace), list_query(values, self._continues), {}, b"",
                    kind)  # fmt: skip

    def _get(self) -> Probe:
        kind, namespace, name, _ = self._target()
        return Probe("GET", kind.path(namespace, name), {}, {}, b"", kind)

    def _list(self) -> Probe:
        values, kind = self.values, self._kind()
        namespace = values.pick((*NAMESPACES, "")) if kind.namespaced else ""
        query = list_query(values, self._continues)
        if values.chance(0.3):
            query["watch"] = "true"
        return Probe("GET", kind.path(namespace), query, {}, b"", kind)

    def _define(self) -> Probe:
        """Create, change or delete a CRD."""
        values, kind = self.values, self._definitions
        obj = self._new(kind)
        meta = obj.get("metadata")
        name = meta.get("name") if isinstance(meta, dict) else None
        old = [o["metadata"] for k, o in self.stored if k is kind and o["metadata"]["name"] == name]
        if not isinstance(name, str) or not old or values.chance(0.1):
            media, body = write_body(values, obj)
            return Probe("POST", kind.path(), write_query(values), {"content-type": media}, body,
                        kind)  # fmt: skip
        if values.chance(0.2):
            return Probe("DELETE", kind.path("", name), {}, {}, b"", kind)
        meta["resourceVersion"] = old[-1]["resourceVersion"]
        media, body = write_body(values, obj)
        return Probe("PUT", kind.path("", name), write_query(values), {"content-type": media}, body,
                    kind)  # fmt: skip

    def _review(self) -> Probe:
        values, kind = self.values, self.values.pick(self._reviews)
        obj = values.object(kind)
        self._damage(kind, obj)
        media, body = write_body(values, obj)
        namespace = values.pick(NAMESPACES) if kind.namespaced else ""
        return Probe("POST", kind.path(namespace), {}, {"content-type": media}, body, kind)
