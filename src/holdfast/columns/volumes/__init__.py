"""Volumes, claims and classes; which node reaches which volume; what is attached where.

Lives here: ``Volumes`` (the ledger, one room of the world: objects as last told, with the bindings
promised but not yet written laid over them), ``Attachments`` (volumes per driver and row against
the node's limits), and which volume a claim may take. May not live here: verdicts and their words,
I/O, clocks.
"""

from holdfast.columns.volumes.attachments import Attachments
from holdfast.columns.volumes.ledger import Promise, Volumes

__all__ = ["Attachments", "Promise", "Volumes"]
