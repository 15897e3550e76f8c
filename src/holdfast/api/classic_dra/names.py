"""Groups, keys and limits of classic DRA (KEP-3063)."""

from __future__ import annotations

KEP_GROUP = "core.k8s.io"
"""The group of the KEP, which the embedded API server serves."""
OWN_GROUP = "dra.holdfast.dev"
"""The group of the CRDs on a real cluster, where ``*.k8s.io`` is reserved."""
VERSION = "v1alpha1"
POD_CLAIMS = f"{OWN_GROUP}/resource-claims"
"""Annotation with a pod's classic claims on a real cluster, which drops unknown pod fields.

A JSON list of entries as in ``spec.resourceClaims``, each with the names of the ``containers`` that
use it.
"""
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
IMMEDIATE = "Immediate"
MAX_NODES = 256
"""Length of ``potentialNodes`` and ``unsuitableNodes``."""
MAX_CONSUMERS = 32
MAX_ENTRIES = 32
"""Classic claims of a pod."""
MAX_HANDLE_BYTES = 16384


def deletion_protection(driver: str) -> str:
    """Return the finalizer with which a driver protects what it has allocated."""
    return f"{driver}/deletion-protection"
