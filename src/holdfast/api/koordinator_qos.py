"""Koordinator's QoS and priority classes of pods."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.api.koordinator_names import PRIORITY_CLASS, QOS_CLASS

LSE, LSR, LS, BE, SYSTEM = "LSE", "LSR", "LS", "BE", "SYSTEM"
PROD, MID, BATCH, FREE = "koord-prod", "koord-mid", "koord-batch", "koord-free"

_BY_PRIORITY = {9: PROD, 7: MID, 5: BATCH, 3: FREE}
_BY_QOS = {SYSTEM: PROD, LSE: PROD, LSR: PROD, LS: PROD, BE: BATCH}
_BY_KUBERNETES_QOS = {"Guaranteed": LSR, "Burstable": LS, "BestEffort": BE}


def qos_class(labels: Mapping[str, str]) -> str:
    """Return the QoS class in the label, empty if it is absent or unknown."""
    named = labels.get(QOS_CLASS, "")
    return named if named in _BY_QOS else ""


def named_priority_class(labels: Mapping[str, str], priority: int | None) -> str:
    """Return the priority class from the label, else from the priority; empty if there is none.

    >>> named_priority_class({}, 9500), named_priority_class({PRIORITY_CLASS: "unknown"}, 9500)
    ('koord-prod', '')
    """
    if PRIORITY_CLASS in labels:
        named = labels[PRIORITY_CLASS]
        return named if named in _BY_PRIORITY.values() else ""
    return _BY_PRIORITY.get((priority or 0) // 1000, "")


def priority_class(
    labels: Mapping[str, str], priority: int | None, kubernetes_qos: str = ""
) -> str:
    """Return the priority class of the pod, else that of its QoS class.

    Without a label for QoS, ``kubernetes_qos`` (Guaranteed, Burstable, BestEffort) decides.
    """
    qos = qos_class(labels) or _BY_KUBERNETES_QOS.get(kubernetes_qos, "")
    return named_priority_class(labels, priority) or _BY_QOS.get(qos, "")
