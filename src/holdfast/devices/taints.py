"""Tainted devices and the requests that put up with them."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.api.node import Taint
from holdfast.api.pod import Toleration

_KEEPS_AWAY = ("NoSchedule", "NoExecute")


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Tell whether one toleration covers one taint; an empty key or effect covers all."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def tolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> bool:
    """Tell whether every taint that keeps requests away is covered; other effects do not."""
    return all(
        any(tolerates(toleration, taint) for toleration in tolerations)
        for taint in taints
        if taint.effect in _KEEPS_AWAY
    )
