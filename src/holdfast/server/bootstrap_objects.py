"""The objects of every new cluster: namespaces, priority classes, RBAC roles, our CRDs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Protocol

import msgspec

from holdfast.api.decode import JsonObject
from holdfast.api.workloads import KOORDINATOR_PRIORITIES, SYSTEM_PRIORITIES
from holdfast.client.transport import Request, Response
from holdfast.runtime.errors import from_status
from holdfast.server.access.bootstrap_roles import BINDINGS, ROLES
from holdfast.server.kinds import NOT_STORED_CRDS
from holdfast.server.schema.structural import shipped_crds
from holdfast.server.user import ADMIN, User
from holdfast.server.wire.responses import ServerResponse

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SHIPPED_GENERATION = "holdfast.dev/shipped-generation"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_ROLES = f"{_RBAC}/clusterroles"
_AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_CRITICAL = {
    "system-cluster-critical": "Used for system critical pods that must run in the cluster, but "
    "can be moved to another node if necessary.",
    "system-node-critical": "Used for system critical pods that must not be moved from their "
    "current node.",
}
log = logging.getLogger(__name__)


class RequestHandler(Protocol):
    """The part of ``ApiServer`` that is used here."""

    async def handle(self, request: Request, user: User) -> ServerResponse:
        """Handle one request."""
        ...


@lru_cache(maxsize=1)
def _requests() -> tuple[tuple[str, bytes], ...]:
    """Return (path, body) of each object to create; cached because reading the CRDs is slow."""
    return tuple((path, msgspec.json.encode(obj)) for path, obj in _objects())


def _objects() -> Iterator[tuple[str, dict[str, Any]]]:
    for name in NAMESPACES:
        yield "/api/v1/namespaces", {"metadata": {"name": name}}
    for name, value in SYSTEM_PRIORITIES.items():
        obj = {"metadata": {"name": name}, "value": value, "description": _CRITICAL[name]}
        yield "/apis/scheduling.k8s.io/v1/priorityclasses", obj
    for name, value in KOORDINATOR_PRIORITIES.items():
        text = f"Koordinator's priority class {name} (docs/coming-from-koordinator.md)."
        obj = {"metadata": {"name": name}, "value": value, "description": text}
        yield "/apis/scheduling.k8s.io/v1/priorityclasses", obj
    for role in ROLES:
        yield _ROLES, role
    for binding in BINDINGS:
        yield f"{_RBAC}/clusterrolebindings", binding
    for definition in shipped_crds():
        if definition["metadata"]["name"] not in NOT_STORED_CRDS:
            yield _DEFINITIONS, definition


async def create_bootstrap_objects(server: RequestHandler) -> None:
    """Create the missing objects by requests to the server; existing ones stay unchanged.

    There are two exceptions: our own CRDs are replaced if another build stored them and no client
    changed them, and roles get the rules that they lack.
    """
    await asyncio.gather(*(_create(server, path, body) for path, body in _requests()))


async def _create(server: RequestHandler, path: str, body: bytes) -> None:
    response = await _send(server, "POST", path, body)
    if response.status == 409 and path == _DEFINITIONS:
        await _replace_definition(server, msgspec.json.decode(body))
    elif response.status == 409 and path == _ROLES:
        await _add_missing_rules(server, msgspec.json.decode(body))
    elif response.status not in (201, 409):
        raise from_status(response.status, msgspec.json.decode(response.body))


async def _replace_definition(server: RequestHandler, shipped: JsonObject) -> None:
    """Store the spec that this build ships, if the stored one is unchanged since Holdfast wrote it.

    An annotation has the generation that Holdfast wrote; without the annotation it is the first.
    """
    path = f"{_DEFINITIONS}/{shipped['metadata']['name']}"
    stored = msgspec.json.decode((await _send(server, "GET", path)).body)
    meta = stored.get("metadata") or {}
    notes, generation = meta.get("annotations") or {}, meta.get("generation", 0)
    if str(generation) != notes.get(_SHIPPED_GENERATION, "1") or "deletionTimestamp" in meta:
        return
    new = {**stored, "spec": shipped["spec"]}
    response = await _send(server, "PUT", path, msgspec.json.encode(new), dryRun="All")
    if response.status == 200:
        if msgspec.json.decode(response.body)["metadata"]["generation"] == generation:
            return
        meta["annotations"] = {**notes, _SHIPPED_GENERATION: str(generation + 1)}
        response = await _send(server, "PUT", path, msgspec.json.encode(new))
    if response.status != 200:
        log.warning("%s stays as an earlier build stored it: %s", path, response.body.decode())


async def _add_missing_rules(server: RequestHandler, shipped: JsonObject) -> None:
    """Add the rules that a stored role lacks, unless it is annotated to stay as it is."""
    path = f"{_ROLES}/{shipped['metadata']['name']}"
    stored = msgspec.json.decode((await _send(server, "GET", path)).body)
    rules, notes = stored.get("rules") or [], stored["metadata"].get("annotations") or {}
    missing = [rule for rule in shipped.get("rules") or () if rule not in rules]
    if not missing or "aggregationRule" in stored or notes.get(_AUTO_UPDATE) == "false":
        return
    stored["rules"] = [*rules, *missing]
    response = await _send(server, "PUT", path, msgspec.json.encode(stored))
    if response.status != 200:
        log.warning("%s stays as an earlier build stored it: %s", path, response.body.decode())


async def _send(
    server: RequestHandler, method: str, path: str, body: bytes = b"", **query: str
) -> Response:
    request = Request(method, path, {"fieldValidation": "Ignore", **query}, {}, body)
    response = await server.handle(request, ADMIN)
    assert isinstance(response, Response)
    return response
