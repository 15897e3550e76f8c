"""The RBAC roles and bindings that a cluster starts with: upstream's names, fewer rules."""

from __future__ import annotations

from holdfast.api.decode import JsonObject
from holdfast.api.scheduling_rights import GROUP as SCHEDULING_RIGHTS
from holdfast.api.scheduling_rights import (
    USE_RESERVED_ROOM,
    WRITE_ALLOCATIONS,
    SchedulingRight,
)
from holdfast.server.added_group import Resources
from holdfast.server.added_group import policy_rule as _rule
from holdfast.server.added_groups import ADDED_GROUPS
from holdfast.server.user import (
    AUTHENTICATED,
    CONTROLLER_MANAGER,
    DESCHEDULER,
    SCHEDULER,
    SIMULATED_NODES,
)

_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_KOORDINATOR, _POLICIES = "scheduling.koordinator.sh", "scheduling.sigs.x-k8s.io"
_TOPOLOGY = "topology.node.k8s.io"
_ADDED = [added.rights for added in ADDED_GROUPS]
_WORKLOADS: Resources = (
    ("", ("configmaps", "events", "persistentvolumeclaims", "pods", "replicationcontrollers",
          "replicationcontrollers/scale", "serviceaccounts", "services")),
    ("apps", ("daemonsets", "deployments", "deployments/scale", "replicasets",
              "replicasets/scale", "statefulsets", "statefulsets/scale")),
    ("batch", ("cronjobs", "jobs")),
    ("autoscaling", ("horizontalpodautoscalers",)),
    ("networking.k8s.io", ("ingresses", "networkpolicies")),
    ("policy", ("poddisruptionbudgets",)),
    ("resource.k8s.io", ("resourceclaims", "resourceclaimtemplates")),
    *(each for added in _ADDED for each in added.workloads),
    (_KOORDINATOR, ("podmigrationjobs",)),
)  # fmt: skip
# Resources that the users of a namespace may read but not write.
_READ_ONLY: Resources = (
    ("", ("bindings", "endpoints", "limitranges", "namespaces", "pods/log", "pods/status",
          "resourcequotas")),
    ("apps", ("controllerrevisions",)),
    ("discovery.k8s.io", ("endpointslices",)),
    *(each for added in _ADDED for each in added.read_only),
    (_KOORDINATOR, ("devices", "reservations")),
    (_TOPOLOGY, ("noderesourcetopologies",)),
)  # fmt: skip


def _added_rules(role: str) -> list[JsonObject]:
    """Return the rules that added groups give a role."""
    return [dict(rule) for added in _ADDED for rule in added.rules.get(role, ())]


def _right(right: SchedulingRight) -> JsonObject:
    return _rule(SCHEDULING_RIGHTS, [right.resource], [right.verb])


def _role(name: str, rules: list[JsonObject]) -> JsonObject:
    return {"metadata": {"name": name, "labels": dict(_LABELS)}, "rules": rules}


def _binding(name: str, role: str, kind: str, subject: str) -> JsonObject:
    return {
        "metadata": {"name": name, "labels": dict(_LABELS)},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": subject}],
    }


def _view() -> list[JsonObject]:
    return [_rule(group, list(names), _READ) for group, names in (*_WORKLOADS, *_READ_ONLY)]


def _edit() -> list[JsonObject]:
    return [
        *_view(),
        *(_rule(group, list(names), _WRITE) for group, names in _WORKLOADS),
        _rule("", ["secrets"], _READ + _WRITE),
        _rule("", ["pods/eviction"], ["create"]),
        _rule("", ["pods/attach", "pods/exec", "pods/portforward"], ["create", "get"]),
    ]


def _admin() -> list[JsonObject]:
    access = ["rolebindings", "roles"]
    return [
        *_edit(),
        _rule("rbac.authorization.k8s.io", access, _READ + _WRITE),
        _rule("authorization.k8s.io", ["localsubjectaccessreviews"], ["create"]),
    ]


def _scheduler() -> list[JsonObject]:
    """Return the rights of a scheduler that also runs Holdfast's own controllers."""
    changes = ["patch", "update"]
    return [
        _rule("", ["events"], ["create", "list", "patch", "update"]),
        _rule("events.k8s.io", ["events"], ["create", "patch", "update"]),
        _rule("coordination.k8s.io", ["leases"], ["create", "get", "list", "update", "watch"]),
        _rule("", ["nodes"], _READ),
        _rule("", ["pods"], ["delete", "patch", *_READ]),
        _rule("", ["bindings", "pods/binding", "pods/eviction"], ["create"]),
        _rule("", ["pods/status"], changes),
        _right(WRITE_ALLOCATIONS),
        _rule("", ["replicationcontrollers", "resourcequotas", "services", "namespaces"], _READ),
        _rule("apps", ["replicasets", "statefulsets"], _READ),
        _rule("policy", ["poddisruptionbudgets"], _READ),
        _rule("", ["persistentvolumeclaims", "persistentvolumes"], [*_READ, *changes]),
        _rule("storage.k8s.io", ["*"], _READ),
        _rule("scheduling.k8s.io", ["priorityclasses"], _READ),
        _rule("resource.k8s.io", ["deviceclasses", "devicetaintrules", "resourceslices"], _READ),
        _rule("resource.k8s.io", ["resourceclaims"], [*_READ, *changes, "create", "delete"]),
        _rule("resource.k8s.io", ["resourceclaims/status", "resourceclaims/binding"], changes),
        *_added_rules("system:kube-scheduler"),
        _rule(_KOORDINATOR, ["reservations"], [*_READ, *changes, "create", "delete"]),
        _rule(_KOORDINATOR, ["podmigrationjobs"], [*_READ, "patch", "delete"]),
        _rule(_KOORDINATOR, ["podmigrationjobs/status"], ["patch"]),
        _rule(_KOORDINATOR, ["reservations/status"], changes),
        _rule(_KOORDINATOR, ["devices"], _READ),
        _rule(_TOPOLOGY, ["noderesourcetopologies"], _READ),
        _rule(_POLICIES, ["*"], [*_READ, *changes]),
    ]


def _controllers() -> list[JsonObject]:
    """Return the rights of all controllers.

    The garbage collector and the namespace controller delete objects of any resource, and the
    quota controller counts them. Controllers create pods from templates, and admission has already
    checked that the author of a template may use reserved room.
    """
    return [
        _rule("*", ["*"], [*_READ, "delete", "deletecollection", "patch"]),
        _rule("", ["events", "pods"], ["create"]),
        _right(USE_RESERVED_ROOM),
        _rule("", ["namespaces/finalize"], ["update"]),
        _rule("", ["pods/eviction"], ["create"]),
        _rule(_KOORDINATOR, ["reservations"], ["create"]),
        _rule("apps", ["replicasets"], ["create"]),
        _rule("resource.k8s.io", ["resourceclaims"], ["create"]),
        *_added_rules("system:kube-controller-manager"),
    ]


def _descheduler() -> list[JsonObject]:
    """Return the rights of the descheduler: it reads, and creates PodMigrationJobs."""
    listed = ["list", "watch"]
    core = ["namespaces", "nodes", "replicationcontrollers", "services"]
    return [
        _rule("", core, listed),
        _rule("", ["pods"], _READ),
        _rule("apps", ["replicasets", "statefulsets"], listed),
        _rule(_KOORDINATOR, ["devices", "reservations"], listed),
        _rule(_KOORDINATOR, ["podmigrationjobs"], [*listed, "create"]),
        _rule(_TOPOLOGY, ["noderesourcetopologies"], listed),
    ]


def _node_rules() -> list[JsonObject]:
    """Return the rights of nodes; ``NodeAuthorizer`` decides what depends on the object."""
    changes = ["update", "patch"]
    return [
        _rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
        _rule(
            "authorization.k8s.io",
            ["localsubjectaccessreviews", "subjectaccessreviews"],
            ["create"],
        ),
        _rule("", ["services"], _READ),
        _rule("", ["nodes"], ["create", *_READ, *changes]),
        _rule("", ["nodes/status"], changes),
        _rule("", ["events"], ["create", *changes]),
        _rule("events.k8s.io", ["events"], ["create", *changes]),
        _rule("", ["pods"], ["create", "delete", *_READ]),
        _rule("", ["pods/status"], changes),
        _rule("", ["pods/eviction"], ["create"]),
        _rule("", ["configmaps", "secrets"], _READ),
        _rule("", ["persistentvolumeclaims", "persistentvolumes"], ["get"]),
        _rule("", ["persistentvolumeclaims/status"], ["get", *changes]),
        _rule("", ["endpoints", "serviceaccounts"], ["get"]),
        _rule("", ["serviceaccounts/token"], ["create"]),
        _rule("certificates.k8s.io", ["certificatesigningrequests"], ["create", *_READ]),
        _rule("coordination.k8s.io", ["leases"], ["get", "create", *changes, "delete"]),
        _rule("storage.k8s.io", ["volumeattachments"], ["get"]),
        _rule("storage.k8s.io", ["csidrivers"], _READ),
        _rule("storage.k8s.io", ["csinodes"], ["get", "create", *changes, "delete"]),
        _rule("node.k8s.io", ["runtimeclasses"], _READ),
        _rule("resource.k8s.io", ["resourceclaims"], ["get"]),
        _rule("resource.k8s.io", ["resourceslices"], ["deletecollection"]),
        *_added_rules("system:node"),
        _rule(_KOORDINATOR, ["devices"], ["get", "create", *changes, "delete"]),
        _rule(_TOPOLOGY, ["noderesourcetopologies"], ["get", "create", *changes, "delete"]),
    ]


def _simulated_nodes() -> list[JsonObject]:
    """Return the rights of simulated nodes: reads for all nodes, writes as one of them.

    These are the verbs of constrained impersonation: an impersonated node still has only its own
    rights.
    """
    writes = [
        f"impersonate-on:arbitrary-node:{verb}"
        for verb in ("get", "create", "update", "patch", "delete")
    ]
    return [
        _rule("", ["nodes", "pods"], ["list", "watch"]),
        _rule("resource.k8s.io", ["resourceclaims"], ["list", "watch"]),
        *_added_rules(SIMULATED_NODES.name),
        _rule("coordination.k8s.io", ["leases"], ["list"]),
        _rule("", ["events"], ["create", "patch"]),
        _rule("authentication.k8s.io", ["nodes"], ["impersonate:arbitrary-node"]),
        _rule("", ["nodes", "nodes/status", "pods", "pods/status"], writes),
        _rule("coordination.k8s.io", ["leases"], writes),
        _rule(_KOORDINATOR, ["devices"], writes),
        _rule(_TOPOLOGY, ["noderesourcetopologies"], writes),
    ]


def _self_reviews() -> list[JsonObject]:
    access = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]
    return [
        _rule("authorization.k8s.io", access, ["create"]),
        _rule("authentication.k8s.io", ["selfsubjectreviews"], ["create"]),
    ]


def _paths(*paths: str) -> JsonObject:
    return {"verbs": ["get"], "nonResourceURLs": list(paths)}


_DISCOVERY = ("/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*",
              "/readyz", "/version", "/version/")  # fmt: skip
_EVERYTHING: list[JsonObject] = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]

NODE_RULES = _node_rules()
ROLES = (
    _role("cluster-admin", _EVERYTHING),
    _role("admin", _admin()),
    _role("edit", _edit()),
    _role("view", _view()),
    _role("system:kube-scheduler", _scheduler()),
    _role("system:kube-controller-manager", _controllers()),
    _role(DESCHEDULER.name, _descheduler()),
    _role("system:node", NODE_RULES),
    _role(SIMULATED_NODES.name, _simulated_nodes()),
    *(_role(name, rules) for added in _ADDED for name, rules in added.roles.items()),
    _role("system:basic-user", _self_reviews()),
    _role("system:discovery", [_paths(*_DISCOVERY)]),
)
BINDINGS = (
    _binding("cluster-admin", "cluster-admin", "Group", "system:masters"),
    _binding(SCHEDULER.name, "system:kube-scheduler", "User", SCHEDULER.name),
    _binding(
        CONTROLLER_MANAGER.name, "system:kube-controller-manager", "User", CONTROLLER_MANAGER.name
    ),
    _binding(DESCHEDULER.name, DESCHEDULER.name, "User", DESCHEDULER.name),
    _binding(SIMULATED_NODES.name, SIMULATED_NODES.name, "Group", SIMULATED_NODES.groups[0]),
    *(_binding(r, r, "Group", group) for added in _ADDED for r, group in added.bound.items()),
    _binding("system:basic-user", "system:basic-user", "Group", AUTHENTICATED),
    _binding("system:discovery", "system:discovery", "Group", AUTHENTICATED),
)
