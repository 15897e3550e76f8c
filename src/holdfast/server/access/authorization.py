"""Authorize requests by RBAC roles, and requests of nodes also by the objects of the node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from holdfast.api import fields
from holdfast.client.transport import Request
from holdfast.runtime.errors import Details, Forbidden, Unauthorized
from holdfast.server.access.node_authorizer import NodeAuthorizer
from holdfast.server.access.rbac import GROUP, RoleIndex, forbidden_message
from holdfast.server.schema.stored_objects import decode
from holdfast.server.store import Store
from holdfast.server.user import User
from holdfast.server.wire.request_info import RequestInfo

PUBLIC_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version"})
_WITH_SELECTOR = frozenset({"list", "watch", "deletecollection"})
_ROLE_RESOURCES = ("clusterroles", "roles")
_BINDING_RESOURCES = ("clusterrolebindings", "rolebindings")


class Authorizer:
    """Authorizes requests; keeps an index of the stored roles."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._roles = RoleIndex()
        self._last_changes: tuple[int, ...] | None = None
        self._nodes = NodeAuthorizer(store)

    def check(self, user: User, request_info: RequestInfo) -> None:
        """Raise Forbidden, or Unauthorized for an anonymous user, if the request is not allowed."""
        if user.is_master or is_public(request_info):
            return
        if user.is_anonymous:
            raise Unauthorized("Unauthorized")
        reason = self.refusal(user, request_info)
        if reason is not None:
            details = Details(
                name=request_info.name, group=request_info.group, kind=request_info.plural
            )
            raise Forbidden(forbidden_message(user, request_info, reason), details)

    def allows(self, user: User, request_info: RequestInfo) -> bool:
        """Return whether a user may make a request."""
        return self.refusal(user, request_info) is None

    def refusal(self, user: User, request_info: RequestInfo) -> str | None:
        """Return None if a user may make a request, else the reason, which may be empty."""
        if user.is_master:
            return None
        reason: str | None = ""
        if (node := user.node_name) is not None:
            reason = self._nodes.refusal(node, request_info)
        if reason is None or self.roles().allows(user, request_info):
            return None
        return reason

    def roles(self) -> RoleIndex:
        """Return the index of the committed roles, rebuilt only if a role or binding changed."""
        last_change = self._store.last_change
        last_changes = (
            last_change(GROUP, "clusterroles"),
            last_change(GROUP, "roles"),
            last_change(GROUP, "clusterrolebindings"),
            last_change(GROUP, "rolebindings"),
        )
        if last_changes != self._last_changes:
            self._last_changes = last_changes
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


def with_selectors(request_info: RequestInfo, request: Request) -> RequestInfo:
    """Set the field selector of a list, watch or deletecollection, and the name that it selects.

    Rules with resourceNames apply to a list or watch of one name.
    """
    if request_info.verb not in _WITH_SELECTOR or "fieldSelector" not in request.query:
        return request_info
    text, name = request.query["fieldSelector"], request_info.name
    if request_info.verb != "deletecollection" and not name and "metadata.name" in text:
        name = fields.parse(text).exact("metadata.name") or ""
    return replace(request_info, name=name, field_selector=text)
