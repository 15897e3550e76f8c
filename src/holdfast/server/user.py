"""The user of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.api.node_names import NODE_USER

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
SERVICE_ACCOUNT = "system:serviceaccount:"
UNAUTHENTICATED = "system:unauthenticated"
NODES = "system:nodes"
_SYSTEM_GROUPS = frozenset({MASTERS, NODES})


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated user: its name and groups."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_master(self) -> bool:
        """Whether the user is in system:masters, which may do everything."""
        return MASTERS in self.groups

    @property
    def is_control_plane(self) -> bool:
        """Whether this is an admin or a component of the embedded cluster."""
        return self.name in COMPONENTS or self.is_master

    @property
    def is_system(self) -> bool:
        """Whether this is an admin, a node or a component that the cluster depends on."""
        return self.name in COMPONENTS or not _SYSTEM_GROUPS.isdisjoint(self.groups)

    @property
    def node_name(self) -> str | None:
        """The name of the node that this user belongs to; None for other users.

        >>> User("system:node:n1", ("system:nodes",)).node_name
        'n1'
        """
        if NODES not in self.groups or not self.name.startswith(NODE_USER):
            return None
        return self.name[len(NODE_USER) :]

    @property
    def is_component(self) -> bool:
        """Whether this is a component of the cluster, such as ``system:kube-scheduler``."""
        return self.name.startswith("system:") and not self.name.startswith(SERVICE_ACCOUNT)

    @property
    def is_anonymous(self) -> bool:
        """Whether the request came without credentials."""
        return UNAUTHENTICATED in self.groups


ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))
ADMIN = User("kubernetes-admin", (MASTERS, AUTHENTICATED))


def component_user(name: str, *groups: str) -> User:
    """Return the user of one of our components, for the in-process transport.

    >>> component_user("system:kube-scheduler").groups
    ('system:authenticated',)
    """
    return User(name, (*groups, AUTHENTICATED))


SCHEDULER = component_user("system:kube-scheduler")
CONTROLLER_MANAGER = component_user("system:kube-controller-manager")
SIMULATED_NODES = component_user(
    "system:holdfast:simulated-nodes", "system:holdfast:simulated-nodes"
)
"""The user of all simulated nodes: it reads for all nodes and writes as the node that it names."""
DESCHEDULER = component_user("system:holdfast:descheduler")
COMPONENTS = {
    user.name: user for user in (SCHEDULER, CONTROLLER_MANAGER, SIMULATED_NODES, DESCHEDULER)
}
"""The users of the components of the embedded cluster, by name."""


def node_user(node: str) -> User:
    """Return the user of a node."""
    return component_user(NODE_USER + node, NODES)


def own_user(name: str) -> User:
    """Return the user of a component or of a node, given its name."""
    return node_user(name[len(NODE_USER) :]) if name.startswith(NODE_USER) else COMPONENTS[name]


def certificate_name(user: str) -> str:
    """Return the name of the files with the certificate of a component.

    >>> certificate_name("system:kube-scheduler")
    'kube-scheduler'
    """
    return user.rpartition(":")[2]
