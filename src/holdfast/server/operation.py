"""One parsed and authorized request, and the server state that verbs use."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.api.decode import JsonMapping
from holdfast.api.json_fields import map_at, text_at
from holdfast.api.scheduling_rights import GROUP, SchedulingRight
from holdfast.client.transport import Request
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import Details, Forbidden, NotFound
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.server.access.authorization import Authorizer
from holdfast.server.descriptor import KindDescriptor
from holdfast.server.registry import Registry
from holdfast.server.store import ObjectKey, Store, StoredObject
from holdfast.server.store.store import ValueBuilder
from holdfast.server.user import User
from holdfast.server.wire.kubelet_client import KubeletClient
from holdfast.server.wire.negotiation import ResponseFormat
from holdfast.server.wire.query_options import is_dry_run
from holdfast.server.wire.request_info import RequestInfo


class Closable(Protocol):
    """Something that runs until ``close``."""

    def close(self) -> None:
        """Stop it."""
        ...


@dataclass(slots=True)
class ServerContext:
    """The state of a server that all verbs use."""

    store: Store
    clock: Clock
    registry: Registry
    rng: random.Random
    feature_gates: FeatureGates = field(default_factory=FeatureGates)
    watches: set[Closable] = field(default_factory=set)
    kubelet_client: KubeletClient | None = None
    """Connects to nodes; None in a server that cannot."""
    authorizer: Authorizer = field(init=False)

    def __post_init__(self) -> None:
        self.authorizer = Authorizer(self.store)


@dataclass(slots=True)
class Operation:
    """A request for a resource, parsed and authorized."""

    context: ServerContext
    request_info: RequestInfo
    descriptor: KindDescriptor
    request: Request
    user: User
    response_format: ResponseFormat
    warnings: list[str] = field(default_factory=list)
    related_writes: list[tuple[StoredObject, ValueBuilder]] = field(default_factory=list)
    """Updates of other objects that are committed with the object, or not at all."""

    @property
    def key(self) -> ObjectKey:
        """The store key of the object in the path."""
        return self.descriptor.key(self.request_info.namespace, self.request_info.name)

    @property
    def dry_run(self) -> bool:
        """Whether nothing may be stored."""
        return is_dry_run(self.request_info.verb, self.request.query)

    @property
    def details(self) -> Details:
        """The details of errors about the object."""
        r = self.descriptor.resource
        return Details(name=self.request_info.name, group=r.group, kind=r.plural)

    def has_right(self, right: SchedulingRight) -> bool:
        """Return whether the user has a right in the namespace; such rights exist in RBAC only."""
        namespace = self.request_info.namespace
        needed = RequestInfo(right.verb, "", GROUP, namespace=namespace, plural=right.resource)
        return self.context.authorizer.allows(self.user, needed)

    def not_found(self) -> NotFound:
        """Build the 404 for the object in the path."""
        return NotFound(f"{self.key.display_name} not found", self.details)

    def forbidden(self, message: str, obj: JsonMapping | None = None) -> Forbidden:
        """Build the 403 for the object in the path, or for a new object."""
        name = self.request_info.name or text_at(map_at(obj or {}, "metadata"), "name")
        key = self.descriptor.key(self.request_info.namespace, name)
        return Forbidden(f"{key.display_name} is forbidden: {message}", key.details)
