"""Validation of pods and of their updates."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from holdfast.api import field_errors, names
from holdfast.api.decode import JsonObject, convert_object, without_nulls
from holdfast.api.defaults import default_object
from holdfast.api.deletion_cost import DELETION_COST, parse_deletion_cost
from holdfast.api.json_fields import map_at
from holdfast.api.node_selection import compile_selector
from holdfast.api.pod import NodeSelector
from holdfast.api.reservation_names import RESERVE_POD
from holdfast.api.validation.pod_claims import (
    MIRROR_POD,
    check_claim_names,
    check_pod_claim_status,
    check_pod_claims,
)
from holdfast.api.validation.template import EFFECTS, OPERATORS
from holdfast.runtime.errors import BadRequest, Cause
from holdfast.server.kinds.validation.container_resources import (
    check_container_resources,
    check_pod_resources,
)
from holdfast.server.operation import Operation

_FORBIDDEN_CHANGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)"
)
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_MUTABLE_WHILE_GATED = ("nodeSelector", "affinity")  # may change only while the pod is gated


def check_pod_write(new: JsonObject, old: JsonObject | None) -> Iterable[Cause]:
    """Return what is wrong with a new pod, or with the update of a pod."""
    return check_pod(new) if old is None else check_pod_change(new, old)


def check_pod(pod: JsonObject) -> Iterable[Cause]:
    """Yield what is wrong with a new pod."""
    yield from _check_not_reserve_pod(pod)
    yield from _check_deletion_cost(pod)
    is_static = MIRROR_POD in (pod["metadata"].get("annotations") or {})
    yield from check_pod_spec(pod.get("spec"), "spec", is_static=is_static)
    yield from check_claim_names(pod)


def _check_not_reserve_pod(pod: JsonObject) -> Iterable[Cause]:
    """Reject the annotation of reserve pods, which exist inside the scheduler only."""
    if RESERVE_POD in (pod["metadata"].get("annotations") or {}):
        yield field_errors.forbidden(f"annotations.{RESERVE_POD}", "cannot set in annotations")


def _check_deletion_cost(pod: JsonObject) -> Iterable[Cause]:
    annotations = pod["metadata"].get("annotations") or {}
    if parse_deletion_cost(annotations) is None:
        path = f"metadata.annotations[{DELETION_COST}]"
        yield field_errors.invalid(path, annotations[DELETION_COST], "must be a 32bit integer")


def check_pod_status(op: Operation, new: JsonObject, old: JsonObject | None) -> Iterable[Cause]:
    """Return what is wrong with a write of the status."""
    if op.request_info.subresource != "status" or old is None:
        return ()
    return check_pod_claim_status(new, old)


def check_pod_spec(spec: Any, path: str, *, is_static: bool = False) -> Iterable[Cause]:
    """Yield what is wrong with the spec of a new pod or a pod template."""
    if not isinstance(spec, dict) or not spec.get("containers"):
        yield field_errors.required(f"{path}.containers")
        return
    seen: set[str] = set()
    for at, container in _containers(spec, path):
        if not isinstance(container, dict):
            yield field_errors.invalid(at, container, "must be an object")
            continue
        name = container.get("name")
        if not name:
            yield field_errors.required(f"{at}.name")
        elif name in seen:
            yield field_errors.duplicate(f"{at}.name", name)
        else:
            seen.add(name)
            for message in names.dns_label(name):
                yield field_errors.invalid(f"{at}.name", name, message)
        if not container.get("image"):
            yield field_errors.required(f"{at}.image")
        yield from check_container_resources(map_at(container, "resources"), f"{at}.resources")
    yield from check_pod_claims(spec, path, is_static=is_static)
    yield from check_pod_resources(spec, path)
    if (policy := spec.get("restartPolicy")) and policy not in _RESTART_POLICIES:
        yield field_errors.not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES)
    yield from _check_placement(spec, path)
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield field_errors.forbidden(
            f"{path}.nodeName", "cannot be set until all schedulingGates have been cleared"
        )


def _containers(spec: JsonObject, path: str) -> Iterable[tuple[str, Any]]:
    for part in ("containers", "initContainers"):
        for i, container in enumerate(spec.get(part) or ()):
            yield f"{path}.{part}[{i}]", container


def check_pod_change(new: JsonObject, old: JsonObject) -> Iterable[Cause]:
    """Yield forbidden changes of a pod; values that are older than a rule stay allowed."""
    if RESERVE_POD not in (old["metadata"].get("annotations") or {}):
        yield from _check_not_reserve_pod(new)
    if not any(_check_deletion_cost(old)):
        yield from _check_deletion_cost(new)
    now, before = new.get("spec") or {}, old.get("spec") or {}
    if now == before:
        return
    now, before = without_nulls(now), _with_defaults(before)
    yield from _gate_changes(now, before)
    left, right = _immutable_part(now, before), _immutable_part(before, before)
    if left != right:
        yield field_errors.forbidden("spec", _FORBIDDEN_CHANGE)
    kept = before.get("tolerations") or []
    if any(t not in (now.get("tolerations") or []) for t in kept):
        yield field_errors.forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        )


def _with_defaults(spec: JsonObject) -> JsonObject:
    """Return a stored spec with defaults, which an older server may not have set."""
    pod: JsonObject = {"apiVersion": "v1", "kind": "Pod", "spec": without_nulls(spec)}
    with suppress(BadRequest):
        default_object(pod)
    defaulted: JsonObject = pod["spec"]
    return defaulted


def _immutable_part(spec: JsonObject, before: JsonObject) -> JsonObject:
    """Return a spec without the fields that may change."""
    mutable = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    if before.get("schedulingGates"):
        mutable.update(_MUTABLE_WHILE_GATED)
    if (before.get("terminationGracePeriodSeconds") or 0) < 0:
        mutable.add("terminationGracePeriodSeconds")
    kept = {k: v for k, v in spec.items() if k not in mutable}
    for part in ("containers", "initContainers"):
        if part in kept:
            kept[part] = [
                {k: v for k, v in c.items() if k != "image"} if isinstance(c, dict) else c
                for c in kept[part]
            ]
    return kept


def _gate_changes(now: JsonObject, before: JsonObject) -> Iterable[Cause]:
    old_gates = {gate.get("name") for gate in before.get("schedulingGates") or ()}
    for i, gate in enumerate(now.get("schedulingGates") or ()):
        if gate.get("name") not in old_gates:
            yield field_errors.forbidden(
                f"spec.schedulingGates[{i}].name",
                f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'",
            )


def _check_placement(spec: JsonObject, path: str) -> Iterable[Cause]:
    """Yield what is wrong with tolerations and required node affinity."""
    for i, toleration in enumerate(spec.get("tolerations") or ()):
        at = f"{path}.tolerations[{i}]"
        if toleration.get("operator") and toleration["operator"] not in OPERATORS:
            yield field_errors.not_supported(f"{at}.operator", toleration["operator"], OPERATORS)
        if toleration.get("effect") and toleration["effect"] not in EFFECTS:
            yield field_errors.not_supported(f"{at}.effect", toleration["effect"], EFFECTS)
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    if required := affinity.get("requiredDuringSchedulingIgnoredDuringExecution"):
        at = f"{path}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        yield from compile_selector(convert_object(required, NodeSelector), at).mistakes
