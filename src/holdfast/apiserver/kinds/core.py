"""The kinds of the core group."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.api import causes, names, scheme
from holdfast.api.decode import JsonObject
from holdfast.apiserver.descriptor import (
    Admitter,
    Deletion,
    Selectable,
    Served,
    Subresource,
    each_write,
    selectable,
)
from holdfast.apiserver.kinds.admission.pods import admit_pod
from holdfast.apiserver.kinds.namespaces import (
    PROTECTED,
    admit_namespace,
    finalize,
    is_held,
    mark_terminating,
)
from holdfast.apiserver.kinds.printers import cluster, network, pods, storage, workloads
from holdfast.apiserver.kinds.rows import row
from holdfast.apiserver.kinds.subresources.binding import bind, bind_named
from holdfast.apiserver.kinds.subresources.eviction import evict
from holdfast.apiserver.kinds.unbuilt_pod_fields import POD_FIELDS
from holdfast.apiserver.kinds.validation.pods import check_pod_write
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.tables.printer import NAME_CREATED
from holdfast.apiserver.unbuilt import Field, Unbuilt
from holdfast.client.transport import Response
from holdfast.errors import Cause, NotBuilt
from holdfast.validation import list_limits
from holdfast.validation.counting import tree_of
from holdfast.validation.template import EFFECTS

_ANSWERED = Deletion(answers_object=True)
_LONGEST_GRACE = (1 << 31) - 1  # seconds; what goes beyond the calendar cannot be written
_PROXY_VERBS = ("create", "delete", "get", "patch", "update")
_RWU = ("get", "patch", "update")


def _proxy(kind: str) -> Subresource:
    words = "proxying to pods, services and nodes"
    return Subresource(verbs=_PROXY_VERBS, kind=("", "v1", kind), unbuilt=words)


def _streaming(kind: str, words: str) -> Subresource:
    return Subresource(verbs=("create", "get"), kind=("", "v1", kind), unbuilt=words)


async def _read_log(op: Operation) -> Response:
    """Refuse to show a log, after checking that the pod is there."""
    if op.context.store.get(op.key) is None:
        raise op.not_found()
    raise NotBuilt(
        f'the log of pod "{op.call.name}" cannot be shown: reading container logs is not built '
        "yet; simulated containers write none"
    )


_POD_SUBRESOURCES = {
    "attach": _streaming("PodAttachOptions", "attaching to containers"),
    "binding": Subresource({"create": bind}, ("create",), ("", "v1", "Binding")),
    "ephemeralcontainers": Subresource(verbs=_RWU, unbuilt="ephemeral containers"),
    "eviction": Subresource({"create": evict}, ("create",), ("policy", "v1", "Eviction")),
    "exec": _streaming("PodExecOptions", "running commands in containers"),
    "log": Subresource({"get": _read_log}, ("get",)),
    "portforward": _streaming("PodPortForwardOptions", "forwarding ports"),
    "proxy": _proxy("PodProxyOptions"),
    "resize": Subresource(verbs=_RWU, unbuilt="resizing pods in place"),
}
_TOKEN = Subresource(
    verbs=("create",),
    kind=("authentication.k8s.io", "v1", "TokenRequest"),
    unbuilt="service account tokens",
)


def _pod_grace(pod: JsonObject, wanted: int | None) -> int:
    """Work out how long a pod may take to end."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if wanted is None:
        wanted = spec.get("terminationGracePeriodSeconds", 30)
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    return min(wanted, _LONGEST_GRACE) if wanted >= 0 else 1


def _check_frozen(new: JsonObject, old: JsonObject | None) -> Iterable[Cause]:
    """List what changes in a ConfigMap or Secret whose ``immutable`` is set."""
    if old is not None and old.get("immutable"):
        for part in ("immutable", "data", "binaryData"):
            if (new.get(part) or {}) != (old.get(part) or {}):
                yield causes.forbidden(part, "field is immutable when `immutable` is set")


def _check_node(node: JsonObject) -> Iterable[Cause]:
    """List what is wrong with a node's taints."""
    for i, taint in enumerate((node.get("spec") or {}).get("taints") or ()):
        if taint.get("effect") not in EFFECTS:
            at = f"spec.taints[{i}].effect"
            yield causes.not_supported(at, taint.get("effect") or "", EFFECTS)


_POD_FIELDS = {
    **selectable("spec.nodeName", indexed=True),
    **selectable(
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    **selectable("spec.hostNetwork", absent="false"),
}
_EVENT_FIELDS = {
    **selectable("involvedObject.kind", "involvedObject.name", "involvedObject.uid", indexed=True),
    **selectable(
        "involvedObject.namespace",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "type",
    ),
    "source": Selectable(("source", "component")),
}
_NO_EXECUTE = Field(
    ("spec", "taints", "[]", "effect"),
    "NoExecute taints keep new pods away, but running pods are not evicted",
    ("NoExecute",),
)
_ACCOUNT_TOKEN = Field(
    ("type",),
    "No token is written into Secrets of service accounts",
    ("kubernetes.io/service-account-token",),
)

EVENTS = Served(
    scheme.EVENTS,
    printer=cluster.EVENT,
    selectable=_EVENT_FIELDS,
    deletion=Deletion(has_dependents=False),
)
KINDS = (
    Served(row("", "bindings", "Binding", verbs=("create",)), answered_by=bind_named),
    Served(
        row("", "configmaps", "ConfigMap", short=("cm",)),
        checks=(_check_frozen,),
        printer=cluster.CONFIG_MAP,
    ),
    Served(row("", "endpoints", "Endpoints", short=("ep",)), printer=network.ENDPOINTS),
    EVENTS,
    Served(
        row("", "limitranges", "LimitRange", short=("limits",)),
        printer=NAME_CREATED,
        unbuilt=Unbuilt(
            "LimitRanges are stored but not enforced: no default is filled in and no limit is "
            "checked"
        ),
    ),
    Served(
        scheme.NAMESPACES,
        name_check=names.dns_label,
        admitters=(Admitter(mutate=admit_namespace),),
        subresources={"finalize": Subresource({"update": finalize}, ("update",))},
        update_keeps=("spec",),
        printer=cluster.NAMESPACE,
        selectable=selectable("status.phase"),
        deletion=Deletion(
            mark=mark_terminating, is_held=is_held, answers_object=True, protected=PROTECTED
        ),
        names_namespaces=True,
    ),
    Served(
        scheme.NODES,
        lists=tree_of(list_limits.NODE),
        checks=(each_write(_check_node),),
        subresources={"proxy": _proxy("NodeProxyOptions")},
        keeps_status_on_create=True,
        printer=cluster.NODE,
        selectable=selectable("spec.unschedulable", absent="false"),
        unbuilt=Unbuilt(fields=(_NO_EXECUTE,)),
    ),
    Served(
        scheme.PERSISTENT_VOLUME_CLAIMS,
        printer=storage.PERSISTENT_VOLUME_CLAIM,
        deletion=_ANSWERED,
        unbuilt=Unbuilt(
            "PersistentVolumeClaims do not become Bound: Holdfast has no volume controller"
        ),
    ),
    Served(
        scheme.PERSISTENT_VOLUMES,
        lists=tree_of(list_limits.PERSISTENT_VOLUME),
        printer=storage.PERSISTENT_VOLUME,
        deletion=_ANSWERED,
        unbuilt=Unbuilt(
            "PersistentVolumes are read by the scheduler, but Holdfast does not bind or reclaim "
            "them"
        ),
    ),
    Served(
        scheme.PODS,
        lists=tree_of(list_limits.POD),
        checks=(check_pod_write,),
        admitters=(Admitter(mutate=admit_pod),),
        subresources=_POD_SUBRESOURCES,
        printer=pods.POD,
        selectable=_POD_FIELDS,
        deletion=Deletion(grace=_pod_grace, answers_object=True),
        counts_generations=True,
        unbuilt=Unbuilt(fields=POD_FIELDS),
    ),
    Served(
        row("", "podtemplates", "PodTemplate"),
        lists=tree_of(list_limits.POD_TEMPLATE),
        printer=pods.POD_TEMPLATE,
        deletion=_ANSWERED,
        counts_generations=True,
    ),
    Served(
        scheme.REPLICATION_CONTROLLERS,
        lists=tree_of(list_limits.REPLICATION_CONTROLLER),
        printer=workloads.REPLICATION_CONTROLLER,
        selectable=selectable("status.replicas", absent="0"),
        deletion=Deletion(orphans=True),
        counts_generations=True,
        unbuilt=Unbuilt("ReplicationControllers are stored but make no pods: use a Deployment"),
    ),
    Served(
        row("", "resourcequotas", "ResourceQuota", short=("quota",), parts=("status",)),
        printer=cluster.RESOURCE_QUOTA,
        deletion=_ANSWERED,
        unbuilt=Unbuilt(
            "ResourceQuotas are stored but not enforced: nothing is counted and nothing is refused"
        ),
    ),
    Served(
        row("", "secrets", "Secret"),
        checks=(_check_frozen,),
        immutable=("type",),
        printer=cluster.SECRET,
        selectable=selectable("type"),
        unbuilt=Unbuilt(fields=(_ACCOUNT_TOKEN,)),
    ),
    Served(
        row("", "serviceaccounts", "ServiceAccount", short=("sa",), parts=("token",)),
        subresources={"token": _TOKEN},
        deletion=_ANSWERED,
        unbuilt=Unbuilt(
            "ServiceAccounts are stored but get no token: no client can authenticate as one"
        ),
    ),
    Served(
        scheme.SERVICES,
        lists=tree_of(list_limits.SERVICE),
        subresources={"proxy": _proxy("ServiceProxyOptions")},
        printer=network.SERVICE,
        selectable=selectable("spec.clusterIP", "spec.type"),
        deletion=_ANSWERED,
        unbuilt=Unbuilt(
            "Services are stored but get no address and no endpoints: simulated pods have no "
            "network"
        ),
    ),
)
