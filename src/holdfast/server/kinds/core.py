"""The kinds of the core group."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.api import field_errors, scheme
from holdfast.api.decode import JsonMapping, JsonObject
from holdfast.api.json_fields import map_at
from holdfast.api.validation import list_limits
from holdfast.api.validation.counting import tree_of
from holdfast.api.validation.pod_claims import check_pod_claims
from holdfast.api.validation.ratcheting import ratcheting
from holdfast.api.validation.template import EFFECTS
from holdfast.runtime.errors import Cause, FieldErrors
from holdfast.server.descriptor import (
    AdmissionPlugin,
    DeletionStrategy,
    KindDescriptor,
    OperationHandler,
    Subresource,
    new_object_check,
    selectable_fields,
    untyped_resource,
)
from holdfast.server.kinds.admission import gated_fields, reserved_room
from holdfast.server.kinds.admission.pod_allocations import POD_ALLOCATIONS
from holdfast.server.kinds.admission.pods import admit_pod
from holdfast.server.kinds.events import CORE_EVENTS
from holdfast.server.kinds.koordinator_checks import POD_WARNINGS, check_gpu_shares
from holdfast.server.kinds.namespaces import NAMESPACES
from holdfast.server.kinds.printers import cluster, network, pods, storage, workloads
from holdfast.server.kinds.reservation_references import warn_of_affinity
from holdfast.server.kinds.subresources.binding import bind, bind_from_collection
from holdfast.server.kinds.subresources.containers import (
    attach,
    exec_command,
    forward_port,
    read_log,
)
from holdfast.server.kinds.subresources.eviction import evict
from holdfast.server.kinds.unimplemented_pod_fields import POD_FIELDS
from holdfast.server.kinds.validation.pods import check_pod_status, check_pod_write
from holdfast.server.kinds.validation.resource_quotas import (
    check_quota,
    check_quota_status,
    warn_of_limits,
)
from holdfast.server.operation import Operation
from holdfast.server.tables.printer import NAME_CREATED
from holdfast.server.unimplemented_features import UnimplementedFeatures, UnimplementedField

_RETURNS_OBJECT = DeletionStrategy(returns_object=True)
_MAX_GRACE_SECONDS = (1 << 31) - 1  # 68 years: the deletion time must be a valid timestamp
_PROXY_VERBS = ("create", "delete", "get", "patch", "update")
_GET_PATCH_UPDATE = ("get", "patch", "update")


def _proxy(kind: str) -> Subresource:
    feature = "proxying to pods, services and nodes"
    return Subresource(verbs=_PROXY_VERBS, kind=("", "v1", kind), unimplemented=feature)


def _streaming(kind: str, handler: OperationHandler) -> Subresource:
    handlers = {"create": handler, "get": handler}
    return Subresource(handlers, ("create", "get"), kind=("", "v1", kind))


_POD_SUBRESOURCES = {
    "attach": _streaming("PodAttachOptions", attach),
    "binding": Subresource({"create": bind}, ("create",), ("", "v1", "Binding")),
    "ephemeralcontainers": Subresource(
        verbs=_GET_PATCH_UPDATE, unimplemented="ephemeral containers"
    ),
    "eviction": Subresource({"create": evict}, ("create",), ("policy", "v1", "Eviction")),
    "exec": _streaming("PodExecOptions", exec_command),
    "log": Subresource({"get": read_log}, ("get",)),
    "portforward": _streaming("PodPortForwardOptions", forward_port),
    "proxy": _proxy("PodProxyOptions"),
    "resize": Subresource(verbs=_GET_PATCH_UPDATE, unimplemented="resizing pods in place"),
}
_TOKEN = Subresource(
    verbs=("create",),
    kind=("authentication.k8s.io", "v1", "TokenRequest"),
    unimplemented="service account tokens",
)


def _pod_grace(pod: JsonObject, requested: int | None) -> int:
    """Return the grace period of a pod in seconds, given the requested one."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if requested is None:
        requested = spec.get("terminationGracePeriodSeconds", 30)
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    return min(requested, _MAX_GRACE_SECONDS) if requested >= 0 else 1


def _check_immutable(new: JsonObject, old: JsonObject | None) -> Iterable[Cause]:
    """Yield the changes of a ConfigMap or Secret whose ``immutable`` is set."""
    if old is not None and old.get("immutable"):
        for part in ("immutable", "data", "binaryData"):
            if (new.get(part) or {}) != (old.get(part) or {}):
                yield field_errors.forbidden(part, "field is immutable when `immutable` is set")


def _check_node(node: JsonObject) -> Iterable[Cause]:
    """Yield what is wrong with the taints of a node."""
    for i, taint in enumerate((node.get("spec") or {}).get("taints") or ()):
        if taint.get("effect") not in EFFECTS:
            at = f"spec.taints[{i}].effect"
            yield field_errors.not_supported(at, taint.get("effect") or "", EFFECTS)


def _check_template_claims(obj: JsonMapping, *path: str) -> Iterable[Cause]:
    """Return what is wrong with the claims in a pod template at a path."""
    for key in path:
        obj = map_at(obj, key)
    return check_pod_claims(map_at(obj, "spec"), ".".join((*path, "spec")))


def _admit_quota(op: Operation, quota: JsonObject, old: JsonObject | None) -> None:
    """Validate a written status, which checks of the kind ignore; warn of a new quota's limits."""
    if old is None:
        op.warnings.extend(warn_of_limits(quota))
    elif op.request_info.subresource == "status":
        errors = FieldErrors(list(check_quota_status(quota)))
        errors.raise_if_any("ResourceQuota", quota["metadata"]["name"])


_POD_FIELDS = {
    **selectable_fields("spec.nodeName", indexed=True),
    **selectable_fields(
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    **selectable_fields("spec.hostNetwork", absent="false"),
}
_ACCOUNT_TOKEN = UnimplementedField(
    ("type",),
    "No token is written into Secrets of service accounts",
    ("kubernetes.io/service-account-token",),
)

KINDS = (
    KindDescriptor(
        untyped_resource("", "bindings", "Binding", verbs=("create",)), handler=bind_from_collection
    ),
    KindDescriptor(
        untyped_resource("", "configmaps", "ConfigMap", short=("cm",)),
        checks=(_check_immutable,),
        printer=cluster.CONFIG_MAP,
    ),
    KindDescriptor(
        untyped_resource("", "endpoints", "Endpoints", short=("ep",)), printer=network.ENDPOINTS
    ),
    CORE_EVENTS,
    KindDescriptor(
        untyped_resource("", "limitranges", "LimitRange", short=("limits",)),
        printer=NAME_CREATED,
        unimplemented=UnimplementedFeatures(
            "LimitRanges are stored but not enforced: no default is filled in and no limit is "
            "checked"
        ),
    ),
    NAMESPACES,
    KindDescriptor(
        scheme.NODES,
        list_limits=tree_of(list_limits.NODE),
        checks=(new_object_check(_check_node),),
        subresources={"proxy": _proxy("NodeProxyOptions")},
        keeps_status_on_create=True,
        printer=cluster.NODE,
        selectable_fields=selectable_fields("spec.unschedulable", absent="false"),
    ),
    KindDescriptor(
        scheme.PERSISTENT_VOLUME_CLAIMS,
        printer=storage.PERSISTENT_VOLUME_CLAIM,
        deletion=_RETURNS_OBJECT,
        unimplemented=UnimplementedFeatures(
            "PersistentVolumeClaims do not become Bound: Holdfast has no volume controller"
        ),
    ),
    KindDescriptor(
        scheme.PERSISTENT_VOLUMES,
        list_limits=tree_of(list_limits.PERSISTENT_VOLUME),
        printer=storage.PERSISTENT_VOLUME,
        deletion=_RETURNS_OBJECT,
        unimplemented=UnimplementedFeatures(
            "PersistentVolumes are read by the scheduler, but Holdfast does not bind or reclaim "
            "them"
        ),
    ),
    KindDescriptor(
        scheme.PODS,
        pod_spec=("spec",),
        list_limits=tree_of(list_limits.POD),
        checks=(check_pod_write,),
        request_checks=(check_pod_status, check_gpu_shares),
        admission_plugins=(
            gated_fields.POD,
            AdmissionPlugin(mutate=admit_pod),
            POD_ALLOCATIONS,
            reserved_room.POD,
            POD_WARNINGS,
            AdmissionPlugin(validate=warn_of_affinity),
        ),
        subresources=_POD_SUBRESOURCES,
        printer=pods.POD,
        selectable_fields=_POD_FIELDS,
        deletion=DeletionStrategy(grace_seconds=_pod_grace, returns_object=True),
        has_generation=True,
        unimplemented=UnimplementedFeatures(fields=POD_FIELDS),
    ),
    KindDescriptor(
        untyped_resource("", "podtemplates", "PodTemplate"),
        pod_spec=("template", "spec"),
        list_limits=tree_of(list_limits.POD_TEMPLATE),
        checks=(ratcheting(lambda obj: _check_template_claims(obj, "template")),),
        admission_plugins=(gated_fields.POD_TEMPLATE, reserved_room.POD_TEMPLATE),
        printer=pods.POD_TEMPLATE,
        deletion=_RETURNS_OBJECT,
        has_generation=True,
    ),
    KindDescriptor(
        scheme.REPLICATION_CONTROLLERS,
        pod_spec=("spec", "template", "spec"),
        list_limits=tree_of(list_limits.REPLICATION_CONTROLLER),
        checks=(ratcheting(lambda obj: _check_template_claims(obj, "spec", "template")),),
        admission_plugins=(gated_fields.WORKLOAD, reserved_room.WORKLOAD),
        printer=workloads.REPLICATION_CONTROLLER,
        selectable_fields=selectable_fields("status.replicas", absent="0"),
        deletion=DeletionStrategy(orphans_by_default=True),
        has_generation=True,
        unimplemented=UnimplementedFeatures(
            "ReplicationControllers are stored but make no pods: use a Deployment"
        ),
    ),
    KindDescriptor(
        scheme.RESOURCE_QUOTAS,
        list_limits=tree_of(list_limits.RESOURCE_QUOTA),
        checks=(check_quota,),
        admission_plugins=(AdmissionPlugin(validate=_admit_quota),),
        printer=cluster.RESOURCE_QUOTA,
        deletion=_RETURNS_OBJECT,
    ),
    KindDescriptor(
        untyped_resource("", "secrets", "Secret"),
        checks=(_check_immutable,),
        immutable_fields=("type",),
        printer=cluster.SECRET,
        selectable_fields=selectable_fields("type"),
        unimplemented=UnimplementedFeatures(fields=(_ACCOUNT_TOKEN,)),
    ),
    KindDescriptor(
        untyped_resource("", "serviceaccounts", "ServiceAccount", short=("sa",), parts=("token",)),
        subresources={"token": _TOKEN},
        deletion=_RETURNS_OBJECT,
        unimplemented=UnimplementedFeatures(
            "ServiceAccounts are stored but get no token: no client can authenticate as one"
        ),
    ),
    KindDescriptor(
        scheme.SERVICES,
        list_limits=tree_of(list_limits.SERVICE),
        subresources={"proxy": _proxy("ServiceProxyOptions")},
        printer=network.SERVICE,
        selectable_fields=selectable_fields("spec.clusterIP", "spec.type"),
        deletion=_RETURNS_OBJECT,
        unimplemented=UnimplementedFeatures(
            "Services are stored but get no address and no endpoints: simulated pods have no "
            "network"
        ),
    ),
)
