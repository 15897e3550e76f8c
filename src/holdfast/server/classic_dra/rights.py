"""The rights of users, components and drivers to the objects of classic DRA."""

from __future__ import annotations

from holdfast.api.classic_dra.names import KEP_GROUP, OWN_GROUP
from holdfast.api.decode import JsonObject
from holdfast.server.added_group import AddedRights, policy_rule
from holdfast.server.user import AUTHENTICATED, SIMULATED_NODES

_READ = ["get", "list", "watch"]
_CHANGES = ["patch", "update"]
_CLASS_VIEWER = "holdfast:classic-dra-class-viewer"


def _driver() -> list[JsonObject]:
    """Return the rights of the controller of a classic driver, but for its own parameters."""
    return [
        policy_rule(KEP_GROUP, ["podschedulings", "resourceclasses"], _READ),
        policy_rule(KEP_GROUP, ["resourceclaims"], [*_READ, "patch"]),
        policy_rule(KEP_GROUP, ["podschedulings/status", "resourceclaims/status"], ["patch"]),
        policy_rule(OWN_GROUP, ["nodeinventories"], [*_READ, "create", "patch"]),
        policy_rule(OWN_GROUP, ["nodeinventories/status"], ["patch"]),
        policy_rule("", ["namespaces", "nodes", "pods"], ["get"]),
        policy_rule("", ["events"], ["create", "patch"]),
    ]


def _driver_lease() -> list[JsonObject]:
    """Return the rights for leader election, to be bound in the driver's namespace only."""
    return [policy_rule("coordination.k8s.io", ["leases"], ["create", "get", "update"])]


def _class_viewer() -> list[JsonObject]:
    """Return the right of all users to the classes that claims name; they are in no namespace."""
    return [policy_rule(KEP_GROUP, ["resourceclasses"], _READ)]


RIGHTS = AddedRights(
    workloads=((KEP_GROUP, ("resourceclaims",)),),
    read_only=((KEP_GROUP, ("podschedulings",)),),
    rules={
        "system:kube-scheduler": (
            policy_rule(KEP_GROUP, ["resourceclaims", "resourceclasses"], _READ),
            policy_rule(KEP_GROUP, ["resourceclaims/status"], _CHANGES),
            policy_rule(KEP_GROUP, ["podschedulings"], [*_READ, *_CHANGES, "create", "delete"]),
        ),
        "system:kube-controller-manager": (policy_rule(KEP_GROUP, ["resourceclaims"], ["create"]),),
        "system:node": (
            policy_rule(KEP_GROUP, ["resourceclaims"], ["get"]),
            policy_rule(OWN_GROUP, ["nodeinventories"], ["get", "create", "update", "patch"]),
        ),
        SIMULATED_NODES.name: (
            policy_rule(KEP_GROUP, ["resourceclaims"], ["get", "list", "watch"]),
        ),
    },
    roles={
        "holdfast:classic-dra-driver": _driver(),
        "holdfast:classic-dra-driver-lease": _driver_lease(),
        _CLASS_VIEWER: _class_viewer(),
    },
    bound={_CLASS_VIEWER: AUTHENTICATED},
)
