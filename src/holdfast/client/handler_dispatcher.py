"""Telling handlers what changed. A handler that fails is a defect, and stays its own.

Following a collection must go on whatever one object does to one handler: the next object is not
to blame, and a process that ended over it would end over it again after every restart. So what a
handler raises is logged, counted and left behind; the handler hears of the same object again when
it next changes.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Generic, TypeVar

from holdfast.client.informer_cache import ChangeType, ObjectChange, identity_of
from holdfast.errors import HoldfastError
from holdfast.repeated_log import Repeats

T = TypeVar("T")
ResourceEventHandler = Callable[[ChangeType, T | None, T | None], None]
REFUSED, FAILED, UNREADABLE = "refused", "failed", "unreadable"
"""An object that makes no sense to a handler; a defect of one; an object of another shape."""

log = logging.getLogger(__name__)


class HandlerDispatcher(Generic[T]):
    """The handlers of one collection; ``error_counts`` counts what went wrong, by sort."""

    def __init__(self, resource: str) -> None:
        self._resource = resource
        self._handlers: list[ResourceEventHandler[T]] = []
        self.error_counts: Counter[str] = Counter()
        self._repeats = Repeats()

    def add(self, handler: ResourceEventHandler[T]) -> None:
        """Tell one more."""
        self._handlers.append(handler)

    def dispatch(self, change: ObjectChange[T]) -> None:
        """Tell every handler, in the order they were added."""
        for handler in self._handlers:
            self.dispatch_to(handler, change)

    def dispatch_to(self, handler: ResourceEventHandler[T], change: ObjectChange[T]) -> None:
        """Tell one handler; nothing it raises comes through."""
        try:
            handler(*change)
        except Exception as error:
            _, old, new = change
            self._report(identity_of(old if new is None else new)[0], error)

    def call_safely(self, key: str, work: Callable[[], None]) -> None:
        """Do something about an object; nothing it raises comes through."""
        try:
            work()
        except Exception as error:
            self._report(key, error)

    def _report(self, key: str, error: Exception) -> None:
        category = REFUSED if isinstance(error, HoldfastError) else FAILED
        self.error_counts[category] += 1
        about = f"{self._resource} {key}"
        if category == REFUSED:
            line = f"{about}: {error}; going on with what was known of it"
            self._repeats.log(log, logging.ERROR, line, same=(key, category))
        else:
            line = f"{about}: a handler failed; going on with the next object"
            self._repeats.log(log, logging.ERROR, line, same=(key, category), exc_info=error)
