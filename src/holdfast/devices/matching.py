"""Which devices a request may have at all: class selectors, own selectors, node, taints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.api.devices import DeviceSelector, ResourceClaim
from holdfast.api.node import Node, Taint
from holdfast.api.pod import Toleration
from holdfast.cel import CompileError, DeviceSelectors, EvaluationError
from holdfast.devices.failures import AllocationError
from holdfast.devices.features import Features
from holdfast.devices.requests import Ask, claim_label
from holdfast.devices.slices import DeviceCandidate

_KEEPS_AWAY = ("NoSchedule", "NoExecute")


class Matcher:
    """Evaluates selectors for the claims of one pod, putting failures into upstream's words."""

    def __init__(
        self, claims: Sequence[ResourceClaim], selectors: DeviceSelectors, features: Features
    ) -> None:
        self._claims = claims
        self._selectors = selectors
        self._features = features

    def selectable(self, ask: Ask, candidate: DeviceCandidate, node: Node) -> bool:
        """Tell whether the ask may have the device on this node, in use or not."""
        return self.selected(ask, candidate) and candidate.on_node(node)

    def selected(self, ask: Ask, candidate: DeviceCandidate) -> bool:
        """Tell whether the device is of the kind asked for, wherever it is."""
        if candidate.device.binding_conditions and not self._features.binding_conditions:
            return False
        owner = f"class {ask.device_class.name}"
        if not self._all(owner, ask.device_class.spec.selectors, candidate):
            return False
        if not ask.selectors:
            return True
        owner = f"claim {claim_label(self._claims[ask.claim])}"
        return self._all(owner, ask.selectors, candidate)

    def _all(
        self, owner: str, chosen: Sequence[DeviceSelector], candidate: DeviceCandidate
    ) -> bool:
        for i, selector in enumerate(chosen):
            expression = selector.cel.expression if selector.cel else ""
            try:
                if not candidate.selected_by(expression, self._selectors):
                    return False
            except CompileError as failure:
                raise AllocationError(
                    f"{owner}: selector #{i}: CEL compile error: {failure.message}"
                ) from failure
            except EvaluationError as failure:
                raise AllocationError(
                    f"{owner}: selector #{i}: CEL runtime error: {failure.message}"
                ) from failure
        return True


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
