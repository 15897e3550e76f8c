"""The arguments of the plugin; ``drainExcess`` is read by the controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.api.field_errors import not_supported
from holdfast.framework.arguments import Arguments, PluginArgs

STRICT, SCORE = "Strict", "Score"
IGNORE, REJECT = "Ignore", "Reject"
TIES, FIRST = "Ties", "First"

_SUPPORTED = {
    "order": (STRICT, SCORE),
    "missingMatchLabelKey": (IGNORE, REJECT),
    "reservations": (TIES, FIRST),
}


class ResourcePolicyArgs(PluginArgs, frozen=True):
    """The arguments of the plugin.

    ``order``: Strict compares priorities before any score, Score leaves them to the weighted sum.
    ``missing_match_label_key``: what happens to a pod without one of the matchLabelKeys.
    ``drain_excess``: pods beyond a cap get a negative deletion cost. ``reservations``: whether a
    reservation that the pod may use is compared before priorities (First) or only inside a
    priority (Ties).
    """

    order: str = STRICT
    missing_match_label_key: str = IGNORE
    drain_excess: bool = False
    reservations: str = TIES

    @property
    def strict_order(self) -> bool:
        """Whether priorities are compared before any score."""
        return self.order == STRICT

    @property
    def rejects_missing_keys(self) -> bool:
        """Whether a pod without one of the matchLabelKeys is rejected."""
        return self.missing_match_label_key == REJECT

    @property
    def reservations_first(self) -> bool:
        """Whether nodes with a reservation of the pod come before units of higher priority."""
        return self.reservations == FIRST


def read_args(given: Mapping[str, Any]) -> ResourcePolicyArgs:
    """Read the arguments; BadConfiguration lists every wrong field."""
    wrong = Arguments("resourcepolicy")
    args = wrong.read(ResourcePolicyArgs, given)
    names = dict(zip(args.__struct_encode_fields__, args.__struct_fields__, strict=True))
    for field, words in _SUPPORTED.items():
        value = getattr(args, names[field])
        if value not in words:
            wrong.append(not_supported(field, value, words))
    wrong.refuse_if_wrong()
    return args
