"""The pod deletion cost: which pods a ReplicaSet deletes first when it is scaled down (KEP-2255).

The resource policy controller marks the values that it writes. A value without the marker, or one
that differs from it, is the user's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
MANAGED_DELETION_COST = "resourcepolicy.scheduling.sigs.x-k8s.io/managed-deletion-cost"
"""The value that the resource policy controller wrote."""
POLICY_UID = "resourcepolicy.scheduling.sigs.x-k8s.io/policy-uid"
"""The uid of the ResourcePolicy that the value is for."""

_matches_cost = re.compile("0|-[0-9]{1,20}|[1-9][0-9]{0,20}").fullmatch


def parse_deletion_cost(annotations: Mapping[str, str]) -> int | None:
    """Return the deletion cost, 0 if it is absent, None if it is malformed.

    It is a decimal 32-bit integer without a plus sign or leading zeros.

    >>> [parse_deletion_cost({DELETION_COST: text}) for text in ("-5", "007", "+1", "2147483648")]
    [-5, None, None, None]
    """
    text = annotations.get(DELETION_COST, "0")
    if not _matches_cost(text):
        return None
    cost = int(text)
    return cost if -(2**31) <= cost < 2**31 else None
