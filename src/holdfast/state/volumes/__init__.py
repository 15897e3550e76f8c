"""Volumes, claims and storage classes; which node can use a volume; what is attached where.

Lives here: ``Volumes`` (all storage objects, with assumed bindings that are not written yet),
``Attachments`` (attached volumes per driver and row, and the nodes' limits), and which volume a
claim may bind. May not live here: verdicts and their messages, I/O, clocks.
"""

from holdfast.state.volumes.attachments import Attachments
from holdfast.state.volumes.ledger import PodVolumes, Volumes

__all__ = ["Attachments", "PodVolumes", "Volumes"]
