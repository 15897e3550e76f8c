"""The ClassicDynamicResources plugin: classic claims, which resource drivers allocate (KEP-3063).

Scheduler and drivers negotiate about nodes in a PodScheduling: the scheduler names nodes, drivers
answer where they cannot allocate. ``plan`` filters nodes; ``negotiation`` asks drivers, or
``claim_reservation`` reserves what they have allocated. ``claim_writes`` writes to the API server.
The hints in ``plugin`` requeue waiting pods.
"""

from __future__ import annotations

from holdfast.scheduling.plugins.classic_dynamic_resources.plugin import ClassicDynamicResources

__all__ = ["ClassicDynamicResources"]
