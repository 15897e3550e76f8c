"""The subresources status and scale, common to all kinds, and the dispatch to any subresource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.api.decode import JsonObject, convert_object
from holdfast.api.labels import from_selector
from holdfast.api.meta import LabelSelector
from holdfast.client.transport import Response
from holdfast.runtime.errors import BadRequest, FieldErrors, NotAllowed, NotBuilt, NotFound
from holdfast.server.descriptor import KindDescriptor, Subresource
from holdfast.server.operation import Operation
from holdfast.server.schema.stored_objects import decode
from holdfast.server.verbs.patching import (
    JSON_PATCH,
    json_patch_copy,
    merge_patch,
    patch,
    patch_type,
    read_patch,
)
from holdfast.server.verbs.reading import get
from holdfast.server.verbs.request_object import prune_built_in, read_body_as
from holdfast.server.verbs.updating import latest_object, update, update_object
from holdfast.server.wire.body import check_size
from holdfast.server.wire.responses import ServerResponse, json_response

_GET_PATCH_UPDATE = ("get", "patch", "update")
SCALE = ("autoscaling", "v1", "Scale")


async def scale(op: Operation) -> Response:
    """Handle get, update and patch of ``/scale``."""
    previous = latest_object(op)
    obj = decode(previous)
    paths = op.descriptor.scale
    if paths is None:
        raise NotFound("the server could not find the requested resource")
    current = as_scale(obj, paths)
    if op.request_info.verb == "get":
        return json_response(current)
    requested = _requested_scale(op, current)
    replicas = (requested.get("spec") or {}).get("replicas") or 0
    _check_replicas(op, replicas)
    version = (requested.get("metadata") or {}).get("resourceVersion", "")
    new = decode(previous)
    _set(new, paths["specReplicasPath"], replicas)
    new["metadata"]["resourceVersion"] = version or obj["metadata"]["resourceVersion"]
    value = await update_object(op, previous, obj, new)
    return json_response(as_scale(msgspec.json.decode(value), paths))


def _requested_scale(op: Operation, current: JsonObject) -> JsonObject:
    if op.request_info.verb == "update":
        sent = read_body_as(op, SCALE)
        name = (sent.get("metadata") or {}).get("name") or op.request_info.name
        if name != op.request_info.name:
            raise BadRequest(
                f"the name of the object ({name}) does not match the name on the URL "
                f"({op.request_info.name})"
            )
        return sent
    if op.request_info.verb != "patch":
        raise BadRequest(f"scale does not know the verb {op.request_info.verb}")
    check_size(op.request.body)
    change = read_patch(op)
    if patch_type(op) == JSON_PATCH:
        return prune_built_in(json_patch_copy(current, change), SCALE)
    if not isinstance(change, dict):
        raise BadRequest("error decoding patch: a patch of a Scale must be an object")
    merged = prune_built_in(merge_patch(current, change), SCALE)
    if "resourceVersion" not in (change.get("metadata") or {}):
        merged.get("metadata", {}).pop("resourceVersion", None)
    return merged


def as_scale(obj: JsonObject, paths: Mapping[str, str]) -> JsonObject:
    """Return the Scale of an object."""
    meta = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: JsonObject = {"replicas": _count(obj, paths["statusReplicasPath"])}
    selector = _selector(obj, paths)
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {k: meta[k] for k in kept if k in meta},
        "spec": {"replicas": _count(obj, paths["specReplicasPath"])},
        "status": status,
    }


def _selector(obj: JsonObject, paths: Mapping[str, str]) -> str:
    if "labelSelectorPath" in paths:
        return str(_at(obj, paths["labelSelectorPath"]) or "")
    selector = (obj.get("spec") or {}).get("selector")
    if not selector or ("statusReplicasPath" in paths and len(paths) != 2):
        return ""
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        selector = {"matchLabels": selector}  # that of a ReplicationController is a plain map
    return str(from_selector(convert_object(selector, LabelSelector)))


def _at(obj: Any, path: str) -> Any:
    for part in path.strip(".").split("."):
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def _count(obj: Any, path: str) -> int:
    value = _at(obj, path)
    return value if type(value) is int else 0


def _set(obj: JsonObject, path: str, value: Any) -> None:
    *parents, last = path.strip(".").split(".")
    for part in parents:
        obj = obj.setdefault(part, {})
        if not isinstance(obj, dict):
            raise BadRequest(f"{path} cannot be set: {part} is not an object")
    obj[last] = value


def _check_replicas(op: Operation, replicas: Any) -> None:
    problems = FieldErrors()
    if not isinstance(replicas, int) or replicas < 0:
        problems.add(
            "spec.replicas",
            f"Invalid value: {replicas}: must be greater than or equal to 0",
        )
    problems.raise_if_any("Scale", op.request_info.name, "autoscaling")


async def _get(op: Operation) -> Response:
    return get(op)


SHARED: Mapping[str, Subresource] = {
    "status": Subresource({"get": _get, "update": update, "patch": patch}, _GET_PATCH_UPDATE),
    "scale": Subresource({"get": scale, "update": scale, "patch": scale}, _GET_PATCH_UPDATE, SCALE),
}


def subresource_of(descriptor: KindDescriptor, name: str) -> Subresource | None:
    """Return a subresource of a kind, or None."""
    if name not in descriptor.resource.subresources:
        return None
    return descriptor.subresources.get(name) or SHARED.get(name)


async def handle_subresource(op: Operation) -> ServerResponse:
    """Handle a request for a subresource."""
    name = op.request_info.subresource
    subresource = subresource_of(op.descriptor, name.partition("/")[0])
    if subresource is None:
        raise NotFound("the server could not find the requested resource")
    if subresource.unimplemented:
        plural = op.descriptor.resource.plural
        raise NotBuilt(
            f"{subresource.unimplemented} ({plural}/{name}) is not built yet in Holdfast"
        )
    if "/" in name:
        raise NotFound("the server could not find the requested resource")
    handler = subresource.handlers.get(op.request_info.verb)
    if handler is None:
        raise NotAllowed("the server does not allow this method on the requested resource")
    return await handler(op)
