"""Bind a pod to a node."""

from __future__ import annotations

from dataclasses import replace

from holdfast.api import field_errors
from holdfast.api.decode import JsonObject
from holdfast.client.transport import Response
from holdfast.runtime.errors import (
    BadRequest,
    Cause,
    Conflict,
    Details,
    Invalid,
    NotAllowed,
    aggregate_message,
)
from holdfast.server.kinds.admission.pod_allocations import (
    check_binding,
    drop_foreign_keys,
    foreign_keys,
)
from holdfast.server.kinds.admission.reserved_room import check_binding_labels
from holdfast.server.operation import Operation
from holdfast.server.schema.stored_objects import decode
from holdfast.server.store import StoredObject
from holdfast.server.verbs.metadata import conflict, metadata_of, timestamp
from holdfast.server.verbs.request_object import read_body_as
from holdfast.server.verbs.updating import store_update
from holdfast.server.wire.responses import success_response


async def bind(op: Operation) -> Response:
    """Bind a pod; raise Conflict if it is being deleted, already bound, or gated."""
    binding = read_body_as(op, ("", "v1", "Binding"))
    if metadata_of(binding).get("name", "") != op.request_info.name:
        raise BadRequest("name in URL does not match name in Binding object")
    await bind_pod(op, binding)
    return success_response(status=201)


async def bind_from_collection(op: Operation) -> Response:
    """Handle a Binding that was posted to the collection ``bindings``."""
    if op.request_info.verb != "create" or op.request_info.name:
        raise NotAllowed("the server does not allow this method on the requested resource")
    name = str(metadata_of(read_body_as(op, ("", "v1", "Binding"))).get("name") or "")
    pods = op.context.registry.find("", "v1", "pods")
    request_info = replace(op.request_info, plural="pods", name=name, subresource="binding")
    return await bind(replace(op, request_info=request_info, descriptor=pods))


async def bind_pod(op: Operation, binding: JsonObject) -> None:
    """Check a Binding against the pod, then store the bound pod."""
    node = _target(binding)
    previous = op.context.store.latest(op.key)
    if previous is None:
        raise op.not_found()
    pod = decode(previous)
    _check_preconditions(op, previous, metadata_of(binding))
    _check_bindable(op, pod)
    check_binding(op, binding)
    check_binding_labels(op, binding)
    bound = bound_pod(pod, node, metadata_of(binding), op.context.clock.now())
    await store_update(op, previous, pod, bound)


def _target(binding: JsonObject) -> str:
    target = binding.get("target") or {}
    problems: list[Cause] = []
    if target.get("kind") not in (None, "", "Node"):
        problems.append(
            field_errors.not_supported("target.kind", target["kind"], ("Node", "<empty>"))
        )
    if not target.get("name"):
        problems.append(field_errors.required("target.name", ""))
    if problems:
        raise Invalid(aggregate_message(problems), Details(causes=tuple(problems)))
    return str(target["name"])


def _check_preconditions(op: Operation, previous: StoredObject, meta: JsonObject) -> None:
    uid, version = meta.get("uid"), meta.get("resourceVersion")
    if uid and uid != previous.uid:
        message = f"UID in precondition: {uid}, UID in object meta: {previous.uid}"
    elif version and version != str(previous.revision):
        message = (
            f"ResourceVersion in precondition: {version}, ResourceVersion in object meta: "
            f"{previous.revision}"
        )
    else:
        return
    raise conflict(op.descriptor, op.request_info.name, f"Precondition failed: {message}")


def _check_bindable(op: Operation, pod: JsonObject) -> None:
    name, spec = op.request_info.name, pod["spec"]
    message = ""
    if pod["metadata"].get("deletionTimestamp"):
        message = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        message = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        message = f"pod {name} has non-empty .spec.schedulingGates"
    if message:
        raise Conflict(
            f'Operation cannot be fulfilled on pods/binding "{name}": {message}',
            Details(name=name, kind="pods/binding"),
        )


def bound_pod(pod: JsonObject, node: str, meta: JsonObject, now: float) -> JsonObject:
    """Return the bound pod: node, annotations and labels of the Binding, PodScheduled.

    Allocations that the pod was created with, and that the Binding does not overwrite, are removed.
    """
    metadata = dict(pod["metadata"])
    if foreign_keys(pod):
        drop_foreign_keys(metadata, kept=meta.get("annotations") or {})
    for part in ("annotations", "labels"):
        if added := meta.get(part):
            metadata[part] = (metadata.get(part) or {}) | added
    status = {k: v for k, v in (pod.get("status") or {}).items() if k != "nominatedNodeName"}
    scheduled = {
        "type": "PodScheduled", "status": "True", "lastProbeTime": None,
        "lastTransitionTime": timestamp(now),
    }  # fmt: skip
    conditions = list(status.get("conditions") or ())
    indexes = [i for i, c in enumerate(conditions) if c.get("type") == "PodScheduled"]
    if indexes:
        conditions[indexes[0]] = scheduled
    else:
        conditions.append(scheduled)
    status["conditions"] = conditions
    return {
        **pod,
        "metadata": metadata,
        "spec": {**pod["spec"], "nodeName": node},
        "status": status,
    }
