"""Who sent a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
SERVICE_ACCOUNT = "system:serviceaccount:"
UNAUTHENTICATED = "system:unauthenticated"


@dataclass(frozen=True, slots=True)
class User:
    """A name and the groups it belongs to, as authentication found them."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_master(self) -> bool:
        """Whether no rule needs to be asked."""
        return MASTERS in self.groups

    @property
    def is_component(self) -> bool:
        """Whether this is a part of the cluster, such as ``system:kube-controller-manager``."""
        return self.name.startswith("system:") and not self.name.startswith(SERVICE_ACCOUNT)

    @property
    def is_anonymous(self) -> bool:
        """Whether nobody vouches for the sender."""
        return UNAUTHENTICATED in self.groups


ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))
ADMIN = User("kubernetes-admin", (MASTERS, AUTHENTICATED))


def component(name: str, *groups: str) -> User:
    """Name one of our own components as a user, for the in-process transport.

    >>> component("system:kube-scheduler").groups
    ('system:authenticated',)
    """
    return User(name, (*groups, AUTHENTICATED))
