"""The API server: handles requests, independent of the transport."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from holdfast.client.transport import Request
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import BadRequest, HoldfastError, NotAllowed, Unavailable
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.server.access.authorization import with_selectors
from holdfast.server.access.impersonation import impersonate
from holdfast.server.bootstrap_objects import create_bootstrap_objects
from holdfast.server.crd_registration import CrdRegistration
from holdfast.server.descriptor import KindDescriptor
from holdfast.server.event_expiry import EventExpiry
from holdfast.server.kinds import BUILT_IN
from holdfast.server.kinds.admission.node_restriction import NODE_RESTRICTION
from holdfast.server.kinds.admission.resource_quota import QUOTA_ADMISSION
from holdfast.server.metrics import RequestMetrics
from holdfast.server.non_resource_paths import NonResourcePaths
from holdfast.server.operation import Operation, ServerContext
from holdfast.server.registry import Registry
from holdfast.server.schema.stored_objects import repair_metadata
from holdfast.server.store import Store
from holdfast.server.tables import check_include_object
from holdfast.server.user import User
from holdfast.server.verbs.creating import create
from holdfast.server.verbs.deletion import delete, delete_collection
from holdfast.server.verbs.patching import patch
from holdfast.server.verbs.reading import get, list_objects
from holdfast.server.verbs.subresources import handle_subresource
from holdfast.server.verbs.updating import update
from holdfast.server.verbs.watch import watch
from holdfast.server.wire.kubelet_client import KubeletClient
from holdfast.server.wire.negotiation import negotiate_response
from holdfast.server.wire.request_info import RequestInfo, parse_request_info
from holdfast.server.wire.responses import (
    ServerResponse,
    error_response,
    text_response,
    with_warnings,
)

_log = logging.getLogger(__name__)
ReadBody = Callable[[], Awaitable[bytes]]
"""Read the request body from the transport."""
Bootstrap = Callable[["ApiServer"], Awaitable[None]]
"""Create the objects that every cluster starts with."""


async def _get(op: Operation) -> ServerResponse:
    return get(op)


async def _watch(op: Operation) -> ServerResponse:
    return watch(op)


_VERBS: dict[str, Callable[[Operation], Awaitable[ServerResponse]]] = {
    "get": _get,
    "list": list_objects,
    "watch": _watch,
    "create": create,
    "update": update,
    "patch": patch,
    "delete": delete,
    "deletecollection": delete_collection,
}


class ApiServer:
    """Parses, authorizes and handles requests."""

    def __init__(self, context: ServerContext) -> None:
        self.context = context
        self.metrics = RequestMetrics(context)
        self._crds = CrdRegistration(context)
        self._paths = NonResourcePaths(context, self._crds, self.metrics)
        self._running = False
        self._expiry: asyncio.Task[None] | None = None

    @classmethod
    def create(
        cls,
        store: Store,
        clock: Clock,
        *,
        rng: random.Random | None = None,
        kinds: Iterable[KindDescriptor] = BUILT_IN,
        feature_gates: FeatureGates | None = None,
        kubelet_client: KubeletClient | None = None,
    ) -> ApiServer:
        """Create a server on an open store; a seeded ``rng`` makes generated names repeatable.

        Kinds of features that are off are not served; their stored objects stay. Without a
        ``kubelet_client`` the server connects to no node.
        """
        gates = feature_gates or FeatureGates()
        served = [k for k in kinds if k.feature is None or gates.enabled(k.feature)]
        registry = Registry.of(served, (NODE_RESTRICTION, QUOTA_ADMISSION))
        return cls(
            ServerContext(
                store, clock, registry, rng or random.Random(), gates, kubelet_client=kubelet_client
            )
        )

    async def start(self, bootstrap: Bootstrap = create_bootstrap_objects) -> None:
        """Register stored CRDs, create the bootstrap objects, accept requests.

        Another ``bootstrap`` may write these objects to the store without requests.
        """
        await repair_metadata(self.context.store)
        await self._crds.sync()
        self._running = True
        try:
            await bootstrap(self)
            await self._crds.sync()
        except BaseException:
            self._running = False
            raise
        self._expiry = asyncio.create_task(EventExpiry(self.context).run())

    async def stop(self) -> None:
        """Close all watches and connections to nodes, and reject further requests."""
        self._running = False
        if self._expiry is not None:
            self._expiry.cancel()
            await asyncio.wait([self._expiry])
        for open_watch in tuple(self.context.watches):
            open_watch.close()
        if self.context.kubelet_client is not None:
            await self.context.kubelet_client.close()

    async def handle(
        self, request: Request, user: User, read_body: ReadBody | None = None
    ) -> ServerResponse:
        """Handle one request; errors are returned as responses.

        ``read_body`` is called after authorization; without it the request contains its body.
        """
        started = self.context.clock.monotonic()
        request_info: RequestInfo | None = None
        try:
            parsed = parse_request_info(request.method, request.path, request.query)
            user = self._authorize(parsed, request, user)
            request_info = parsed
            response = await self._respond(request_info, request, user, read_body)
        except HoldfastError as error:
            response = error_response(error)
        except RecursionError:
            response = error_response(BadRequest("the object is nested too deep"))
        except Exception as broken:
            _log.exception("%s %s failed", request.method, request.path)
            response = error_response(HoldfastError(f"Internal error occurred: {broken}"))
        self.metrics.count(request_info, response.status, self.context.clock.monotonic() - started)
        return response

    def _authorize(self, request_info: RequestInfo, request: Request, user: User) -> User:
        """Raise Forbidden or Unauthorized; return the user, or the impersonated user."""
        if not self._running:
            raise Unavailable("the server is not ready to serve requests")
        request_info = with_selectors(request_info, request)
        user = impersonate(self.context.authorizer, user, request, request_info)
        self.context.authorizer.check(user, request_info)
        return user

    async def _respond(
        self, request_info: RequestInfo, request: Request, user: User, read_body: ReadBody | None
    ) -> ServerResponse:
        if not request_info.is_resource:
            return self._paths.respond(request_info, request)
        if not self.context.registry.serves(request_info.group, request_info.version):
            return text_response("404 page not found\n", 404)
        descriptor = self.context.registry.find(
            request_info.group, request_info.version, request_info.plural
        )
        if _has_unexpected_namespace(request_info, descriptor):
            return text_response("404 page not found\n", 404)
        response_format = negotiate_response(request.headers.get("accept", ""))
        if response_format.is_table:  # reject a wrong option before anything is stored
            check_include_object(request.query.get("includeObject", ""))
        if read_body is not None:
            request = msgspec.structs.replace(request, body=await read_body())
        op = Operation(self.context, request_info, descriptor, request, user, response_format)
        try:
            response = await self._run_verb(op)
        except HoldfastError as error:
            response = with_warnings(error_response(error), op.warnings)
        return with_warnings(response, (descriptor.deprecation,))

    async def _run_verb(self, op: Operation) -> ServerResponse:
        request_info, descriptor = op.request_info, op.descriptor
        _check_scope(request_info, descriptor)
        if request_info.subresource:
            return await handle_subresource(op)
        if descriptor.handler is not None:
            return await descriptor.handler(op)
        if request_info.verb == "create" and request_info.name:
            raise NotAllowed("the server does not allow this method on the requested resource")
        if request_info.verb not in descriptor.resource.verbs:
            raise NotAllowed("the server does not allow this method on the requested resource")
        if self._crds.may_change_resources(op):
            return await self._crds.run_verb(op, _VERBS[request_info.verb])
        return await _VERBS[request_info.verb](op)


def _has_unexpected_namespace(request_info: RequestInfo, descriptor: KindDescriptor) -> bool:
    """Return whether the path has a namespace although the resource is cluster-scoped.

    The request was authorized for that namespace only, which is not enough.
    """
    if descriptor.resource.namespaced or not request_info.namespace:
        return False
    return not descriptor.is_namespace or request_info.name != request_info.namespace


def _check_scope(request_info: RequestInfo, descriptor: KindDescriptor) -> None:
    """Raise BadRequest if a required namespace is missing."""
    collection_verbs = ("list", "watch", "deletecollection")
    if (
        descriptor.resource.namespaced
        and not request_info.namespace
        and request_info.verb not in collection_verbs
    ):
        raise BadRequest("an empty namespace may not be set during creation")
