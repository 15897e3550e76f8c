"""The heart of the API server: one request in, one answer out, no wire in sight."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from holdfast.apiserver.access.authorization import impersonate, with_selected_name
from holdfast.apiserver.bootstrap_objects import create_bootstrap_objects
from holdfast.apiserver.crd_registration import CrdRegistration
from holdfast.apiserver.descriptor import KindDescriptor
from holdfast.apiserver.event_expiry import EventExpiry
from holdfast.apiserver.kinds import BUILT_IN
from holdfast.apiserver.metrics import RequestMetrics
from holdfast.apiserver.non_resource_paths import NonResourcePaths
from holdfast.apiserver.operation import Operation, ServerContext
from holdfast.apiserver.registry import Registry
from holdfast.apiserver.schema.stored_objects import repair_metadata
from holdfast.apiserver.tables import check_include_object
from holdfast.apiserver.user import User
from holdfast.apiserver.verbs.creating import create
from holdfast.apiserver.verbs.deletion import delete, delete_collection
from holdfast.apiserver.verbs.patching import patch
from holdfast.apiserver.verbs.reading import get, list_objects
from holdfast.apiserver.verbs.subresources import handle_subresource
from holdfast.apiserver.verbs.updating import update
from holdfast.apiserver.verbs.watch import watch
from holdfast.apiserver.wire.negotiation import negotiate_response
from holdfast.apiserver.wire.request_info import RequestInfo, parse_request_info
from holdfast.apiserver.wire.responses import StreamResponse, error_response, text_response
from holdfast.client.transport import Request, Response
from holdfast.clock import Clock
from holdfast.errors import BadRequest, HoldfastError, NotAllowed, Unavailable
from holdfast.store import Store

_log = logging.getLogger(__name__)
Answer = Response | StreamResponse
ReadBody = Callable[[], Awaitable[bytes]]
"""Read the body of a request from the wire."""


async def _get(op: Operation) -> Answer:
    return get(op)


async def _list(op: Operation) -> Answer:
    return list_objects(op)


async def _watch(op: Operation) -> Answer:
    return watch(op)


_VERBS: dict[str, Callable[[Operation], Awaitable[Answer]]] = {
    "get": _get,
    "list": _list,
    "watch": _watch,
    "create": create,
    "update": update,
    "patch": patch,
    "delete": delete,
    "deletecollection": delete_collection,
}


class ApiServer:
    """Answer requests from the store: understand, authorize, decide, keep."""

    def __init__(self, context: ServerContext) -> None:
        self.context = context
        self.metrics = RequestMetrics(context)
        self._definitions = CrdRegistration(context)
        self._paths = NonResourcePaths(context, self._definitions, self.metrics)
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
    ) -> ApiServer:
        """Build a server over an open store; ``rng`` makes generated names repeatable."""
        return cls(ServerContext(store, clock, Registry.of(kinds), rng or random.Random()))

    async def start(self) -> None:
        """Serve what is stored, install what every cluster has, be ready."""
        await repair_metadata(self.context.store)
        await self._definitions.sync()
        self._running = True
        try:
            await create_bootstrap_objects(self)
        except BaseException:
            self._running = False
            raise
        self._expiry = asyncio.create_task(EventExpiry(self.context).run())

    async def stop(self) -> None:
        """End all watches and refuse what comes after."""
        self._running = False
        if self._expiry is not None:
            self._expiry.cancel()
            await asyncio.wait([self._expiry])
        for watching in tuple(self.context.watches):
            watching.close()

    async def handle(
        self, request: Request, user: User, read_body: ReadBody | None = None
    ) -> Answer:
        """Answer one request of one user; an error is an answer too.

        ``read_body`` is called once the request is authorized; without it the request is complete.
        """
        started = self.context.clock.monotonic()
        request_info: RequestInfo | None = None
        try:
            asked = parse_request_info(request.method, request.path, request.query)
            user = self._authorize(asked, request, user)
            request_info = asked
            answer = await self._answer(request_info, request, user, read_body)
        except HoldfastError as error:
            answer = error_response(error)
        except RecursionError:
            answer = error_response(BadRequest("the object is nested too deep"))
        except Exception as broken:
            _log.exception("%s %s failed", request.method, request.path)
            answer = error_response(HoldfastError(f"Internal error occurred: {broken}"))
        self.metrics.count(request_info, answer.status, self.context.clock.monotonic() - started)
        return answer

    def _authorize(self, request_info: RequestInfo, request: Request, user: User) -> User:
        """Refuse what a user may not do, by the header alone; return whom the user acts as."""
        if not self._running:
            raise Unavailable("the server is not ready to serve requests")
        user = impersonate(self.context.authorizer, user, request)
        self.context.authorizer.check(user, with_selected_name(request_info, request))
        return user

    async def _answer(
        self, request_info: RequestInfo, request: Request, user: User, read_body: ReadBody | None
    ) -> Answer:
        if not request_info.is_resource:
            return self._paths.respond(request_info, request)
        if not self.context.registry.serves(request_info.group, request_info.version):
            return text_response("404 page not found\n", 404)
        descriptor = self.context.registry.find(
            request_info.group, request_info.version, request_info.plural
        )
        if _is_misplaced(request_info, descriptor):
            return text_response("404 page not found\n", 404)
        response_format = negotiate_response(request.headers.get("accept", ""))
        if (
            response_format.is_table
        ):  # an option that is wrong is refused before anything is stored or sent
            check_include_object(request.query.get("includeObject", ""))
        if read_body is not None:
            request = replace(request, body=await read_body())
        op = Operation(self.context, request_info, descriptor, request, user, response_format)
        return await self._operate(op)

    async def _operate(self, op: Operation) -> Answer:
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
        if self._definitions.may_change_resources(op):
            return await self._definitions.run_verb(op, _VERBS[request_info.verb])
        return await _VERBS[request_info.verb](op)


def _is_misplaced(request_info: RequestInfo, descriptor: KindDescriptor) -> bool:
    """Tell whether the path puts into a namespace what lives in none.

    The roles of that namespace have been asked, and they have no say over the whole cluster.
    """
    if descriptor.resource.namespaced or not request_info.namespace:
        return False
    return not descriptor.is_namespace or request_info.name != request_info.namespace


def _check_scope(request_info: RequestInfo, descriptor: KindDescriptor) -> None:
    """Refuse a missing namespace where one is needed."""
    reads = ("list", "watch", "deletecollection")
    if (
        descriptor.resource.namespaced
        and not request_info.namespace
        and request_info.verb not in reads
    ):
        raise BadRequest("an empty namespace may not be set during creation")
