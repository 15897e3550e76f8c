"""Call the event handlers of an informer and catch their exceptions.

An object that makes a handler fail must not stop the informer: the process would fail again after
every restart. Therefore an exception is logged and counted, and the informer continues. The handler
is called with the object again when it next changes.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from holdfast.client.informer_cache import ChangeType, ObjectChange, identity_of
from holdfast.runtime.errors import HoldfastError
from holdfast.runtime.repeated_log import Repeats

T = TypeVar("T")
ResourceEventHandler = Callable[[ChangeType, T | None, T | None], None]
REFUSED, FAILED, UNREADABLE = "refused", "failed", "unreadable"
"""Categories of errors: a handler rejected the object; a handler has a defect; the object does not
match its type."""

log = logging.getLogger(__name__)


class HandlerDispatcher(Generic[T]):
    """The handlers of one collection; ``error_counts`` counts their errors by category."""

    def __init__(self, resource: str) -> None:
        self._resource = resource
        self._handlers: list[ResourceEventHandler[T]] = []
        self.error_counts: Counter[str] = Counter()
        self._repeats = Repeats()

    def add(self, handler: ResourceEventHandler[T]) -> None:
        """Add a handler."""
        self._handlers.append(handler)

    def dispatch(self, changes: Iterable[ObjectChange[T]]) -> None:
        """Call all handlers with each change, in the order in which the handlers were added."""
        self._call(self._handlers, changes)

    def dispatch_to(self, handler: ResourceEventHandler[T], change: ObjectChange[T]) -> None:
        """Call one handler with a change."""
        self._call((handler,), (change,))

    def call_safely(self, key: str, work: Callable[[], None]) -> None:
        """Call ``work`` for the object ``key``; its exceptions are logged and counted."""
        try:
            work()
        except Exception as error:
            self._report(key, error)

    def _call(
        self, handlers: Iterable[ResourceEventHandler[T]], changes: Iterable[ObjectChange[T]]
    ) -> None:
        """Call handlers; their exceptions are logged and counted."""
        for how, old, new in changes:
            for handler in handlers:
                try:
                    handler(how, old, new)
                except Exception as error:
                    self._report(identity_of(old if new is None else new)[0], error)

    def _report(self, key: str, error: Exception) -> None:
        category = REFUSED if isinstance(error, HoldfastError) else FAILED
        self.error_counts[category] += 1
        about = f"{self._resource} {key}"
        if category == REFUSED:
            line = f"{about}: {error}; the previous version stays in effect"
            self._repeats.log(log, logging.ERROR, line, same=(key, category))
        else:
            line = f"{about}: an event handler failed; continuing with the next object"
            self._repeats.log(log, logging.ERROR, line, same=(key, category), exc_info=error)
