"""Ask the stored roles whether a user may do what a request asks for."""

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
_ROLES = ("clusterroles", "roles")
_BINDINGS = ("clusterrolebindings", "rolebindings")


class Authorizer:
    """Keep the roles indexed, as new as the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._book = RoleIndex()
        self._fingerprint: tuple[int, ...] = ()

    def check(self, user: User, request_info: RequestInfo) -> None:
        """Refuse what the user may not do: 401 if nobody is known, 403 otherwise."""
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
        """Tell whether a user may do something."""
        return user.is_master or self.roles().allows(user, request_info)

    def roles(self) -> RoleIndex:
        """Return the roles as they are committed now, indexed again only if any changed."""
        fingerprint = tuple(
            stored.revision
            for plural in (*_ROLES, *_BINDINGS)
            for stored in self._store.list(GROUP, plural)
        )
        if fingerprint != self._fingerprint:
            self._fingerprint = fingerprint
            self._book = RoleIndex.build(self._read(*_ROLES), self._read(*_BINDINGS))
        return self._book

    def _read(self, *plurals: str) -> Iterator[dict[str, Any]]:
        for plural in plurals:
            for stored in self._store.list(GROUP, plural):
                yield decode(stored)


def is_public(request_info: RequestInfo) -> bool:
    """Tell whether anybody may ask this."""
    path = request_info.path.rstrip("/") or "/"
    return (
        not request_info.is_resource
        and request_info.verb in ("get", "head")
        and path in PUBLIC_PATHS
    )


def with_selected_name(request_info: RequestInfo, request: Request) -> RequestInfo:
    """Give a list or watch of one name that name, so that a role on the name covers it."""
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
    """Let a user act as another, if a role gives it the verb ``impersonate``."""
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
    return User(name, tuple(dict.fromkeys((*(groups or _own_groups(name)), AUTHENTICATED))))


def _target(name: str) -> RequestInfo:
    """Name the one to be impersonated as roles do: a service account is no user."""
    if account := _service_account(name):
        return RequestInfo("", "", namespace=account[0], plural="serviceaccounts", name=account[1])
    return RequestInfo("", "", plural="users", name=name)


def _own_groups(name: str) -> tuple[str, ...]:
    account = _service_account(name)
    return (_ACCOUNTS, f"{_ACCOUNTS}:{account[0]}") if account else ()


def _service_account(name: str) -> tuple[str, str] | None:
    parts = name.split(":")
    is_one = len(parts) == 4 and parts[:2] == ["system", "serviceaccount"]
    return (parts[2], parts[3]) if is_one else None
