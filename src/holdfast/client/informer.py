"""List and watch one collection, cache it and call event handlers, like client-go's informers.

An Informer recovers from broken watches, compacted history (410), failed requests and restarts of
the server. It resumes from the last resource version it received; if that is too old, it lists
again and reports only the differences. Handlers are called once per addition, update and deletion
of an object, in order; after a relist intermediate versions may be missing.

Handlers are plain functions, called in the order in which they were added. They must not block.
An exception of a handler is logged and counted (``client.handler_dispatcher``).

An object that cannot be read must not end an informer. In the past one malformed annotation or
amount did: then nothing was scheduled any more, not even after a restart, and the scheduler
reported that it was healthy.

``expect`` exists because a component uses the response of its own write before the watch delivers
it. Once, a response that arrived after the deletion of its object put the object back into the
cache, and nothing removed it: the reservation of a preempting pod held its resources until a
restart. So the informer remembers such responses until the watch has passed their version.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from functools import partial
from types import MappingProxyType
from typing import Generic, TypeVar

from holdfast.api.meta import is_later
from holdfast.api.resource import Resource
from holdfast.client.backoff import ReconnectBackoff
from holdfast.client.client import Client, UnreadableObject, WatchEvent
from holdfast.client.handler_dispatcher import UNREADABLE, HandlerDispatcher, ResourceEventHandler
from holdfast.client.informer_cache import InformerCache, identity_of
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import BadRequest, Expired, HoldfastError, Invalid, Unavailable
from holdfast.runtime.repeated_log import Repeats

T = TypeVar("T")
YIELD_AFTER_SECONDS = 0.002
"""The time that event handlers may occupy the event loop before other tasks run."""
PAGE_SIZE = 500
WATCH_SECONDS = (300, 600)
FEW_EXPECTED = 64
_RNG = random.Random()
"""Shared by all informers: seeding one takes 45 us, and a scheduler has 25 informers."""

log = logging.getLogger(__name__)


class Informer(Generic[T]):
    """Cache one collection and call event handlers for its changes.

    ``cache`` maps ``namespace/name`` (the name alone if cluster-scoped) to the last version passed
    to the handlers. An object that does not match its type is logged once and skipped: its last
    readable version stays in the cache, and without one the first readable version is an addition.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        *,
        clock: Clock,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        on_event: ResourceEventHandler[T] | None = None,
        on_unreadable: Callable[[UnreadableObject], None] | None = None,
        transform: Callable[[T], T] | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.resource = resource
        self._client = client
        self._clock = clock
        self._scope = {"namespace": namespace, "labels": labels, "fields": fields}
        self._rng = rng or _RNG
        self._objects: InformerCache[T] = InformerCache()
        self.cache: Mapping[str, T] = MappingProxyType(self._objects.objects)
        self._dispatcher: HandlerDispatcher[T] = HandlerDispatcher(resource.plural)
        if on_event is not None:
            self._dispatcher.add(on_event)
        self._repeats = Repeats(now=clock.monotonic)
        self._reconnect = ReconnectBackoff(clock, self._rng)
        self._resource_version = ""
        self._use_watch_list = True
        self._relisted: dict[str, T] | None = None
        self._expected: dict[str, T] = {}
        """By key: objects of responses. Those whose events have come are forgotten when there are
        many, and before a list: to look for them at each event costs more than they do."""
        self._most_expected = FEW_EXPECTED
        self._unreadable_uids: dict[str, str] = {}
        self._reported: dict[str, str] = {}
        self.on_unreadable = on_unreadable
        """Called once for each object that cannot be read, and again when the reason changes."""
        self.transform = transform
        """Applied to each object before it is cached, to drop fields that are not needed."""
        self._running: asyncio.Task[None] | None = None
        self._stopped = False
        self._synced = False
        self._synced_or_stopped = asyncio.Event()

    def add_handler(self, handler: ResourceEventHandler[T]) -> None:
        """Add a handler and call it with an addition for each object already in the cache."""
        self._dispatcher.add(handler)
        for obj in tuple(self.cache.values()):
            self._dispatcher.dispatch_to(handler, ("added", None, obj))

    def expect(self, stored: T) -> bool:
        """Note an object from a response; return whether its event has not arrived yet.

        If False, handlers already got a later version, or the deletion. If True, they may use the
        response: if the object is deleted before a list shows it, they get its deletion.
        """
        key, _, version = identity_of(stored)
        if not is_later(version, self._resource_version):
            return False
        self._expected[key] = stored
        if len(self._expected) > self._most_expected:
            self._forget_reached()
            self._most_expected = max(FEW_EXPECTED, 2 * len(self._expected))
        return True

    @property
    def error_counts(self) -> Mapping[str, int]:
        """How many objects could not be processed, by category of error."""
        return self._dispatcher.error_counts

    @property
    def has_synced(self) -> bool:
        """Whether the handlers were called for all objects of the first list."""
        return self._synced

    async def wait_for_sync(self) -> None:
        """Wait until the handlers were called for all objects of the first list.

        Raises Unavailable if the informer is stopped earlier, or the exception that ended it.
        """
        await self._synced_or_stopped.wait()
        if self._running is not None and self._running.done() and not self._running.cancelled():
            self._running.result()
        if not self._synced:
            raise Unavailable(
                f"the informer of {self.resource.plural} was stopped before it synced"
            )

    def start(self) -> asyncio.Task[None]:
        """List and watch in the background; the task ends only by ``stop`` or a defect."""
        if self._running is None:
            name = f"informer:{self.resource.plural}"
            self._running = asyncio.create_task(self._list_and_watch_forever(), name=name)
            self._running.add_done_callback(self._ended)
        return self._running

    async def run(self) -> None:
        """List and watch until ``stop`` is called."""
        try:
            await self.start()
        except asyncio.CancelledError:
            me = asyncio.current_task()
            if not self._stopped or (me is not None and me.cancelling()):
                raise

    async def stop(self) -> None:
        """Stop and wait until no handler is called any more; the cache is kept."""
        self._stopped = True
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})
            if self._running.cancelled():
                # Take the exception from the task: its traceback refers to this informer, and
                # both would stay until the garbage collector runs.
                with suppress(asyncio.CancelledError):
                    self._running.result()
        self._synced_or_stopped.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._synced_or_stopped.set()
        if not task.cancelled() and (bug := task.exception()):
            log.critical("%s: the informer has failed", self.resource.plural, exc_info=bug)

    async def _list_and_watch_forever(self) -> None:
        while True:
            self._reconnect.attempt_started()
            failure: HoldfastError | None = None
            try:
                await self._list_and_watch()
            except HoldfastError as failed:
                failure = failed
                self._handle_failure(failed)
            finally:
                self._relisted = None
            await self._clock.sleep(self._reconnect.next_delay(failure))

    async def _list_and_watch(self) -> None:
        if self._resource_version:
            await self._watch(self._resource_version, initial_events=False)
        elif self._use_watch_list:
            await self._watch("", initial_events=True)
        else:
            await self._list()
            await self._watch(self._resource_version, initial_events=False)

    def _handle_failure(self, failure: HoldfastError) -> None:
        """Decide whether the next attempt lists again, and how; log the failure."""
        if not self._resource_version and isinstance(failure, (Invalid, BadRequest)):
            if self._use_watch_list:
                log.debug("%s: streaming lists are not supported; listing", self.resource.plural)
            self._use_watch_list = False
        stale = isinstance(failure, Expired) or any(
            cause.reason == "ResourceVersionTooLarge" for cause in failure.details.causes
        )
        if stale or self._reconnect.should_relist:
            self._forget_reached()
            self._resource_version = ""
        if not isinstance(failure, Expired):
            line = f"{self.resource.plural}: {failure}; trying again"
            self._repeats.log(log, logging.WARNING, line)

    async def _list(self) -> None:
        self._begin_relist()
        assert self._relisted is not None
        token = ""
        while True:
            page = await self._client.list(
                self.resource, **self._scope, limit=PAGE_SIZE, continue_token=token,
                unreadable=self._on_unreadable,
            )  # fmt: skip
            self._relisted.update(
                (identity_of(obj)[0], self._transformed(obj)) for obj in page.items
            )
            token = page.continue_token
            if not token:
                break
            await asyncio.sleep(0)
        await self._finish_relist(page.resource_version)

    async def _watch(self, resource_version: str, *, initial_events: bool) -> None:
        if initial_events:
            self._begin_relist()
        events = self._client.watch(
            self.resource, **self._scope, resource_version=resource_version,
            timeout_seconds=self._rng.randint(*WATCH_SECONDS), initial_events=initial_events,
            unreadable=self._on_unreadable,
        )  # fmt: skip
        time = asyncio.get_running_loop().time
        yield_at = time() + YIELD_AFTER_SECONDS
        async with aclosing(events):
            async for event in events:
                if self._relisted is None:
                    self._apply(event)
                elif event.initial_events_end:
                    await self._finish_relist(event.resource_version)
                else:
                    self._add_to_relist(event)
                if time() > yield_at:
                    await asyncio.sleep(0)
                    yield_at = time() + YIELD_AFTER_SECONDS
        if self._relisted is not None:
            # The server ignored sendInitialEvents: it sent no bookmark after the initial events.
            self._use_watch_list = False

    def _apply(self, event: WatchEvent[T]) -> None:
        if event.type == "DELETED":
            key, uid, _ = identity_of(event.object)
            self._reported.pop(key, None)
            self._dispatcher.dispatch(self._objects.remove(key, uid))
        elif event.type != "BOOKMARK":
            if self._reported:
                self._reported.pop(identity_of(event.object)[0], None)
            self._dispatcher.dispatch(self._objects.put(self._transformed(event.object)))
        self._resource_version = event.resource_version
        self._reconnect.attempt_progressed()

    def _forget_reached(self) -> None:
        """Forget the expected objects whose events have come."""
        self._expected = {
            key: stored
            for key, stored in self._expected.items()
            if is_later(identity_of(stored)[2], self._resource_version)
        }

    def _transformed(self, obj: T) -> T:
        return obj if self.transform is None else self.transform(obj)

    def _begin_relist(self) -> None:
        self._relisted = {}
        self._unreadable_uids = {}

    def _add_to_relist(self, event: WatchEvent[T]) -> None:
        assert self._relisted is not None
        if event.type == "BOOKMARK":
            return
        key = identity_of(event.object)[0]
        self._unreadable_uids.pop(key, None)
        if event.type == "DELETED":
            self._relisted.pop(key, None)
        else:
            self._relisted[key] = self._transformed(event.object)

    async def _finish_relist(self, resource_version: str) -> None:
        assert self._relisted is not None
        time = asyncio.get_running_loop().time
        yield_at = time() + YIELD_AFTER_SECONDS
        self._cache_expected(resource_version)
        for change in self._objects.replace(self._relisted, self._unreadable_uids):
            self._dispatcher.dispatch((change,))
            if time() > yield_at:
                await asyncio.sleep(0)
                yield_at = time() + YIELD_AFTER_SECONDS
        if self._reported:
            self._reported = {k: v for k, v in self._reported.items() if k in self._unreadable_uids}
        self._relisted = None
        self._resource_version = resource_version
        self._synced = True
        self._synced_or_stopped.set()

    def _cache_expected(self, resource_version: str) -> None:
        """Cache expected objects that the list does not show, so that their deletion is found."""
        assert self._relisted is not None
        self._forget_reached()
        for key, stored in self._expected.items():
            _, uid, version = identity_of(stored)
            others = [where.get(key) for where in (self._relisted, self.cache)]
            seen = any(other is not None and identity_of(other)[1] == uid for other in others)
            if not seen and not is_later(version, resource_version):
                self._dispatcher.dispatch(self._objects.remove(key))
                self._objects.objects[key] = stored

    def _on_unreadable(self, broken: UnreadableObject) -> None:
        if self._reported.get(broken.key) != broken.why:
            self._reported[broken.key] = broken.why
            self._dispatcher.error_counts[UNREADABLE] += 1
            log.error("%s; the object is ignored until then", broken.message)
            if self.on_unreadable is not None:
                self._dispatcher.call_safely(broken.key, partial(self.on_unreadable, broken))
        gone = broken.event_type == "DELETED"
        if self._relisted is not None:
            self._relisted.pop(broken.key, None)
            if gone:
                self._unreadable_uids.pop(broken.key, None)
            else:
                self._unreadable_uids[broken.key] = broken.uid
            return
        known = self.cache.get(broken.key)
        if known is not None and (gone or identity_of(known)[1] != broken.uid):
            self._dispatcher.dispatch(self._objects.remove(broken.key))
        self._resource_version = broken.resource_version
        self._reconnect.attempt_progressed()
