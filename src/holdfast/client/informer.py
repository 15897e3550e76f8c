"""How news arrives: one collection listed, followed, and kept as a local copy.

An Informer survives whatever a network and a server do: cut streams, compacted history (410),
failures, restarts. It resumes from the last version it saw; when that history is gone it lists
again and tells only the difference. So a handler sees every object come, change and go exactly
once each, in order, though intermediate versions may be skipped after a relist.

Handlers are plain functions called in the order they were added. They must not block; what one
raises is logged and counted, and the next object is told (``client.telling``).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from functools import partial
from types import MappingProxyType
from typing import Generic, TypeVar

from holdfast.api.resource import Resource
from holdfast.client.backoff import ReconnectBackoff
from holdfast.client.client import Client, UnreadableObject, WatchEvent
from holdfast.client.handler_dispatcher import UNREADABLE, HandlerDispatcher, ResourceEventHandler
from holdfast.client.informer_cache import InformerCache, ObjectChange, identity_of
from holdfast.clock import Clock
from holdfast.errors import BadRequest, Expired, HoldfastError, Invalid, Unavailable
from holdfast.repeated_log import Repeats

T = TypeVar("T")
YIELD_AFTER_SECONDS = 0.002
PAGE_SIZE = 500
WATCH_SECONDS = (300, 600)

log = logging.getLogger(__name__)


class Informer(Generic[T]):
    """Keep a copy of one collection and tell handlers what changes.

    ``cache`` maps ``namespace/name`` (or the bare name) to the last version told. An object that
    cannot be read is logged once and skipped: the last readable version of it stays, and if
    there was none, the first readable one counts as added.
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
        self._rng = rng or random.Random()
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
        self._unreadable_uids: dict[str, str] = {}
        self._reported: dict[str, str] = {}
        self.on_unreadable = on_unreadable
        """Told once of each object that cannot be read, and again when the reason changes."""
        self.transform = transform
        """Makes of each object what is kept and told of it, for one who need not keep it all."""
        self._running: asyncio.Task[None] | None = None
        self._stopped = False
        self._synced = False
        self._synced_or_stopped = asyncio.Event()

    def add_handler(self, handler: ResourceEventHandler[T]) -> None:
        """Tell ``handler`` every change from now on; what is already here it is told as added."""
        self._dispatcher.add(handler)
        for obj in tuple(self.cache.values()):
            self._dispatcher.dispatch_to(handler, ("added", None, obj))

    @property
    def error_counts(self) -> Mapping[str, int]:
        """How often an object could not be taken in, by sort of trouble."""
        return self._dispatcher.error_counts

    @property
    def has_synced(self) -> bool:
        """Everything that existed at the start has been told."""
        return self._synced

    async def wait_for_sync(self) -> None:
        """Wait until everything that existed at the start has been told.

        Raises Unavailable if the informer is stopped before, or what ended it.
        """
        await self._synced_or_stopped.wait()
        if self._running is not None and self._running.done() and not self._running.cancelled():
            self._running.result()
        if not self._synced:
            raise Unavailable(
                f"the informer of {self.resource.plural} was stopped before it synced"
            )

    def start(self) -> asyncio.Task[None]:
        """Follow the collection in the background; the task ends only by ``stop`` or a bug."""
        if self._running is None:
            name = f"informer:{self.resource.plural}"
            self._running = asyncio.create_task(self._list_and_watch_forever(), name=name)
            self._running.add_done_callback(self._ended)
        return self._running

    async def run(self) -> None:
        """Follow the collection until ``stop`` is called."""
        try:
            await self.start()
        except asyncio.CancelledError:
            me = asyncio.current_task()
            if not self._stopped or (me is not None and me.cancelling()):
                raise

    async def stop(self) -> None:
        """Hang up and wait until nothing more is told; the cache stays as it is."""
        self._stopped = True
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})
        self._synced_or_stopped.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._synced_or_stopped.set()
        if not task.cancelled() and (bug := task.exception()):
            log.critical("%s: no longer followed", self.resource.plural, exc_info=bug)

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
            await self._clock.sleep(self._reconnect.after(failure))

    async def _list_and_watch(self) -> None:
        if self._resource_version:
            await self._watch(self._resource_version, initial_events=False)
        elif self._use_watch_list:
            await self._watch("", initial_events=True)
        else:
            await self._list()
            await self._watch(self._resource_version, initial_events=False)

    def _handle_failure(self, failure: HoldfastError) -> None:
        """Decide what a failure means for the next attempt."""
        if not self._resource_version and isinstance(failure, (Invalid, BadRequest)):
            if self._use_watch_list:
                log.debug("%s: no streaming lists here, using plain ones", self.resource.plural)
            self._use_watch_list = False
        stale = isinstance(failure, Expired) or any(
            cause.reason == "ResourceVersionTooLarge" for cause in failure.details.causes
        )
        if stale or self._reconnect.should_relist:
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
            # It sent no end mark: a server that does not know the parameter.
            self._use_watch_list = False

    def _apply(self, event: WatchEvent[T]) -> None:
        if event.type == "DELETED":
            key, uid, _ = identity_of(event.object)
            self._reported.pop(key, None)
            self._dispatch(self._objects.remove(key, uid))
        elif event.type != "BOOKMARK":
            if self._reported:
                self._reported.pop(identity_of(event.object)[0], None)
            self._dispatch(self._objects.put(self._transformed(event.object)))
        self._resource_version = event.resource_version
        self._reconnect.attempt_progressed()

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
        for change in self._objects.replace(self._relisted, self._unreadable_uids):
            self._dispatch((change,))
            if time() > yield_at:
                await asyncio.sleep(0)
                yield_at = time() + YIELD_AFTER_SECONDS
        if self._reported:
            self._reported = {k: v for k, v in self._reported.items() if k in self._unreadable_uids}
        self._relisted = None
        self._resource_version = resource_version
        self._synced = True
        self._synced_or_stopped.set()

    def _on_unreadable(self, broken: UnreadableObject) -> None:
        if self._reported.get(broken.key) != broken.why:
            self._reported[broken.key] = broken.why
            self._dispatcher.error_counts[UNREADABLE] += 1
            log.error("%s; going on without it", broken.message)
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
            self._dispatch(self._objects.remove(broken.key))
        self._resource_version = broken.resource_version
        self._reconnect.attempt_progressed()

    def _dispatch(self, changes: Iterable[ObjectChange[T]]) -> None:
        for change in changes:
            self._dispatcher.dispatch(change)
