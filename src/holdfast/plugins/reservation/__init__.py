"""Reservation: room for owners, and for nobody else.

Two sorts of pods concern it. A *reserve pod* stands for a Reservation that looks for its node; all
the ordinary filters decide, this plugin adds the node it is pinned to and which policies may stand
side by side, and binds it by writing the Reservation's status. An *owner* matches offers; on the
rows of those offers NodeResourcesFit leaves the word to this plugin, which knows what of the held
room is this pod's.
"""

from __future__ import annotations

from holdfast.plugins.reservation.plugin import ReservationPlugin

__all__ = ["ReservationPlugin"]
