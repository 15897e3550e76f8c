"""The DynamicResources plugin: allocate devices for the resource claims of pods.

A claim that is allocated already restricts the nodes; for other claims devices are searched on
every node. Extended resources that a device class serves become one more claim, which the scheduler
creates (KEP-5004). ``plan`` has the plan for one pod, ``device_search`` finds devices on each row,
``claim_writes`` writes to the API server.
"""

from __future__ import annotations

from holdfast.scheduling.plugins.dynamic_resources.plugin import DynamicResources

__all__ = ["DynamicResources"]
