"""Parse method and path of a request: verb, resource, namespace, name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.runtime.errors import NotAllowed

_ON_OBJECT = {
    "GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch",
    "DELETE": "delete",
}  # fmt: skip
_ON_COLLECTION = {"GET": "list", "HEAD": "list", "POST": "create", "DELETE": "deletecollection"}
_NAMESPACE_SUBRESOURCES = ("finalize", "status")
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """The parsed request; ``plural`` is empty for paths that are not resources."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    plural: str = ""
    name: str = ""
    subresource: str = ""
    field_selector: str = ""
    """The field selector of a list, watch or deletecollection; set for authorization only."""

    @property
    def is_resource(self) -> bool:
        """Whether the path is that of a resource, unlike for example ``/healthz``."""
        return bool(self.plural)


def is_true(text: str | None) -> bool:
    """Parse a boolean query parameter as Go does.

    >>> is_true("1"), is_true("no"), is_true(None)
    (True, False, False)
    """
    return text in _TRUE


def parse_request_info(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
    """Parse a request; raise NotAllowed if the method is not allowed for the path.

    >>> parse_request_info("GET", "/api/v1/namespaces/web/pods/a/log", {}).subresource
    'log'
    >>> parse_request_info("GET", "/apis/apps/v1/deployments", {"watch": "1"}).verb
    'watch'
    """
    parts = [part for part in path.split("/") if part]
    root = parts[0] if parts else ""
    if root == "api" and len(parts) > 2:
        return _resource_request(method, path, query, ("", parts[1]), parts[2:])
    if root == "apis" and len(parts) > 3:
        return _resource_request(method, path, query, (parts[1], parts[2]), parts[3:])
    return RequestInfo(method.lower(), path)


def _resource_request(
    method: str,
    path: str,
    query: Mapping[str, str],
    group_version: tuple[str, str],
    parts: list[str],
) -> RequestInfo:
    namespace = ""
    is_namespace_itself = parts[0] == "namespaces" and (
        len(parts) < 3 or (len(parts) == 3 and parts[2] in _NAMESPACE_SUBRESOURCES)
    )
    if parts[0] == "namespaces" and not is_namespace_itself:
        namespace, parts = parts[1], parts[2:]
    plural, name = parts[0], parts[1] if len(parts) > 1 else ""
    verbs = _ON_OBJECT if name else _ON_COLLECTION
    verb = verbs.get(method)
    if verb is None:
        raise NotAllowed("the server does not allow this method on the requested resource")
    if verb == "list" and is_true(query.get("watch")):
        verb = "watch"
    if is_namespace_itself and name:
        namespace = name
    group, version = group_version
    return RequestInfo(verb, path, group, version, namespace, plural, name, "/".join(parts[2:]))
