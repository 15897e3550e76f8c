"""The heart of the API server: one request in, one answer out, no wire in sight."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from holdfast.apiserver.access.authorization import impersonated, named
from holdfast.apiserver.bootstrap import install
from holdfast.apiserver.descriptor import Served
from holdfast.apiserver.event_expiry import EventExpiry
from holdfast.apiserver.kinds import BUILT_IN
from holdfast.apiserver.kinds.definitions import Definitions
from holdfast.apiserver.metrics import RequestMetrics
from holdfast.apiserver.operation import Context, Operation
from holdfast.apiserver.paths import Paths
from holdfast.apiserver.registry import Registry
from holdfast.apiserver.schema.stored_objects import mend_identities
from holdfast.apiserver.tables import check_include
from holdfast.apiserver.user import User
from holdfast.apiserver.verbs.creating import create
from holdfast.apiserver.verbs.deletion import delete, delete_collection
from holdfast.apiserver.verbs.patching import patch
from holdfast.apiserver.verbs.reading import get, list_objects
from holdfast.apiserver.verbs.subresources import answer_subresource
from holdfast.apiserver.verbs.updating import update
from holdfast.apiserver.verbs.watch import watch
from holdfast.apiserver.wire.answers import StreamResponse, answer_text, failure
from holdfast.apiserver.wire.negotiation import choose_form
from holdfast.apiserver.wire.routing import RequestInfo, read_call
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

    def __init__(self, context: Context) -> None:
        self.context = context
        self.metrics = RequestMetrics(context)
        self._definitions = Definitions(context)
        self._paths = Paths(context, self._definitions, self.metrics)
        self._running = False
        self._expiry: asyncio.Task[None] | None = None

    @classmethod
    def create(
        cls,
        store: Store,
        clock: Clock,
        *,
        rng: random.Random | None = None,
        kinds: Iterable[Served] = BUILT_IN,
    ) -> ApiServer:
        """Build a server over an open store; ``rng`` makes generated names repeatable."""
        return cls(Context(store, clock, Registry.of(kinds), rng or random.Random()))

    async def start(self) -> None:
        """Serve what is stored, install what every cluster has, be ready."""
        await mend_identities(self.context.store)
        await self._definitions.settle()
        self._running = True
        try:
            await install(self)
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
        call: RequestInfo | None = None
        try:
            asked = read_call(request.method, request.path, request.query)
            user = self._authorize(asked, request, user)
            call = asked
            answer = await self._answer(call, request, user, read_body)
        except HoldfastError as error:
            answer = failure(error)
        except RecursionError:
            answer = failure(BadRequest("the object is nested too deep"))
        except Exception as broken:
            _log.exception("%s %s failed", request.method, request.path)
            answer = failure(HoldfastError(f"Internal error occurred: {broken}"))
        self.metrics.count(call, answer.status, self.context.clock.monotonic() - started)
        return answer

    def _authorize(self, call: RequestInfo, request: Request, user: User) -> User:
        """Refuse what a user may not do, by the header alone; return whom the user acts as."""
        if not self._running:
            raise Unavailable("the server is not ready to serve requests")
        user = impersonated(self.context.authorizer, user, request)
        self.context.authorizer.check(user, named(call, request))
        return user

    async def _answer(
        self, call: RequestInfo, request: Request, user: User, read_body: ReadBody | None
    ) -> Answer:
        if not call.is_resource:
            return self._paths.answer(call, request)
        if not self.context.registry.serves(call.group, call.version):
            return answer_text("404 page not found\n", 404)
        served = self.context.registry.find(call.group, call.version, call.plural)
        if _is_misplaced(call, served):
            return answer_text("404 page not found\n", 404)
        form = choose_form(request.headers.get("accept", ""))
        if form.is_table:  # an option that is wrong is refused before anything is stored or sent
            check_include(request.query.get("includeObject", ""))
        if read_body is not None:
            request = replace(request, body=await read_body())
        op = Operation(self.context, call, served, request, user, form)
        return await self._operate(op)

    async def _operate(self, op: Operation) -> Answer:
        call, served = op.call, op.served
        _check_scope(call, served)
        if call.subresource:
            return await answer_subresource(op)
        if served.answered_by is not None:
            return await served.answered_by(op)
        if call.verb == "create" and call.name:
            raise NotAllowed("the server does not allow this method on the requested resource")
        if call.verb not in served.resource.verbs:
            raise NotAllowed("the server does not allow this method on the requested resource")
        if self._definitions.concerns(op):
            return await self._definitions.operate(op, _VERBS[call.verb])
        return await _VERBS[call.verb](op)


def _is_misplaced(call: RequestInfo, served: Served) -> bool:
    """Tell whether the path puts into a namespace what lives in none.

    The roles of that namespace have been asked, and they have no say over the whole cluster.
    """
    if served.resource.namespaced or not call.namespace:
        return False
    return not served.names_namespaces or call.name != call.namespace


def _check_scope(call: RequestInfo, served: Served) -> None:
    """Refuse a missing namespace where one is needed."""
    reads = ("list", "watch", "deletecollection")
    if served.resource.namespaced and not call.namespace and call.verb not in reads:
        raise BadRequest("an empty namespace may not be set during creation")
