"""The Reservation plugin: it keeps reserved resources for owners.

It handles two kinds of pods. A *reserve pod* is scheduled in place of a Reservation: the other
plugins filter and score for it, this plugin adds the node name of its template and the rule about
which allocate policies may share a node, and binds it by writing the Reservation's status. An
*owner* matches reservations: on their rows NodeResourcesFit passes, and this plugin decides
instead.
"""

from __future__ import annotations

from holdfast.scheduling.plugins.reservation.plugin import ReservationPlugin

__all__ = ["ReservationPlugin"]
