"""Match tolerations with taints of nodes, devices and reservations.

A toleration names an effect (empty: any), a key (empty: any) and, with operator Equal, a value. Gt
and Lt compare numbers; they are feature-gated: the caller passes ``comparisons=True``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from holdfast.api.names import canonical_integer
from holdfast.api.node import Taint
from holdfast.api.pod import Toleration

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"


class AnyTaint(Protocol):
    """A taint of a node, device or reservation."""

    @property
    def key(self) -> str:
        """The key of the taint."""

    @property
    def value(self) -> str:
        """The value of the taint."""

    @property
    def effect(self) -> str:
        """The effect: NoSchedule, PreferNoSchedule or NoExecute."""


def same_taint(one: AnyTaint, other: AnyTaint) -> bool:
    """Return whether two taints have the same key and effect."""
    return one.key == other.key and one.effect == other.effect


def tolerates(toleration: Toleration, taint: AnyTaint, *, comparisons: bool = False) -> bool:
    """Return whether a toleration tolerates a taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Gt" | "Lt" if comparisons:
            return compares(toleration.operator, taint.value, toleration.value)
    return False


def compares(operator: str, taint_value: str, toleration_value: str) -> bool:
    """Compare two integers as Gt or Lt; False if one of them is not a canonical integer."""
    theirs, ours = canonical_integer(taint_value), canonical_integer(toleration_value)
    if theirs is None or ours is None:
        return False
    return (operator == "Gt" and theirs > ours) or (operator == "Lt" and theirs < ours)


def tolerated(
    tolerations: Iterable[Toleration], taint: AnyTaint, *, comparisons: bool = False
) -> bool:
    """Return whether any of the tolerations tolerates the taint."""
    return any(tolerates(t, taint, comparisons=comparisons) for t in tolerations)


def blocks_scheduling(taint: AnyTaint) -> bool:
    """Return whether the effect is NoSchedule or NoExecute."""
    return taint.effect in (NO_SCHEDULE, NO_EXECUTE)


def find_untolerated(
    taints: Iterable[Taint],
    tolerations: Sequence[Toleration],
    counts: Callable[[Taint], bool] = blocks_scheduling,
    *,
    comparisons: bool = False,
) -> Taint | None:
    """Return the first taint that ``counts`` and that no toleration tolerates, or None."""
    return next(
        (
            taint
            for taint in taints
            if counts(taint) and not tolerated(tolerations, taint, comparisons=comparisons)
        ),
        None,
    )
