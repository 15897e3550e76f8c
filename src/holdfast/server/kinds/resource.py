"""The kinds of ``resource.k8s.io``: claims, slices, device classes and taint rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from holdfast.api import names, scheme
from holdfast.api.decode import JsonObject
from holdfast.api.device_versions import V1BETA1
from holdfast.api.validation import list_limits
from holdfast.api.validation.counting import tree_of
from holdfast.api.validation.device_amounts import (
    check_claim_amounts,
    check_slice_amounts,
    check_template_amounts,
)
from holdfast.api.validation.device_taint_rule import (
    check_device_taint_rule,
    check_device_taint_rule_status,
)
from holdfast.api.validation.resource_slice import check_slice
from holdfast.runtime.errors import Cause
from holdfast.runtime.feature_gates import Feature
from holdfast.server.descriptor import (
    AdmissionPlugin,
    Conversion,
    DeletionStrategy,
    KindDescriptor,
    selectable_fields,
)
from holdfast.server.kinds.admission import gated_fields
from holdfast.server.kinds.device_claims import (
    check_claim_request,
    check_class_request,
    check_template_request,
    drop_unallocated_devices,
    warn_of_upper_case,
)
from holdfast.server.operation import Operation
from holdfast.server.tables.printer import (
    Obj,
    Printer,
    TableCells,
    age,
    columns,
    items,
    meta,
    name,
    part,
    since,
)
from holdfast.server.verbs.metadata import timestamp


def _claim(obj: Obj, now: float) -> TableCells:
    return [name(obj), _state(obj), age(obj, now)]


def _state(obj: Obj) -> str:
    deleted = bool(meta(obj).get("deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if part(obj, "status").get("allocation") is not None:
        states.append("allocated")
        if items(obj, "status", "reservedFor"):
            states.append("reserved")
    elif not deleted:
        states.append("pending")
    return ",".join(states)


def _slice(obj: Obj, now: float) -> TableCells:
    spec = part(obj, "spec")
    return [
        name(obj),
        spec.get("nodeName") or "",
        spec.get("driver", ""),
        part(spec, "pool").get("name", ""),
        age(obj, now),
    ]


def _taint_rule(obj: Obj, now: float) -> TableCells:
    taint = part(part(obj, "spec"), "taint")
    added = since(taint.get("timeAdded"), now) if taint.get("timeAdded") else ""
    texts = [taint.get(key) or "" for key in ("key", "value", "effect")]
    return [name(obj), *texts, added, age(obj, now)]


def _renew_time(op: Operation, new: JsonObject, old: JsonObject | None) -> None:
    """Set the time of a taint whose effect has changed, unless the client has set it."""
    if old is None:
        return
    taint, stored = (part(part(rule, "spec"), "taint") for rule in (new, old))
    changed = taint.get("effect") != stored.get("effect")
    if taint and changed and taint.get("timeAdded") == stored.get("timeAdded"):
        taint["timeAdded"] = timestamp(op.context.clock.now())


def _check_status(op: Operation, new: JsonObject, old: JsonObject | None) -> Iterable[Cause]:
    """Return what is wrong with conditions, if the status is written."""
    is_status = op.request_info.subresource == "status"
    return check_device_taint_rule_status(new) if is_status else ()


_CLAIM = Printer(columns("Name", "State", "Age"), _claim)
_SLICE = Printer(columns("Name", "Node", "Driver", "Pool", "Age"), _slice)
_TAINT_RULE = Printer(columns("Name", "Key", "Value", "Effect", "TimeAdded", "Age"), _taint_rule)
_RETURNS_OBJECT = DeletionStrategy(returns_object=True)

_V1 = (
    KindDescriptor(
        scheme.DEVICE_CLASSES,
        feature=Feature.DYNAMIC_RESOURCE_ALLOCATION,
        admission_plugins=(gated_fields.DEVICE_CLASS,),
        name_check=names.long_name,
        request_checks=(check_class_request,),
        deletion=_RETURNS_OBJECT,
        has_generation=True,
    ),
    KindDescriptor(
        scheme.RESOURCE_CLAIMS,
        feature=Feature.DYNAMIC_RESOURCE_ALLOCATION,
        list_limits=tree_of(list_limits.RESOURCE_CLAIM),
        checks=(check_claim_amounts,),
        request_checks=(check_claim_request,),
        immutable_fields=("spec",),
        admission_plugins=(
            gated_fields.RESOURCE_CLAIM,
            AdmissionPlugin(mutate=drop_unallocated_devices),
        ),
        status_metadata=(),
        printer=_CLAIM,
        deletion=_RETURNS_OBJECT,
    ),
    KindDescriptor(
        scheme.RESOURCE_CLAIM_TEMPLATES,
        feature=Feature.DYNAMIC_RESOURCE_ALLOCATION,
        admission_plugins=(gated_fields.RESOURCE_CLAIM_TEMPLATE,),
        list_limits=tree_of(list_limits.RESOURCE_CLAIM_TEMPLATE),
        checks=(check_template_amounts,),
        request_checks=(check_template_request,),
        immutable_fields=("spec",),
        deletion=_RETURNS_OBJECT,
    ),
    KindDescriptor(
        scheme.RESOURCE_SLICES,
        feature=Feature.DYNAMIC_RESOURCE_ALLOCATION,
        list_limits=tree_of(list_limits.RESOURCE_SLICE),
        checks=(check_slice_amounts, check_slice),
        admission_plugins=(
            gated_fields.RESOURCE_SLICE,
            AdmissionPlugin(validate=warn_of_upper_case),
        ),
        printer=_SLICE,
        selectable_fields=selectable_fields("spec.driver", "spec.nodeName"),
        deletion=_RETURNS_OBJECT,
        has_generation=True,
    ),
)


_V1BETA1 = {kind: Conversion(*functions) for kind, functions in V1BETA1.items()}
_DEPRECATED = {"v1beta1": ("v1.35+", "v1.38+"), "v1beta2": ("v1.36+", "v1.39+")}
"""The releases from which a version is deprecated and from which it is not served."""


def _in_beta(kind: KindDescriptor) -> Iterator[KindDescriptor]:
    """Return a kind in its beta versions, which are stored as v1."""
    r = kind.resource
    conversions = {"v1beta1": _V1BETA1.get(r.kind), "v1beta2": None}
    for version, conversion in conversions.items():
        since, gone = _DEPRECATED[version]
        beta = kind.in_version(replace(r, version=version), conversion)
        yield replace(
            beta,
            deprecation=f"{r.group}/{version} {r.kind} is deprecated in {since}, unavailable in "
            f"{gone}",
        )


_TAINT_RULES = KindDescriptor(
    scheme.DEVICE_TAINT_RULES,
    feature=Feature.DEVICE_TAINT_RULES,
    checks=(check_device_taint_rule,),
    request_checks=(_check_status,),
    admission_plugins=(AdmissionPlugin(mutate=_renew_time),),
    status_metadata=(),
    printer=_TAINT_RULE,
    deletion=_RETURNS_OBJECT,
    has_generation=True,
)
KINDS = (*_V1, *(beta for kind in _V1 for beta in _in_beta(kind)), _TAINT_RULES)
