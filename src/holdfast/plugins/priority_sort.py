"""PrioritySort: who is tried first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from holdfast.framework.plugin import Traits


class PrioritySort:
    """Order the queue by priority, then by how long a pod has been waiting.

    The queue keeps this order itself and knows no other; the plugin is here so that a user's
    configuration may name it.
    """

    name: ClassVar[str] = "PrioritySort"
    traits: ClassVar[Traits] = Traits()

    def __init__(self, _args: Mapping[str, Any]) -> None:
        pass
