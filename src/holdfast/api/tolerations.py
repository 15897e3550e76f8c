"""Which taints a toleration accepts.

The same rules serve nodes, devices and reservations: a toleration speaks about an effect (empty:
any), a key (empty: any) and, with operator Equal, a value. Gt and Lt compare numbers; they are a
feature that is off unless the caller says ``comparisons=True``.
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
    """What a taint of a node, device or reservation has in common."""

    @property
    def key(self) -> str:
        """What is wrong."""

    @property
    def value(self) -> str:
        """More about it."""

    @property
    def effect(self) -> str:
        """What it does to pods."""


def same_taint(one: AnyTaint, other: AnyTaint) -> bool:
    """Tell whether two taints are the same one: key and effect, the value aside."""
    return one.key == other.key and one.effect == other.effect


def tolerates(toleration: Toleration, taint: AnyTaint, *, comparisons: bool = False) -> bool:
    """Tell whether a toleration accepts a taint."""
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
    """Compare two numbers as Gt and Lt do; what is no canonical integer compares as false."""
    theirs, ours = canonical_integer(taint_value), canonical_integer(toleration_value)
    if theirs is None or ours is None:
        return False
    return (operator == "Gt" and theirs > ours) or (operator == "Lt" and theirs < ours)


def tolerated(
    tolerations: Iterable[Toleration], taint: AnyTaint, *, comparisons: bool = False
) -> bool:
    """Tell whether any of the tolerations accepts the taint."""
    return any(tolerates(t, taint, comparisons=comparisons) for t in tolerations)


def forbids(taint: AnyTaint) -> bool:
    """Tell whether the taint keeps pods off at all, instead of only advising against it."""
    return taint.effect in (NO_SCHEDULE, NO_EXECUTE)


def find_untolerated(
    taints: Iterable[Taint],
    tolerations: Sequence[Toleration],
    counts: Callable[[Taint], bool] = forbids,
    *,
    comparisons: bool = False,
) -> Taint | None:
    """Find the first taint that ``counts`` and that no toleration accepts."""
    return next(
        (
            taint
            for taint in taints
            if counts(taint) and not tolerated(tolerations, taint, comparisons=comparisons)
        ),
        None,
    )
