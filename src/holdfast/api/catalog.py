"""Every built-in resource of Kubernetes v1.36 that Holdfast serves, in the order of discovery.

Kinds that Holdfast reads by type are described in ``scheme``; the rest is kept as it came. Left
out on purpose: beta versions whose objects have another shape than v1, ``componentstatuses``,
which no storage stands behind, and API priority and fairness, which would promise a fairness
nobody enforces.
"""

from __future__ import annotations

from typing import Any

from holdfast.api import scheme
from holdfast.api.resource import VERBS, Resource, Untyped

_CREATE_ONLY = ("create",)
_STATUS = ("status",)
_SCALE = ("scale", "status")
_ALL = ("all",)
_EXTENSIONS = ("api-extensions",)


def _row(
    group: str,
    plural: str,
    kind: str,
    *,
    version: str = "v1",
    namespaced: bool = True,
    short: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    parts: tuple[str, ...] = (),
    verbs: tuple[str, ...] = VERBS,
) -> Untyped:
    return Resource(
        group, version, plural, kind, dict, namespaced=namespaced, short_names=short,
        categories=categories, subresources=parts, verbs=verbs,
    )  # fmt: skip


def _wide(group: str, plural: str, kind: str, **more: Any) -> Untyped:
    """Describe a cluster-scoped resource."""
    return _row(group, plural, kind, namespaced=False, **more)


_CORE: tuple[Resource[Any], ...] = (
    _row("", "bindings", "Binding", verbs=_CREATE_ONLY),
    _row("", "configmaps", "ConfigMap", short=("cm",)),
    _row("", "endpoints", "Endpoints", short=("ep",)),
    scheme.EVENTS,
    _row("", "limitranges", "LimitRange", short=("limits",)),
    scheme.NAMESPACES,
    scheme.NODES,
    scheme.PERSISTENT_VOLUME_CLAIMS,
    scheme.PERSISTENT_VOLUMES,
    scheme.PODS,
    _row("", "podtemplates", "PodTemplate"),
    scheme.REPLICATION_CONTROLLERS,
    _row("", "resourcequotas", "ResourceQuota", short=("quota",), parts=_STATUS),
    _row("", "secrets", "Secret"),
    _row("", "serviceaccounts", "ServiceAccount", short=("sa",), parts=("token",)),
    scheme.SERVICES,
)  # fmt: skip
_APPS: tuple[Resource[Any], ...] = (
    _row("apps", "controllerrevisions", "ControllerRevision"),
    _row("apps", "daemonsets", "DaemonSet", short=("ds",), categories=_ALL, parts=_STATUS),
    scheme.DEPLOYMENTS,
    scheme.REPLICASETS,
    scheme.STATEFULSETS,
)
_AUTHN, _AUTHZ = "authentication.k8s.io", "authorization.k8s.io"
_REVIEWS = (
    _wide(_AUTHN, "selfsubjectreviews", "SelfSubjectReview", verbs=_CREATE_ONLY),
    _wide(_AUTHN, "tokenreviews", "TokenReview", verbs=_CREATE_ONLY),
    _row(_AUTHZ, "localsubjectaccessreviews", "LocalSubjectAccessReview", verbs=_CREATE_ONLY),
    _wide(_AUTHZ, "selfsubjectaccessreviews", "SelfSubjectAccessReview", verbs=_CREATE_ONLY),
    _wide(_AUTHZ, "selfsubjectrulesreviews", "SelfSubjectRulesReview", verbs=_CREATE_ONLY),
    _wide(_AUTHZ, "subjectaccessreviews", "SubjectAccessReview", verbs=_CREATE_ONLY),
)
_AUTOSCALING = tuple(
    _row(
        "autoscaling", "horizontalpodautoscalers", "HorizontalPodAutoscaler", version=version,
        short=("hpa",), categories=_ALL, parts=_STATUS,
    )
    for version in ("v2", "v1")
)  # fmt: skip
_BATCH = (
    _row("batch", "cronjobs", "CronJob", short=("cj",), categories=_ALL, parts=_STATUS),
    _row("batch", "jobs", "Job", categories=_ALL, parts=_STATUS),
)
_NETWORK = "networking.k8s.io"
_NETWORKING = (
    _wide(_NETWORK, "ingressclasses", "IngressClass"),
    _row(_NETWORK, "ingresses", "Ingress", short=("ing",), parts=_STATUS),
    _wide(_NETWORK, "ipaddresses", "IPAddress", short=("ip",)),
    _row(_NETWORK, "networkpolicies", "NetworkPolicy", short=("netpol",)),
    _wide(_NETWORK, "servicecidrs", "ServiceCIDR", parts=_STATUS),
)
_ACCESS = "rbac.authorization.k8s.io"
_RBAC = (
    _wide(_ACCESS, "clusterrolebindings", "ClusterRoleBinding"),
    _wide(_ACCESS, "clusterroles", "ClusterRole"),
    _row(_ACCESS, "rolebindings", "RoleBinding"),
    _row(_ACCESS, "roles", "Role"),
)
_STORE = "storage.k8s.io"
_STORAGE: tuple[Resource[Any], ...] = (
    scheme.CSI_DRIVERS,
    scheme.CSI_NODES,
    scheme.CSI_STORAGE_CAPACITIES,
    scheme.STORAGE_CLASSES,
    scheme.VOLUME_ATTACHMENTS,
    _wide(_STORE, "volumeattributesclasses", "VolumeAttributesClass", short=("vac",)),
)
_ADMIT = "admissionregistration.k8s.io"
_ADMISSION = tuple(
    _wide(_ADMIT, plural, kind, categories=_EXTENSIONS, parts=parts)
    for plural, kind, parts in (
        ("mutatingadmissionpolicies", "MutatingAdmissionPolicy", ()),
        ("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", ()),
        ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", ()),
        ("validatingadmissionpolicies", "ValidatingAdmissionPolicy", _STATUS),
        ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", ()),
        ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", ()),
    )
)
_DEFINITIONS = _wide(
    "apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition",
    short=("crd", "crds"), categories=_EXTENSIONS, parts=_STATUS,
)  # fmt: skip

ALL: tuple[Resource[Any], ...] = (
    *_CORE,
    _wide(
        "apiregistration.k8s.io", "apiservices", "APIService", categories=_EXTENSIONS,
        parts=_STATUS,
    ),
    *_APPS,
    _row("events.k8s.io", "events", "Event", short=("ev",)),
    *_REVIEWS,
    *_AUTOSCALING,
    *_BATCH,
    _wide(
        "certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest",
        short=("csr",), parts=("approval", "status"),
    ),
    *_NETWORKING,
    scheme.DISRUPTION_BUDGETS,
    *_RBAC,
    *_STORAGE,
    *_ADMISSION,
    _DEFINITIONS,
    scheme.PRIORITY_CLASSES,
    scheme.LEASES,
    _wide("node.k8s.io", "runtimeclasses", "RuntimeClass"),
    _row("discovery.k8s.io", "endpointslices", "EndpointSlice"),
    scheme.DEVICE_CLASSES,
    scheme.RESOURCE_CLAIMS,
    scheme.RESOURCE_CLAIM_TEMPLATES,
    scheme.RESOURCE_SLICES,
)  # fmt: skip

_BY_PLURAL = {(r.group, r.version, r.plural): r for r in ALL}


def find(group: str, version: str, plural: str) -> Resource[Any] | None:
    """Look a built-in resource up by its plural, as it stands in a URL."""
    return _BY_PLURAL.get((group, version, plural))
