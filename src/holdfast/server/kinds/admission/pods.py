"""Admission of pods: service account, priority, default tolerations, the gated condition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.api.decode import JsonObject
from holdfast.api.timestamps import rfc3339
from holdfast.server.access.node_references import is_mirror
from holdfast.server.operation import Operation, ServerContext
from holdfast.server.schema.stored_objects import decode
from holdfast.server.store import ObjectKey

_CLASSES = ("scheduling.k8s.io", "priorityclasses")
_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
TOLERATION_SECONDS = 300
_POLICIES = ("PreemptLowerPriority", "Never")


def admit_pod(op: Operation, pod: JsonObject, old: JsonObject | None) -> None:
    """Set service account, priority, tolerations and the condition of a gated pod."""
    if old is None:
        _admit_new(op, pod)
    elif not op.request_info.subresource:
        _admit_update(pod, old)


def _admit_new(op: Operation, pod: JsonObject) -> None:
    spec: JsonObject = pod["spec"]
    _set_service_account(spec, "" if is_mirror(pod) else "default")
    set_priority(op.context, pod, op)
    add_default_tolerations(spec)
    if spec.get("schedulingGates"):
        _add_gated_condition(pod)
    _set_transition_times(pod, op.context.clock.now())


def _admit_update(pod: JsonObject, old: JsonObject) -> None:
    """Restore what admission set on create, so that the same manifest can be sent as an update."""
    spec, before = pod.get("spec") or {}, old["spec"]
    for part in ("priority", "preemptionPolicy"):
        if spec.get(part) is None and before.get(part) is not None:
            spec[part] = before[part]
    _set_service_account(spec, "")
    add_default_tolerations(spec)


def _set_service_account(spec: JsonObject, default: str) -> None:
    """Set both fields of the service account, as upstream's conversion does."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount") or default
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def set_priority(context: ServerContext, pod: JsonObject, op: Operation) -> None:
    """Set the priority of a pod from its PriorityClass or the default one."""
    spec = pod["spec"]
    name = spec.get("priorityClassName") or ""
    priority_class = _priority_class(context, name) if name else default_priority_class(context)
    if name and priority_class is None:
        raise op.forbidden(f"no PriorityClass with name {name} was found", pod)
    value = priority_of(priority_class) if priority_class else 0
    if priority_class:
        spec["priorityClassName"] = priority_class["metadata"]["name"]
    if spec.get("priority") not in (None, value):
        raise op.forbidden(
            f"the integer value of priority ({spec['priority']}) must not be provided in pod "
            f"spec; priority admission controller computed {value} from the given "
            "PriorityClass name",
            pod,
        )
    spec["priority"] = value
    policy = (priority_class or {}).get("preemptionPolicy")
    spec.setdefault("preemptionPolicy", policy if policy in _POLICIES else _POLICIES[0])


def priority_of(priority_class: Mapping[str, Any]) -> int:
    """Return the value of a stored PriorityClass, 0 if it has none, as upstream."""
    return priority_class.get("value") or 0


def _priority_class(context: ServerContext, name: str) -> Mapping[str, Any] | None:
    stored = context.store.latest(ObjectKey(*_CLASSES, "", name))
    return decode(stored) if stored else None


def default_priority_class(context: ServerContext) -> Mapping[str, Any] | None:
    """Return the default PriorityClass; if there are several, the one with the lowest value."""
    classes = [
        decode(stored)
        for stored in context.store.list(*_CLASSES)
        if b'"globalDefault":true' in stored.value
    ]
    defaults = [one for one in classes if one.get("globalDefault") is True]
    return min(defaults, key=priority_of, default=None)


def add_default_tolerations(spec: JsonObject) -> None:
    """Add tolerations of 300 s for nodes that become not-ready or unreachable."""
    tolerations = spec.get("tolerations") or []
    for key in (_NOT_READY, _UNREACHABLE):
        if not any(_covers(t, key) for t in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": TOLERATION_SECONDS,
                }
            )
    spec["tolerations"] = tolerations


def _covers(toleration: Mapping[str, Any], key: str) -> bool:
    return (toleration.get("key") or "") in ("", key) and (toleration.get("effect") or "") in (
        "",
        "NoExecute",
    )


def _add_gated_condition(pod: JsonObject) -> None:
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    if not any(c.get("type") == "PodScheduled" for c in conditions):
        conditions.append(
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        )


def _set_transition_times(pod: JsonObject, now: float) -> None:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        condition.setdefault("lastTransitionTime", rfc3339(now))
