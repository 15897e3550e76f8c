"""NodeResourcesFit: the pod's requests must fit, and a strategy scores the nodes.

Lives here: the plugin, its arguments and the scoring strategies. May not live here: what
reservations hold (rows with a reservation for the pod are filtered by the Reservation plugin).
"""

from __future__ import annotations

from holdfast.scheduling.plugins.node_resources_fit.plugin import NodeResourcesFit

__all__ = ["NodeResourcesFit"]
