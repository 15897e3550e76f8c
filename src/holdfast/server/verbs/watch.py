"""The verb watch: stream the events of a collection.

A watch encodes the events of a store subscription as lines. Each event is encoded once per response
format and shared by all watches of that format. A timer closes the subscription when a bookmark or
the end of the watch is due; the watch then subscribes again from the same revision, or ends. So
there is one thing to wait for, and a new subscription is cheap: it is a position in the list of
events.

Each slow reader keeps a whole batch in memory. With objects of 1 MB, batches of 512 events took
half a gigabyte, so batches are limited by bytes as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from holdfast.client.response_decoding import INITIAL_EVENTS_END
from holdfast.runtime.errors import Expired, status_of
from holdfast.server.operation import Operation
from holdfast.server.schema.stored_objects import decode
from holdfast.server.store import EventType, StoredObject, StoreEvent, Subscription
from holdfast.server.verbs.conversion import to_requested_version
from holdfast.server.verbs.rendering import as_table, partial_metadata
from holdfast.server.verbs.selection import Selection, selection_of
from holdfast.server.wire.query_options import integer_option
from holdfast.server.wire.request_info import is_true
from holdfast.server.wire.resource_versions import (
    check_not_newer,
    parse_resource_version,
    wants_initial_events,
)
from holdfast.server.wire.responses import StreamResponse

BOOKMARK_SECONDS = 60.0
_BATCH = 500
BATCH_BYTES = 1 << 20
"""The most bytes of a batch of several events; unread batches are kept in memory."""
T = TypeVar("T")


def watch(op: Operation) -> StreamResponse:
    """Start a watch; raise Expired if the revision was compacted."""
    query, store = op.request.query, op.context.store
    selection = selection_of(op)
    send_initial_end = wants_initial_events(query)
    text = query.get("resourceVersion", "")
    wanted = parse_resource_version(text)
    store.check_not_in_gap(wanted)
    check_not_newer(wanted, store.revision)
    initial: list[StoredObject] = []
    if send_initial_end or (wanted == 0 and query.get("sendInitialEvents") is None):
        # Nothing is awaited between the list and the subscription, so no event is missed.
        initial, wanted = selection.list_now(store), store.revision
    elif wanted == 0:
        wanted = store.revision
    running_watch = Watch(op, selection, wanted, initial, send_initial_end)
    return StreamResponse(running_watch.batches(), running_watch.close)


class Watch:
    """One running watch."""

    def __init__(
        self,
        op: Operation,
        selection: Selection,
        revision: int,
        initial: list[StoredObject],
        send_initial_end: bool,
    ) -> None:
        self._op = op
        self._selection = selection
        self._initial = initial
        self._send_initial_end = send_initial_end
        self._encoder = WatchEventEncoder(op)
        self._bookmarks = is_true(op.request.query.get("allowWatchBookmarks"))
        self._ends = op.context.clock.monotonic() + _lifetime(op)
        self._timer: asyncio.Task[None] | None = None
        self._closed = False
        self._subscription = self._subscribe(revision)
        op.context.watches.add(self)

    def _subscribe(self, revision: int) -> Subscription:
        selection = self._selection
        accept = None
        if selection.namespace or not selection.everything:
            accept = lambda event: event_type_for(event, selection) is not None  # noqa: E731
        return self._op.context.store.watch(selection.group, selection.plural, revision, accept)

    def close(self) -> None:
        """End the watch; calling it again does nothing."""
        self._closed = True
        self._subscription.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._op.context.watches.discard(self)

    async def batches(self) -> AsyncIterator[list[bytes]]:
        """Yield batches of lines until the timeout or until the watch is closed."""
        self._timer = asyncio.create_task(self._run_timer())
        try:
            for lines in self._initial_lines():
                yield lines
                await asyncio.sleep(0)  # a client in this process would not let other tasks run
            while not self._closed:
                async for events in self._subscription:
                    for part in _batches(events, _event_bytes):
                        if lines := self._encoder.encode(part, self._selection):
                            yield lines
                if self._bookmarks and not self._subscription.overrun:
                    yield [self._encoder.bookmark(self._subscription.revision)]
                if self._closed or self._timed_out():
                    return
                try:
                    self._subscription = self._subscribe(self._subscription.revision)
                except Expired as expired:
                    yield [error_line(expired)]
                    return
        finally:
            self.close()

    def _initial_lines(self) -> Iterable[list[bytes]]:
        revision = self._subscription.revision
        for part in _batches(self._initial, _object_bytes):
            yield [self._encoder.encode_added(stored) for stored in part]
        self._initial = []
        if self._send_initial_end:
            yield [self._encoder.bookmark(revision, initial_end=True)]

    def _timed_out(self) -> bool:
        return self._op.context.clock.monotonic() >= self._ends

    async def _run_timer(self) -> None:
        """Close the subscription whenever a bookmark or the end of the watch is due."""
        clock = self._op.context.clock
        while not self._closed:
            left = self._ends - clock.monotonic()
            await clock.sleep(max(0.0, min(BOOKMARK_SECONDS, left)))
            self._subscription.close()
            if self._timed_out():
                return


def _batches(items: Sequence[T], size_of: Callable[[T], int]) -> Iterator[Sequence[T]]:
    """Split items into batches of limited length and size.

    >>> [*_batches([1, 2, BATCH_BYTES, 3], int)]
    [[1, 2], [1048576], [3]]
    """
    start = size = 0
    for end, item in enumerate(items):
        size += size_of(item)
        if end > start and (size > BATCH_BYTES or end - start == _BATCH):
            yield items[start:end]
            start, size = end, size_of(item)
    if start < len(items):
        yield items[start:]


def _event_bytes(event: StoreEvent) -> int:
    return len(event.object.value)


def _object_bytes(stored: StoredObject) -> int:
    return len(stored.value)


def _lifetime(op: Operation) -> float:
    seconds = integer_option(op.request.query, "timeoutSeconds") or 0
    return float(seconds) if seconds > 0 else 1800.0 * (1.0 + op.context.rng.random())


def error_line(error: Expired) -> bytes:
    """Encode an error as the last event of a watch."""
    return b'{"type":"ERROR","object":' + msgspec.json.encode(status_of(error)) + b"}\n"


def event_type_for(event: StoreEvent, selection: Selection) -> EventType | None:
    """Return the event type for a watcher of a selection; None if the event is not for it.

    An object that no longer matches the selection is DELETED, one that now matches is ADDED.
    """
    if event.change is EventType.ADDED:
        return EventType.ADDED if selection.selects(event.object) else None
    selected_before = event.previous is not None and selection.selects(event.previous)
    if event.change is EventType.DELETED:
        return EventType.DELETED if selected_before else None
    if selection.selects(event.object):
        return EventType.MODIFIED if selected_before else EventType.ADDED
    return EventType.DELETED if selected_before else None


def _shown_state(event: StoreEvent, change: EventType) -> bytes:
    """Return the object of a watch event.

    An object that left the selection is shown as it last was in it, with the revision of the event.
    """
    if change is event.change or change is not EventType.DELETED or event.previous is None:
        return event.object.value
    last = decode(event.previous)
    metadata = {**last["metadata"], "resourceVersion": str(event.revision)}
    return msgspec.json.encode({**last, "metadata": metadata})


class WatchEventEncoder:
    """Encodes events in the format of one watch."""

    def __init__(self, op: Operation) -> None:
        self._op = op
        self._columns_sent = False
        include = op.request.query.get("includeObject", "") if op.response_format.is_table else ""
        requested_version = op.descriptor.resource.api_version
        self._format_key = (
            op.response_format.as_,
            op.response_format.version,
            include,
            requested_version,
        )
        self._as_stored = (
            op.response_format.is_plain and op.descriptor.storage_api_version == requested_version
        )

    def encode(self, events: Iterable[StoreEvent], selection: Selection) -> list[bytes]:
        """Encode the events that match a selection."""
        if selection.everything and not selection.namespace:
            return [self._line(event, event.change) for event in events]
        lines = []
        for event in events:
            change = event_type_for(event, selection)
            if change is not None:
                lines.append(self._line(event, change))
        return lines

    def encode_added(self, stored: StoredObject) -> bytes:
        """Encode an object of the initial list as ADDED."""
        return self._wrap("ADDED", self._render(stored.value))

    def _line(self, event: StoreEvent, change: EventType) -> bytes:
        if self._as_stored:
            # The line contains the stored bytes: caching it would double the memory of the event.
            return self._wrap(change.name, _shown_state(event, change))
        with_columns = self._op.response_format.is_table and not self._columns_sent
        key = (change, with_columns, *self._format_key)
        line = event.encodings.get(key)
        if line is None:
            shown = self._render(_shown_state(event, change))
            line = event.encodings[key] = self._wrap(change.name, shown)
        self._columns_sent = True
        return line

    def _wrap(self, change: str, shown: bytes) -> bytes:
        return b"".join((b'{"type":"', change.encode(), b'","object":', shown, b"}\n"))

    def _render(self, value: bytes) -> bytes:
        op = self._op
        if op.response_format.is_table:
            first, self._columns_sent = not self._columns_sent, True
            return as_table(op, [value], with_columns=first)
        if op.response_format.is_metadata:
            return partial_metadata(value, op.response_format.version)
        return to_requested_version(op.descriptor, value)

    def bookmark(self, revision: int, *, initial_end: bool = False) -> bytes:
        """Encode a bookmark: all events up to the revision were sent."""
        op, meta = self._op, {"resourceVersion": str(revision)}
        kind, api_version = op.descriptor.resource.kind, op.descriptor.resource.api_version
        if op.response_format.is_metadata:
            kind, api_version = "PartialObjectMetadata", f"meta.k8s.io/{op.response_format.version}"
        elif op.response_format.is_table:
            kind, api_version = "Table", f"meta.k8s.io/{op.response_format.version}"
        metadata = meta | ({"annotations": {INITIAL_EVENTS_END: "true"}} if initial_end else {})
        shown = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
        return self._wrap("BOOKMARK", msgspec.json.encode(shown))
