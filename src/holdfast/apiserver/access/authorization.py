"""Authorize requests by the stored RBAC roles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from holdfast.api import fields
from holdfast.apiserver.access.rbac import GROUP, RoleIndex, forbidden_message
from holdfast.apiserver.schema.stored_objects import decode
from holdfast.apiserver.user import AUTHENTICATED, User
from holdfast.apiserver.wire.request_info import RequestInfo
from holdfast.client.transport import Request
from holdfast.errors import BadRequest, Details, Forbidden, Unauthorized
from holdfast.store import Store

PUBLIC_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version"})
_ACCOUNTS = "system:serviceaccounts"
_ROLE_RESOURCES = ("clusterroles", "roles")
_BINDING_RESOURCES = ("clusterrolebindings", "rolebindings")


class Authorizer:
    """Authorizes requests; keeps an index of the stored roles."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._roles = RoleIndex()
        self._revisions: tuple[int, ...] = ()

    def check(self, user: User, request_info: RequestInfo) -> None:
        """Raise Forbidden, or Unauthorized for an anonymous user, if the request is not allowed."""
        if user.is_master or is_public(request_info):
            return
        if user.is_anonymous:
            raise Unauthorized("Unauthorized")
        if not self.allows(user, request_info):
            details = Details(
                name=request_info.name, group=request_info.group, kind=request_info.plural
            )
            raise Forbidden(forbidden_message(user, request_info), details)

    def allows(self, user: User, request_info: RequestInfo) -> bool:
        """Return whether a user may make a request."""
        return user.is_master or self.roles().allows(user, request_info)

    def roles(self) -> RoleIndex:
        """Return the index of the committed roles, rebuilt only if a role or binding changed."""
        revisions = tuple(
            stored.revision
            for plural in (*_ROLE_RESOURCES, *_BINDING_RESOURCES)
            for stored in self._store.list(GROUP, plural)
        )
        if revisions != self._revisions:
            self._revisions = revisions
            self._roles = RoleIndex.build(
                self._read(*_ROLE_RESOURCES), self._read(*_BINDING_RESOURCES)
            )
        return self._roles

    def _read(self, *plurals: str) -> Iterator[dict[str, Any]]:
        for plural in plurals:
            for stored in self._store.list(GROUP, plural):
                yield decode(stored)


def is_public(request_info: RequestInfo) -> bool:
    """Return whether the request needs no authorization."""
    path = request_info.path.rstrip("/") or "/"
    return (
        not request_info.is_resource
        and request_info.verb in ("get", "head")
        and path in PUBLIC_PATHS
    )


def with_selected_name(request_info: RequestInfo, request: Request) -> RequestInfo:
    """Set the name of a list or watch that selects one name, for rules with resourceNames."""
    text = request.query.get("fieldSelector", "")
    if (
        request_info.verb not in ("list", "watch")
        or request_info.name
        or "metadata.name" not in text
    ):
        return request_info
    name = fields.parse(text).exact("metadata.name")
    return replace(request_info, name=name) if name else request_info


def impersonate(authorizer: Authorizer, user: User, request: Request) -> User:
    """Return the impersonated user; raise Forbidden unless ``impersonate`` is allowed."""
    headers = [key for key in request.headers if key.startswith("impersonate-")]
    if not headers:
        return user
    name = request.headers.get("impersonate-user")
    if not name or set(headers) - {"impersonate-user", "impersonate-group"}:
        listed = ", ".join(sorted(headers))
        raise BadRequest(f"impersonation needs Impersonate-User, with groups at most, not {listed}")
    groups = tuple(g for g in request.headers.get("impersonate-group", "").split(",") if g)
    for target in (_target(name), *(RequestInfo("", "", plural="groups", name=g) for g in groups)):
        authorizer.check(user, replace(target, verb="impersonate"))
    return User(name, tuple(dict.fromkeys((*(groups or _default_groups(name)), AUTHENTICATED))))


def _target(name: str) -> RequestInfo:
    """Return the request to authorize: a service account is not of resource ``users``."""
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
