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
from holdfast.client.backoff import Patience
from holdfast.client.client import Client, Unreadable, WatchEvent
from holdfast.client.replica import ObjectChange, Replica, identity
from holdfast.client.telling import UNREADABLE, ResourceEventHandler, Teller
from holdfast.clock import Clock
from holdfast.errors import BadRequest, Expired, HoldfastError, Invalid, Unavailable
from holdfast.repeated_log import Repeats

T = TypeVar("T")
TURN_SECONDS = 0.002
PAGE = 500
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
        on_unreadable: Callable[[Unreadable], None] | None = None,
        transform: Callable[[T], T] | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.resource = resource
        self._client = client
        self._clock = clock
        self._scope = {"namespace": namespace, "labels": labels, "fields": fields}
        self._rng = rng or random.Random()
        self._replica: Replica[T] = Replica()
        self.cache: Mapping[str, T] = MappingProxyType(self._replica.objects)
        self._teller: Teller[T] = Teller(resource.plural)
        if on_event is not None:
            self._teller.add(on_event)
        self._repeats = Repeats(now=clock.monotonic)
        self._patience = Patience(clock, self._rng)
        self._version = ""
        self._streams_lists = True
        self._staged: dict[str, T] | None = None
        self._doubtful: dict[str, str] = {}
        self._complaints: dict[str, str] = {}
        self.on_unreadable = on_unreadable
        """Told once of each object that cannot be read, and again when the reason changes."""
        self.transform = transform
        """Makes of each object what is kept and told of it, for one who need not keep it all."""
        self._running: asyncio.Task[None] | None = None
        self._stopped = False
        self._told_all = False
        self._settled = asyncio.Event()

    def add_handler(self, handler: ResourceEventHandler[T]) -> None:
        """Tell ``handler`` every change from now on; what is already here it is told as added."""
        self._teller.add(handler)
        for obj in tuple(self.cache.values()):
            self._teller.tell_one(handler, ("added", None, obj))

    @property
    def troubles(self) -> Mapping[str, int]:
        """How often an object could not be taken in, by sort of trouble."""
        return self._teller.troubles

    @property
    def has_synced(self) -> bool:
        """Everything that existed at the start has been told."""
        return self._told_all

    async def synced(self) -> None:
        """Wait until everything that existed at the start has been told.

        Raises Unavailable if the informer is stopped before, or what ended it.
        """
        await self._settled.wait()
        if self._running is not None and self._running.done() and not self._running.cancelled():
            self._running.result()
        if not self._told_all:
            raise Unavailable(
                f"the informer of {self.resource.plural} was stopped before it synced"
            )

    def start(self) -> asyncio.Task[None]:
        """Follow the collection in the background; the task ends only by ``stop`` or a bug."""
        if self._running is None:
            name = f"informer:{self.resource.plural}"
            self._running = asyncio.create_task(self._follow_forever(), name=name)
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
        self._settled.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._settled.set()
        if not task.cancelled() and (bug := task.exception()):
            log.critical("%s: no longer followed", self.resource.plural, exc_info=bug)

    async def _follow_forever(self) -> None:
        while True:
            self._patience.begin()
            failure: HoldfastError | None = None
            try:
                await self._follow()
            except HoldfastError as failed:
                failure = failed
                self._learn_from(failed)
            finally:
                self._staged = None
            await self._clock.sleep(self._patience.after(failure))

    async def _follow(self) -> None:
        if self._version:
            await self._watch(self._version, initial_events=False)
        elif self._streams_lists:
            await self._watch("", initial_events=True)
        else:
            await self._list()
            await self._watch(self._version, initial_events=False)

    def _learn_from(self, failure: HoldfastError) -> None:
        """Decide what a failure means for the next attempt."""
        if not self._version and isinstance(failure, (Invalid, BadRequest)):
            if self._streams_lists:
                log.debug("%s: no streaming lists here, using plain ones", self.resource.plural)
            self._streams_lists = False
        stale = isinstance(failure, Expired) or any(
            cause.reason == "ResourceVersionTooLarge" for cause in failure.details.causes
        )
        if stale or self._patience.exhausted:
            self._version = ""
        if not isinstance(failure, Expired):
            line = f"{self.resource.plural}: {failure}; trying again"
            self._repeats.log(log, logging.WARNING, line)

    async def _list(self) -> None:
        self._begin_staging()
        assert self._staged is not None
        token = ""
        while True:
            page = await self._client.list(
                self.resource, **self._scope, limit=PAGE, continue_token=token,
                unreadable=self._on_unreadable,
            )  # fmt: skip
            self._staged.update((identity(obj)[0], self._kept(obj)) for obj in page.items)
            token = page.continue_token
            if not token:
                break
            await asyncio.sleep(0)
        await self._finish_staging(page.resource_version)

    async def _watch(self, version: str, *, initial_events: bool) -> None:
        if initial_events:
            self._begin_staging()
        events = self._client.watch(
            self.resource, **self._scope, resource_version=version,
            timeout_seconds=self._rng.randint(*WATCH_SECONDS), initial_events=initial_events,
            unreadable=self._on_unreadable,
        )  # fmt: skip
        time = asyncio.get_running_loop().time
        turn_ends = time() + TURN_SECONDS
        async with aclosing(events):
            async for event in events:
                if self._staged is None:
                    self._take_in(event)
                elif event.initial_events_end:
                    await self._finish_staging(event.resource_version)
                else:
                    self._stage(event)
                if time() > turn_ends:
                    await asyncio.sleep(0)
                    turn_ends = time() + TURN_SECONDS
        if self._staged is not None:
            # It sent no end mark: a server that does not know the parameter.
            self._streams_lists = False

    def _take_in(self, event: WatchEvent[T]) -> None:
        if event.type == "DELETED":
            key, uid, _ = identity(event.object)
            self._complaints.pop(key, None)
            self._tell(self._replica.drop(key, uid))
        elif event.type != "BOOKMARK":
            if self._complaints:
                self._complaints.pop(identity(event.object)[0], None)
            self._tell(self._replica.put(self._kept(event.object)))
        self._version = event.resource_version
        self._patience.progressed()

    def _kept(self, obj: T) -> T:
        return obj if self.transform is None else self.transform(obj)

    def _begin_staging(self) -> None:
        self._staged = {}
        self._doubtful = {}

    def _stage(self, event: WatchEvent[T]) -> None:
        assert self._staged is not None
        if event.type == "BOOKMARK":
            return
        key = identity(event.object)[0]
        self._doubtful.pop(key, None)
        if event.type == "DELETED":
            self._staged.pop(key, None)
        else:
            self._staged[key] = self._kept(event.object)

    async def _finish_staging(self, version: str) -> None:
        assert self._staged is not None
        time = asyncio.get_running_loop().time
        turn_ends = time() + TURN_SECONDS
        for change in self._replica.replace(self._staged, self._doubtful):
            self._tell((change,))
            if time() > turn_ends:
                await asyncio.sleep(0)
                turn_ends = time() + TURN_SECONDS
        if self._complaints:
            self._complaints = {k: v for k, v in self._complaints.items() if k in self._doubtful}
        self._staged = None
        self._version = version
        self._told_all = True
        self._settled.set()

    def _on_unreadable(self, broken: Unreadable) -> None:
        if self._complaints.get(broken.key) != broken.why:
            self._complaints[broken.key] = broken.why
            self._teller.troubles[UNREADABLE] += 1
            log.error("%s; going on without it", broken.message)
            if self.on_unreadable is not None:
                self._teller.guard(broken.key, partial(self.on_unreadable, broken))
        gone = broken.event_type == "DELETED"
        if self._staged is not None:
            self._staged.pop(broken.key, None)
            if gone:
                self._doubtful.pop(broken.key, None)
            else:
                self._doubtful[broken.key] = broken.uid
            return
        known = self.cache.get(broken.key)
        if known is not None and (gone or identity(known)[1] != broken.uid):
            self._tell(self._replica.drop(broken.key))
        self._version = broken.resource_version
        self._patience.progressed()

    def _tell(self, changes: Iterable[ObjectChange[T]]) -> None:
        for change in changes:
            self._teller.tell(change)
