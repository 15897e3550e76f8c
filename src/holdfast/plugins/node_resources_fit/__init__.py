"""NodeResourcesFit: the pod must fit in what is left, and prefers the emptiest node.

Lives here: the plugin, its arguments, and the scoring strategies. May not live here: what is held
for reservations (a row with an offer for the pod is left to the Reservation plugin).
"""

from __future__ import annotations

from holdfast.plugins.node_resources_fit.plugin import NodeResourcesFit

__all__ = ["NodeResourcesFit"]
