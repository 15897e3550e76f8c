"""Questions about access, answered and forgotten: who am I, may I, may they, what may I."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.api.decode import JsonObject
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.user import User
from holdfast.apiserver.verbs.request_object import read_body_as
from holdfast.apiserver.wire.request_info import RequestInfo
from holdfast.apiserver.wire.responses import json_response
from holdfast.client.transport import Response
from holdfast.errors import BadRequest, NotAllowed, NotBuilt


def _read(op: Operation) -> JsonObject:
    if op.request_info.verb != "create":
        raise NotAllowed("the server does not allow this method on the requested resource")
    r = op.descriptor.resource
    return read_body_as(op, (r.group, r.version, r.kind))


def _reply(op: Operation, asked: JsonObject, status: JsonObject) -> Response:
    r = op.descriptor.resource
    head: JsonObject = {"kind": r.kind, "apiVersion": r.api_version, "metadata": {}}
    if "spec" in asked:
        head["spec"] = asked["spec"]
    return json_response(head | {"status": status}, 201)


async def review_self(op: Operation) -> Response:
    """Tell the sender who we take it for."""
    asked = _read(op)
    user: JsonObject = {"username": op.user.name, "groups": list(op.user.groups)}
    if op.user.uid:
        user["uid"] = op.user.uid
    if op.user.extra:
        user["extra"] = {k: list(v) for k, v in op.user.extra.items()}
    return _reply(op, {k: v for k, v in asked.items() if k != "spec"}, {"userInfo": user})


async def review_self_access(op: Operation) -> Response:
    """Tell the sender whether it may do something."""
    asked = _read(op)
    return _reply(op, asked, _verdict(op, op.user, _request_info(asked)))


async def review_access(op: Operation) -> Response:
    """Tell whether somebody else may do something."""
    asked = _read(op)
    spec = asked.get("spec") or {}
    user = User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "")
    if not user.name and not user.groups:
        raise BadRequest("spec.user or spec.groups: at least one must be set")
    return _reply(op, asked, _verdict(op, user, _request_info(asked)))


def _verdict(op: Operation, user: User, request_info: RequestInfo) -> JsonObject:
    if op.context.authorizer.allows(user, request_info):
        return {"allowed": True}
    return {"allowed": False}


def _request_info(asked: JsonObject) -> RequestInfo:
    spec = asked.get("spec") or {}
    about, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (about is None) == (path is None):
        raise BadRequest(
            "spec.resourceAttributes: exactly one of nonResourceAttributes or resourceAttributes "
            "must be specified"
        )
    if path is not None:
        return RequestInfo(path.get("verb") or "", path.get("path") or "")

    def text(name: str) -> str:
        return str((about or {}).get(name) or "")

    return RequestInfo(
        text("verb"), "", text("group"), text("version"), text("namespace"),
        text("resource") or "*", text("name"), text("subresource"),
    )  # fmt: skip


async def review_self_rules(op: Operation) -> Response:
    """List the rules that reach the sender in a namespace."""
    asked = _read(op)
    space = (asked.get("spec") or {}).get("namespace", "")
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    rules: list[Mapping[str, Any]] = [
        rule
        for grant in op.context.authorizer.roles().grants_of(op.user)
        if grant.namespace in ("", space)
        for rule in grant.rules
    ]
    if op.user.is_master:
        rules += [everything, {"verbs": ["*"], "nonResourceURLs": ["*"]}]
    status = {
        "resourceRules": [r for r in rules if r.get("resources")],
        "nonResourceRules": [r for r in rules if r.get("nonResourceURLs")],
        "incomplete": False,
    }
    return _reply(op, asked, status)


async def review_token(op: Operation) -> Response:
    """Refuse to tell whom a token belongs to."""
    raise NotBuilt("TokenReview is not built yet in Holdfast")
