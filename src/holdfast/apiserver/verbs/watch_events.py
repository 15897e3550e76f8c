"""How watch events are written: one line each, once per form, shared by all watchers."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast.apiserver.operation import Operation
from holdfast.apiserver.verbs.conversion import to_requested_version
from holdfast.apiserver.verbs.rendering import as_table, partial_metadata
from holdfast.apiserver.verbs.selection import Selection
from holdfast.client.response_decoding import INITIAL_EVENTS_END
from holdfast.store import EventType, StoredObject, StoreEvent


def event_type_for(event: StoreEvent, selection: Selection) -> EventType | None:
    """Tell what an event is to somebody who sees only a selection; None: nothing.

    An object that leaves the selection is DELETED to them, one that enters is ADDED.
    """
    if event.change is EventType.ADDED:
        return EventType.ADDED if selection.selects(event.object) else None
    before = event.previous is not None and selection.selects(event.previous)
    if event.change is EventType.DELETED:
        return EventType.DELETED if before else None
    if selection.selects(event.object):
        return EventType.MODIFIED if before else EventType.ADDED
    return EventType.DELETED if before else None


class WatchEventEncoder:
    """Write events in the form one watcher asked for."""

    def __init__(self, op: Operation) -> None:
        self._op = op
        self._shown_columns = False
        include = op.request.query.get("includeObject", "") if op.response_format.is_table else ""
        shown_as = op.descriptor.resource.api_version
        self._form_key = (op.response_format.as_, op.response_format.version, include, shown_as)
        self._as_stored = (
            op.response_format.is_plain and op.descriptor.storage_api_version == shown_as
        )

    def encode(self, events: Iterable[StoreEvent], selection: Selection) -> list[bytes]:
        """Write those of the events that concern a selection."""
        if selection.everything and not selection.namespace:
            return [self._line(event, event.change) for event in events]
        lines = []
        for event in events:
            change = event_type_for(event, selection)
            if change is not None:
                lines.append(self._line(event, change))
        return lines

    def encode_added(self, stored: StoredObject) -> bytes:
        """Write an object of the initial state."""
        return self._wrap("ADDED", self._shown(stored.value))

    def _line(self, event: StoreEvent, change: EventType) -> bytes:
        if self._as_stored:
            # The stored bytes are the encoding: keeping the line too would double the history.
            return self._wrap(change.name, event.object.value)
        with_columns = self._op.response_format.is_table and not self._shown_columns
        key = (change, with_columns, *self._form_key)
        line = event.encodings.get(key)
        if line is None:
            line = event.encodings[key] = self._wrap(change.name, self._shown(event.object.value))
        self._shown_columns = True
        return line

    def _wrap(self, change: str, shown: bytes) -> bytes:
        return b"".join((b'{"type":"', change.encode(), b'","object":', shown, b"}\n"))

    def _shown(self, value: bytes) -> bytes:
        op = self._op
        if op.response_format.is_table:
            first, self._shown_columns = not self._shown_columns, True
            return as_table(op, [value], with_columns=first)
        if op.response_format.is_metadata:
            return partial_metadata(value, op.response_format.version)
        return to_requested_version(op.descriptor, value)

    def bookmark(self, revision: int, *, initial_end: bool = False) -> bytes:
        """Write a bookmark: nothing happened up to here that you have not been told."""
        op, meta = self._op, {"resourceVersion": str(revision)}
        kind, api_version = op.descriptor.resource.kind, op.descriptor.resource.api_version
        if op.response_format.is_metadata:
            kind, api_version = "PartialObjectMetadata", f"meta.k8s.io/{op.response_format.version}"
        elif op.response_format.is_table:
            kind, api_version = "Table", f"meta.k8s.io/{op.response_format.version}"
        metadata = meta | ({"annotations": {INITIAL_EVENTS_END: "true"}} if initial_end else {})
        shown = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
        return self._wrap("BOOKMARK", msgspec.json.encode(shown))
