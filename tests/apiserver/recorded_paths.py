"""Recorded requests that belong to no single kind: discovery, OpenAPI, reviews, protobuf."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from apiserver.recorded_kinds import AGGREGATED
from apiserver.recorded_lifecycle import DRY, Kind
from apiserver.recorder import Recorder, digest
from apiserver.sample_objects import binding, pod
from apiserver.server_fixture import RunningServer

_BODIES = Path(__file__).parent / "data" / "protobuf_bodies.json"
_AUTHN, _AUTHZ = "/apis/authentication.k8s.io/v1", "/apis/authorization.k8s.io/v1"
_ASKED = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}


async def record_discovery(api: RunningServer, to: Recorder) -> None:
    """Record discovery in full, OpenAPI as digests."""
    for path in ("/", "/version", "/api", "/apis", "/api/v1", "/apis/apps", "/healthz", "/livez",
                 "/readyz?verbose", "/nowhere", "/apis/none.example.com"):  # fmt: skip
        await to.ask(path, "GET", path)
    for path in ("/api", "/apis"):
        body = (await api.call("GET", path, headers=AGGREGATED)).json
        to.note(f"\n# {path}, aggregated")
        for group in body["items"]:
            to.note(f"{group['metadata'].get('name', '')}:")
            for version in group["versions"]:
                to.note(f"  {version['version']} {version['freshness']}")
                for one in version["resources"]:
                    to.note(f"    {json.dumps(one)}")
    for group in (await api.call("GET", "/apis")).json["groups"]:
        for version in group["versions"]:
            path = f"/apis/{version['groupVersion']}"
            to.note(f"\n# {path}")
            for one in (await api.call("GET", path)).json["resources"]:
                to.note(json.dumps(one))
    to.note("\n# OpenAPI")
    for path in (await api.call("GET", "/openapi/v3")).json["paths"]:
        answer = await api.call("GET", f"/openapi/v3/{path}")
        body = answer.json
        to.note(f"{path}: {len(body['paths'])} paths, {len(body['components']['schemas'])} "
                f"schemas, {digest(answer.body)}")  # fmt: skip
    swagger = (await api.call("GET", "/openapi/v2")).json
    to.note(f"v2: {len(swagger.get('paths', {}))} paths, {len(swagger['definitions'])} "
            f"definitions, {digest(json.dumps(swagger).encode())}")  # fmt: skip


async def record_reviews(api: RunningServer, to: Recorder) -> None:
    """Record kinds that are not stored."""
    local = _AUTHZ + "/namespaces/default/localsubjectaccessreviews"
    asked = (
        (f"{_AUTHN}/selfsubjectreviews", {}),
        (f"{_AUTHN}/tokenreviews", {"spec": {"token": "x"}}),
        (f"{_AUTHZ}/selfsubjectaccessreviews", {"spec": _ASKED}),
        (f"{_AUTHZ}/selfsubjectaccessreviews", {"spec": {}}),
        (f"{_AUTHZ}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}),
        (f"{_AUTHZ}/subjectaccessreviews", {"spec": _ASKED | {"user": "ada"}}),
        (f"{_AUTHZ}/subjectaccessreviews", {"spec": _ASKED}),
        (local, {"spec": _ASKED | {"user": "ada"}}),
        (local, {"metadata": {"namespace": "other"}, "spec": _ASKED | {"user": "ada"}}),
    )
    for path, body in asked:
        await to.ask("ask", "POST", path, body)
    for path in dict.fromkeys(path for path, _ in asked):
        await to.methods(path)
    bindings = "/api/v1/namespaces/default/bindings"
    await api.create("/api/v1/namespaces/default/pods", pod("bound"))
    await to.ask("bind, dry run", "POST", bindings, binding("bound", "n1"), **DRY)
    await to.ask("bind", "POST", bindings, binding("bound", "n1"))
    await to.methods(bindings)
    await api.call("DELETE", "/api/v1/namespaces/default/pods/bound", {"gracePeriodSeconds": 0})


async def record_protobuf(api: RunningServer, kinds: list[Kind], to: Recorder) -> None:
    """Record dry runs with protobuf bodies of Go clients."""
    paths = {(k.sample["apiVersion"], k.sample["kind"]): k.path() for k in kinds}
    for case in json.loads(_BODIES.read_text())["kubectl"]:
        obj = case["object"]
        path = paths.get((obj.get("apiVersion"), obj.get("kind")))
        if path:
            headers = {"content-type": "application/vnd.kubernetes.protobuf"}
            await to.ask(case["command"], "POST", path, base64.b64decode(case["body"]), headers,
                         **DRY)  # fmt: skip


async def record_initial(api: RunningServer, kinds: list[Kind], to: Recorder) -> None:
    """Record the bootstrap objects, one line each."""
    for kind in kinds:
        items: list[Any] = (await api.call("GET", kind.path(""))).json["items"]
        if items and not (kind.plural == "events" and kind.group):
            to.note(f"\n# {kind.plural}")
            for item in items:
                to.line(item)
