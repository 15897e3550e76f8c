"""The user of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
SERVICE_ACCOUNT = "system:serviceaccount:"
UNAUTHENTICATED = "system:unauthenticated"
_SYSTEM_GROUPS = frozenset({MASTERS, "system:nodes"})
_SYSTEM_USERS = frozenset({"system:kube-scheduler", "system:kube-controller-manager"})


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
    def is_system(self) -> bool:
        """Whether this is an admin, a node or a component that the cluster depends on."""
        return self.name in _SYSTEM_USERS or not _SYSTEM_GROUPS.isdisjoint(self.groups)

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
