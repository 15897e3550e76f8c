"""PrioritySort: the order of the scheduling queue."""

from __future__ import annotations

from holdfast.scheduling.framework.plugin import Plugin


class PrioritySort(Plugin):
    """Sort by priority, then by how long a pod has been waiting.

    The queue itself sorts like this and has no other order; the plugin exists so that
    configurations can name it.
    """

    name = "PrioritySort"
