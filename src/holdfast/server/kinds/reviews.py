"""The reviews of ``authentication.k8s.io`` and ``authorization.k8s.io``, which are not stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.api import fields
from holdfast.api.decode import JsonObject
from holdfast.client.transport import Response
from holdfast.runtime.errors import BadRequest, NotAllowed, NotBuilt
from holdfast.server.descriptor import KindDescriptor, OperationHandler, untyped_resource
from holdfast.server.operation import Operation
from holdfast.server.user import User
from holdfast.server.verbs.request_object import read_body_as
from holdfast.server.wire.request_info import RequestInfo
from holdfast.server.wire.responses import json_response


def _read(op: Operation) -> JsonObject:
    if op.request_info.verb != "create":
        raise NotAllowed("the server does not allow this method on the requested resource")
    r = op.descriptor.resource
    return read_body_as(op, (r.group, r.version, r.kind))


def _response(op: Operation, review: JsonObject, status: JsonObject) -> Response:
    r = op.descriptor.resource
    head: JsonObject = {"kind": r.kind, "apiVersion": r.api_version, "metadata": {}}
    if "spec" in review:
        head["spec"] = review["spec"]
    return json_response(head | {"status": status}, 201)


async def review_self(op: Operation) -> Response:
    """Handle a SelfSubjectReview: return the authenticated user."""
    review = _read(op)
    user: JsonObject = {"username": op.user.name, "groups": list(op.user.groups)}
    if op.user.uid:
        user["uid"] = op.user.uid
    if op.user.extra:
        user["extra"] = {k: list(v) for k, v in op.user.extra.items()}
    return _response(op, {k: v for k, v in review.items() if k != "spec"}, {"userInfo": user})


async def review_self_access(op: Operation) -> Response:
    """Handle a SelfSubjectAccessReview: return whether the user may make a request."""
    review = _read(op)
    return _response(op, review, _access_status(op, op.user, _request_info(review)))


async def review_access(op: Operation) -> Response:
    """Handle a (Local)SubjectAccessReview: return whether a given user may make a request."""
    review = _read(op)
    spec = review.get("spec") or {}
    user = User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "")
    if not user.name and not user.groups:
        raise BadRequest("spec.user or spec.groups: at least one must be set")
    return _response(op, review, _access_status(op, user, _request_info(review)))


def _access_status(op: Operation, user: User, request_info: RequestInfo) -> JsonObject:
    refusal = op.context.authorizer.refusal(user, request_info)
    if refusal is None:
        return {"allowed": True}
    return {"allowed": False} | ({"reason": refusal} if refusal else {})


def _request_info(review: JsonObject) -> RequestInfo:
    spec = review.get("spec") or {}
    attributes, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (attributes is None) == (path is None):
        raise BadRequest(
            "spec.resourceAttributes: exactly one of nonResourceAttributes or resourceAttributes "
            "must be specified"
        )
    if path is not None:
        return RequestInfo(path.get("verb") or "", path.get("path") or "")

    def text(name: str) -> str:
        return str((attributes or {}).get(name) or "")

    return RequestInfo(
        text("verb"), "", text("group"), text("version"), text("namespace"),
        text("resource") or "*", text("name"), text("subresource"), _selector(attributes or {}),
    )  # fmt: skip


def _selector(attributes: Mapping[str, Any]) -> str:
    """Return the field selector of a review, without requirements that it cannot express."""
    given = attributes.get("fieldSelector") or {}
    return str(given.get("rawSelector") or "") or ",".join(
        str(fields.FieldRequirement(str(one.get("key")), str(one["values"][0])))
        for one in given.get("requirements") or ()
        if one.get("operator") == "In" and len(one.get("values") or ()) == 1
    )


async def review_self_rules(op: Operation) -> Response:
    """Handle a SelfSubjectRulesReview: return the rules of the user in a namespace."""
    review = _read(op)
    namespace = (review.get("spec") or {}).get("namespace", "")
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    rules: list[Mapping[str, Any]] = [
        rule
        for grant in op.context.authorizer.roles().grants_of(op.user)
        if grant.namespace in ("", namespace)
        for rule in grant.rules
    ]
    if op.user.is_master:
        rules += [everything, {"verbs": ["*"], "nonResourceURLs": ["*"]}]
    status: JsonObject = {
        "resourceRules": [r for r in rules if r.get("resources")],
        "nonResourceRules": [r for r in rules if r.get("nonResourceURLs")],
        "incomplete": False,
    }
    if op.user.node_name is not None:  # what a node may read depends on its pods
        problem = "node authorizer does not support user rule resolution"
        status |= {"incomplete": True, "evaluationError": problem}
    return _response(op, review, status)


async def review_token(op: Operation) -> Response:
    """Handle a TokenReview: not implemented."""
    raise NotBuilt("TokenReview is not built yet in Holdfast")


def _review(
    group: str, plural: str, kind: str, handler: OperationHandler, *, namespaced: bool = False
) -> KindDescriptor:
    return KindDescriptor(
        untyped_resource(group, plural, kind, namespaced=namespaced, verbs=("create",)),
        handler=handler,
    )


_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
KINDS = (
    _review(_AUTHENTICATION, "selfsubjectreviews", "SelfSubjectReview", review_self),
    _review(_AUTHENTICATION, "tokenreviews", "TokenReview", review_token),
    _review(
        _AUTHORIZATION,
        "localsubjectaccessreviews",
        "LocalSubjectAccessReview",
        review_access,
        namespaced=True,
    ),
    _review(
        _AUTHORIZATION, "selfsubjectaccessreviews", "SelfSubjectAccessReview", review_self_access
    ),
    _review(_AUTHORIZATION, "selfsubjectrulesreviews", "SelfSubjectRulesReview", review_self_rules),
    _review(_AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview", review_access),
)
