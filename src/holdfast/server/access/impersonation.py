"""Act as another user: the request headers ``Impersonate-User`` and ``Impersonate-Group``."""

from __future__ import annotations

from dataclasses import replace

from holdfast.api import names
from holdfast.api.node_names import NODE_USER
from holdfast.client.transport import Request
from holdfast.runtime.errors import BadRequest, Forbidden
from holdfast.server.access.authorization import Authorizer
from holdfast.server.user import AUTHENTICATED, User, node_user
from holdfast.server.wire.request_info import RequestInfo

_ACCOUNTS = "system:serviceaccounts"
_NODE_MODE = "arbitrary-node"


def impersonate(
    authorizer: Authorizer, user: User, request: Request, request_info: RequestInfo
) -> User:
    """Return the impersonated user; raise Forbidden unless that is allowed.

    The verb ``impersonate`` allows impersonating any user. A node can also be impersonated with the
    verbs of constrained impersonation: ``impersonate:MODE`` on the node and
    ``impersonate-on:MODE:VERB`` on the object of the request.
    """
    headers = [key for key in request.headers if key.startswith("impersonate-")]
    if not headers:
        return user
    name = request.headers.get("impersonate-user")
    if not name or set(headers) - {"impersonate-user", "impersonate-group"}:
        listed = ", ".join(sorted(headers))
        raise BadRequest(f"impersonation needs Impersonate-User, with groups at most, not {listed}")
    groups = tuple(g for g in request.headers.get("impersonate-group", "").split(",") if g)
    node = name.removeprefix(NODE_USER)
    if groups or node == name or names.dns_subdomain(node):
        return _impersonate_user(authorizer, user, name, groups)
    try:
        return _impersonate_node(authorizer, user, node, request_info)
    except Forbidden as refusal:
        try:
            return _impersonate_user(authorizer, user, name, groups)
        except Forbidden:
            raise refusal from None


def _impersonate_node(
    authorizer: Authorizer, user: User, node: str, request_info: RequestInfo
) -> User:
    verb = f"impersonate-on:{_NODE_MODE}:{request_info.verb}"
    authorizer.check(user, replace(request_info, verb=verb))
    authorizer.check(
        user,
        RequestInfo(
            f"impersonate:{_NODE_MODE}", "", "authentication.k8s.io", plural="nodes", name=node
        ),
    )
    return node_user(node)


def _impersonate_user(
    authorizer: Authorizer, user: User, name: str, groups: tuple[str, ...]
) -> User:
    for target in (_target(name), *(RequestInfo("", "", plural="groups", name=g) for g in groups)):
        authorizer.check(user, replace(target, verb="impersonate"))
    return User(name, tuple(dict.fromkeys((*(groups or _default_groups(name)), AUTHENTICATED))))


def _target(name: str) -> RequestInfo:
    """Return the request to authorize; for a service account the resource is not ``users``."""
    if account := _service_account(name):
        return RequestInfo("", "", namespace=account[0], plural="serviceaccounts", name=account[1])
    return RequestInfo("", "", plural="users", name=name)


def _default_groups(name: str) -> tuple[str, ...]:
    account = _service_account(name)
    return (_ACCOUNTS, f"{_ACCOUNTS}:{account[0]}") if account else ()


def _service_account(name: str) -> tuple[str, str] | None:
    parts = name.split(":")
    is_account = len(parts) == 4 and parts[:2] == ["system", "serviceaccount"]
    return (parts[2], parts[3]) if is_account else None
