"""Objects that a newer API server might send, and a scheduler that reads them."""

import json
from contextlib import asynccontextmanager

from holdfast.client.handler_dispatcher import HandlerDispatcher
from holdfast.scheduling.framework.events import QueueingStrategy
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.scheduler.event_handlers import EventHandlers
from holdfast.scheduling.scheduler.reservation_handlers import ReservationEventHandlers
from holdfast.scheduling.scheduler.scheduling_queue import SchedulingQueue
from holdfast.state.columns.interner import CPU
from holdfast.testing import a_node, typed
from scheduler.queueing_rules import rules


class InformerCalls:
    """Calls a handler as informers do: errors are logged, not raised."""

    def __init__(self, scene):
        self._handlers = scene

    def __getattr__(self, name):
        handler = getattr(self._handlers, name)
        return lambda *change: HandlerDispatcher(name).dispatch_to(handler, change)


class Scene:
    def __init__(self):
        self.world = World()
        self.queue = SchedulingQueue(
            rules(queueing_strategy=lambda _pod, _event: QueueingStrategy.SKIP)
        )
        handlers = EventHandlers(self.world, self.queue, lambda _name: True, lambda: 0.0)
        self.handlers = InformerCalls(handlers)
        self.rejected = []
        self.reservations = InformerCalls(
            ReservationEventHandlers(
                handlers, lambda pod_info, message: self.rejected.append((pod_info.name, message))
            )
        )
        self.handlers.on_node("added", None, typed(a_node("n", cpu="8")))

    def requested_amount(self, resource=CPU):
        return int(self.world.nodes.requested[resource, 0])


class ChangingTransport:
    """A transport that changes objects named ``odd``, as a newer API server might."""

    def __init__(self, inner, spoil):
        self._inner, self._spoil = inner, spoil
        self.send, self.close = inner.send, inner.close

    @asynccontextmanager
    async def stream(self, request):
        async with self._inner.stream(request) as stream:
            yield self._spoiled(stream)

    def _spoiled(self, stream):
        outer = self

        class Lines:
            status, headers = stream.status, stream.headers

            async def __aiter__(self):
                async for line in stream:
                    if b'"name":"odd"' in line:
                        event = json.loads(line)
                        outer._spoil(event["object"])
                        yield json.dumps(event).encode()
                    else:
                        yield line

        return Lines()


def put(path, value):
    """Return a function that sets one field of an object."""

    def spoil(obj):
        *way, last = path.split(".")
        for step in way:
            obj = obj[int(step)] if step.isdigit() else obj.setdefault(step, {})
        obj[int(last) if last.isdigit() else last] = value

    spoil.__name__ = f"{path}={value}"
    return spoil
