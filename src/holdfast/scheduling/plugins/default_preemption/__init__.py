"""DefaultPreemption: choose a node and the victims to evict for a pod of higher priority.

Lives here: the dry runs, the victims they find and the choice of the node. May not live here:
evictions; the plugin returns a PostFilterResult and the scheduler evicts.
"""

from __future__ import annotations

from holdfast.scheduling.plugins.default_preemption.plugin import DefaultPreemption

__all__ = ["DefaultPreemption"]
