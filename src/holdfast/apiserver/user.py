"""Who sent a request."""

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
    """A name and the groups it belongs to, as authentication found them."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_master(self) -> bool:
        """Whether everything is allowed, whatever the rules say."""
        return MASTERS in self.groups

    @property
    def is_system(self) -> bool:
        """Whether the cluster depends on this user's requests: its admin, nodes and components."""
        return self.name in _SYSTEM_USERS or not _SYSTEM_GROUPS.isdisjoint(self.groups)

    @property
    def is_component(self) -> bool:
        """Whether this is a part of the cluster, such as ``system:kube-controller-manager``."""
        return self.name.startswith("system:") and not self.name.startswith(SERVICE_ACCOUNT)

    @property
    def is_anonymous(self) -> bool:
        """Whether the request came without credentials."""
        return UNAUTHENTICATED in self.groups


ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))
ADMIN = User("kubernetes-admin", (MASTERS, AUTHENTICATED))


def component_user(name: str, *groups: str) -> User:
    """Name one of our own components as a user, for the in-process transport.

    >>> component_user("system:kube-scheduler").groups
    ('system:authenticated',)
    """
    return User(name, (*groups, AUTHENTICATED))
