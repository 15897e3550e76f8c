"""DynamicResources: give pods the devices their claims ask for.

A pod's claims are either allocated already, and then say where they can be used, or they are
searched for on every node. Extended resources that a device class serves become one more claim,
made by the scheduler itself (KEP-5004). ``demand`` holds what one attempt knows, ``writing`` what
is written to the API server, ``plugin`` answers the scheduling framework.
"""

from __future__ import annotations

from holdfast.plugins.dynamic_resources.plugin import DynamicResources

__all__ = ["DynamicResources"]
