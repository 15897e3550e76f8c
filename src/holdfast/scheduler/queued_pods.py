"""A pod on its way to a node, and what an event may mean for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from holdfast.columns.pod_facts import PodFacts


class Worth(Enum):
    """What an event means for a pod that was rejected."""

    NOTHING = 0
    AFTER_BACKOFF = 1
    AT_ONCE = 2


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod on its way to a node, and how often it was turned away.

    ``rejectors`` are the plugins whose hints decide when it is tried again, ``pending_on`` those
    of them whose word skips backoff. ``gate`` is the plugin that keeps it out of the queue.
    """

    facts: PodFacts
    since: float
    order: int = 0
    attempts: int = 0
    rejections: int = 0
    errors: int = 0
    rejectors: frozenset[str] = frozenset()
    pending_on: frozenset[str] = frozenset()
    gate: str = ""
    entered: float | None = None
    """When it first stood in line to be tried."""
    place: str = ""
    gone: bool = False
    """Whether it was deleted, or found a node, while it was in flight."""
    flushed: bool = False
    """Whether it was last moved because nobody thought of it for too long."""

    @property
    def uid(self) -> str:
        """The pod's identity."""
        return self.facts.uid
