"""Encode watch events as lines; each event is encoded once per format for all watchers."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast.apiserver.operation import Operation
from holdfast.apiserver.schema.stored_objects import decode
from holdfast.apiserver.verbs.conversion import to_requested_version
from holdfast.apiserver.verbs.rendering import as_table, partial_metadata
from holdfast.apiserver.verbs.selection import Selection
from holdfast.client.response_decoding import INITIAL_EVENTS_END
from holdfast.store import EventType, StoredObject, StoreEvent


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
