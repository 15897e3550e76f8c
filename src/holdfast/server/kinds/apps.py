"""The kinds of ``apps``: Deployments and other workloads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.api import field_errors, scheme
from holdfast.api.decode import JsonMapping, JsonObject, convert_object
from holdfast.api.json_fields import map_at, text_at
from holdfast.api.labels import from_selector
from holdfast.api.meta import LabelSelector
from holdfast.api.validation import list_limits
from holdfast.api.validation.counting import tree_of
from holdfast.api.validation.ratcheting import ratcheting
from holdfast.api.validation.template import NOT_NEGATIVE
from holdfast.runtime.errors import BadRequest, Cause
from holdfast.server.descriptor import KindDescriptor, selectable_fields, untyped_resource
from holdfast.server.kinds.admission import gated_fields, reserved_room
from holdfast.server.kinds.printers import workloads
from holdfast.server.kinds.unimplemented_pod_fields import TEMPLATE_FIELDS
from holdfast.server.kinds.validation.int_or_percent import check_int_or_percent
from holdfast.server.kinds.validation.pods import check_pod_spec
from holdfast.server.unimplemented_features import UnimplementedFeatures

_COUNTS = ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")


def check_workload(obj: JsonMapping) -> Iterable[Cause]:
    """Yield what is wrong with a Deployment, ReplicaSet, StatefulSet or DaemonSet."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        yield field_errors.required("spec")
        return
    for part in _COUNTS:
        if (count := spec.get(part)) and count < 0:
            yield field_errors.invalid(f"spec.{part}", count, NOT_NEGATIVE)
    yield from _check_strategy(obj.get("kind", ""), spec)
    selector, template = spec.get("selector"), spec.get("template") or {}
    if not selector:
        yield field_errors.required("spec.selector")
        return
    labels = (template.get("metadata") or {}).get("labels") or {}
    yield from _check_selector(selector, labels)
    yield from check_pod_spec(template.get("spec"), "spec.template.spec")
    yield from _check_pods_that_stay(obj.get("kind", ""), map_at(template, "spec"))


def _check_pods_that_stay(kind: str, pod: JsonObject) -> Iterable[Cause]:
    """Yield the fields of a template that would end its pods."""
    policy, at = text_at(pod, "restartPolicy"), "spec.template.spec"
    if policy not in ("", "Always"):
        yield field_errors.not_supported(f"{at}.restartPolicy", policy, ("Always",))
    if pod.get("activeDeadlineSeconds") is not None:
        owner = "ReplicaSet" if kind == "Deployment" else kind
        detail = f"activeDeadlineSeconds in {owner} is not Supported"
        yield field_errors.forbidden(f"{at}.activeDeadlineSeconds", detail)


def _check_strategy(kind: str, spec: JsonObject) -> Iterable[Cause]:
    """Yield what is wrong with the update strategy."""
    name = "strategy" if kind == "Deployment" else "updateStrategy"
    strategy = spec.get(name) or {}
    limits, at = strategy.get("rollingUpdate") or {}, f"spec.{name}.rollingUpdate"
    for part in ("maxUnavailable", "maxSurge"):
        if part in limits:
            most = None if (kind, part) == ("Deployment", "maxSurge") else 100
            yield from check_int_or_percent(limits[part], f"{at}.{part}", most_percent=most)
    if kind == "Deployment":
        yield from _check_roll_out(spec, strategy, limits, at)


def _check_roll_out(
    spec: JsonObject, strategy: JsonObject, limits: JsonObject, at: str
) -> Iterable[Cause]:
    kinds = ("Recreate", "RollingUpdate")
    if strategy.get("type") not in kinds:
        yield field_errors.not_supported("spec.strategy", strategy, kinds)
    elif strategy["type"] == "Recreate" and limits:
        yield field_errors.forbidden(at, "may not be specified when strategy `type` is 'Recreate'")
    elif _is_zero(limits.get("maxSurge")) and _is_zero(limits.get("maxUnavailable")):
        message = "may not be 0 when `maxSurge` is 0"
        yield field_errors.invalid(f"{at}.maxUnavailable", limits["maxUnavailable"], message)
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        message = "must be greater than minReadySeconds"
        yield field_errors.invalid("spec.progressDeadlineSeconds", deadline, message)


def _is_zero(amount: Any) -> bool:
    return amount == 0 if isinstance(amount, int) else isinstance(amount, str) and (
        amount.strip("0") == "%")  # fmt: skip


def _check_selector(selector: Any, labels: dict[str, str]) -> Iterable[Cause]:
    try:
        compiled = from_selector(convert_object(selector, LabelSelector))
    except (BadRequest, msgspec.ValidationError) as wrong:
        yield field_errors.invalid("spec.selector", selector, str(wrong))
        return
    if compiled.everything:
        message = "empty selector is invalid for deployment"
        yield field_errors.invalid("spec.selector", selector, message)
    elif not compiled.matches(labels):
        message = "`selector` does not match template `labels`"
        yield field_errors.invalid("spec.template.metadata.labels", labels, message)


_POD_SPEC = ("spec", "template", "spec")
_LISTS = tree_of(list_limits.WORKLOAD)
_CHECKS = (ratcheting(check_workload),)
_TEMPLATE = UnimplementedFeatures(fields=TEMPLATE_FIELDS)

KINDS = (
    KindDescriptor(
        untyped_resource("apps", "controllerrevisions", "ControllerRevision"),
        printer=workloads.CONTROLLER_REVISION,
    ),
    KindDescriptor(
        untyped_resource(
            "apps", "daemonsets", "DaemonSet", short=("ds",), categories=("all",), parts=("status",)
        ),
        pod_spec=_POD_SPEC,
        list_limits=_LISTS,
        admission_plugins=(gated_fields.WORKLOAD, reserved_room.WORKLOAD),
        checks=_CHECKS,
        printer=workloads.DAEMON_SET,
        has_generation=True,
        unimplemented=UnimplementedFeatures(
            "DaemonSets are stored but make no pods: Holdfast has no DaemonSet controller"
        ),
    ),
    KindDescriptor(
        scheme.DEPLOYMENTS,
        pod_spec=_POD_SPEC,
        list_limits=_LISTS,
        admission_plugins=(gated_fields.WORKLOAD, reserved_room.WORKLOAD),
        checks=_CHECKS,
        immutable_fields=("spec.selector",),
        printer=workloads.DEPLOYMENT,
        has_generation=True,
        unimplemented=_TEMPLATE,
    ),
    KindDescriptor(
        scheme.REPLICASETS,
        pod_spec=_POD_SPEC,
        list_limits=_LISTS,
        admission_plugins=(gated_fields.WORKLOAD, reserved_room.WORKLOAD),
        checks=_CHECKS,
        immutable_fields=("spec.selector",),
        printer=workloads.REPLICA_SET,
        selectable_fields=selectable_fields("status.replicas", absent="0"),
        has_generation=True,
        unimplemented=_TEMPLATE,
    ),
    KindDescriptor(
        scheme.STATEFULSETS,
        pod_spec=_POD_SPEC,
        list_limits=_LISTS,
        admission_plugins=(gated_fields.WORKLOAD, reserved_room.WORKLOAD),
        checks=_CHECKS,
        printer=workloads.STATEFUL_SET,
        has_generation=True,
        unimplemented=UnimplementedFeatures(
            "StatefulSets are stored but make no pods: Holdfast has no StatefulSet controller"
        ),
    ),
)
