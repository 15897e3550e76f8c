"""What differs between built-in kinds, as tables: (group, plural) in, a rule out.

Read off Kubernetes' own registries: which deletions answer with the object, which kinds count
generations, which refuse a PUT without a resourceVersion, which orphan by default.
"""

from __future__ import annotations

Id = tuple[str, str]

_RESOURCE = "resource.k8s.io"
_STORAGE = "storage.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"

RETURNS_DELETED: frozenset[Id] = frozenset(
    {("", p) for p in (
        "namespaces", "persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates",
        "resourcequotas", "serviceaccounts", "services",
    )}
    | {(_STORAGE, p) for p in (
        "csidrivers", "csinodes", "storageclasses", "volumeattachments", "volumeattributesclasses",
    )}
    | {(_RESOURCE, p) for p in (
        "deviceclasses", "devicetaintrules", "resourceclaims", "resourceclaimtemplates",
        "resourcepoolstatusrequests", "resourceslices",
    )}
)  # fmt: skip

COUNTS_GENERATIONS: frozenset[Id] = frozenset(
    {("", p) for p in ("pods", "podtemplates", "replicationcontrollers")}
    | {("apps", p) for p in ("daemonsets", "deployments", "replicasets", "statefulsets")}
    | {("batch", p) for p in ("cronjobs", "jobs")}
    | {("networking.k8s.io", p) for p in ("ingressclasses", "ingresses", "networkpolicies")}
    | {(_RESOURCE, p) for p in ("deviceclasses", "devicetaintrules", "resourceslices")}
    | {("flowcontrol.apiserver.k8s.io", p) for p in ("flowschemas", "prioritylevelconfigurations")}
    | {(_ADMISSION, p) for p in (
        "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations", "validatingadmissionpolicies",
        "validatingadmissionpolicybindings", "validatingwebhookconfigurations",
    )}
    | {
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("discovery.k8s.io", "endpointslices"),
        ("policy", "poddisruptionbudgets"),
        ("scheduling.k8s.io", "priorityclasses"),
    }
)  # fmt: skip

NEEDS_VERSION: frozenset[Id] = frozenset(
    {(_STORAGE, p) for p in ("csidrivers", "csinodes", "csistoragecapacities", "volumeattachments")}
    | {(_ADMISSION, p) for p in (
        "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations", "validatingadmissionpolicies",
        "validatingadmissionpolicybindings", "validatingwebhookconfigurations",
    )}
    | {
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("coordination.k8s.io", "leasecandidates"),
        ("coordination.k8s.io", "leases"),
        ("node.k8s.io", "runtimeclasses"),
        ("policy", "poddisruptionbudgets"),
    }
)  # fmt: skip

KEEPS_STATUS_ON_CREATE: frozenset[Id] = frozenset({("", "nodes")})

ORPHANS_BY_DEFAULT: frozenset[Id] = frozenset({("", "replicationcontrollers"), ("batch", "jobs")})

# No finalizers are put on these: nothing ever depends on an event.
NEVER_OWNED: frozenset[Id] = frozenset({("", "events"), ("events.k8s.io", "events")})
