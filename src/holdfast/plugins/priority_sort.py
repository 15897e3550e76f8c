"""PrioritySort: who is tried first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from holdfast.columns.pod_facts import PodFacts


class PrioritySort:
    """Order the queue by priority, then by how long a pod has been waiting."""

    name: ClassVar[str] = "PrioritySort"
    epochs: ClassVar[tuple[str, ...]] = ()

    def __init__(self, _args: Mapping[str, Any]) -> None:
        pass

    def sort_key(self, pod: PodFacts, queued_at: float) -> tuple[int, float]:
        """Smaller is earlier: higher priority first, then the older queue time."""
        return (-pod.priority, queued_at)
