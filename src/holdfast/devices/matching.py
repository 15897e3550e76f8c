"""Match devices with requests: selectors of class and request, node, taints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from holdfast.api.devices import DeviceSelector, ResourceClaim
from holdfast.api.node import Node, Taint
from holdfast.api.pod import Toleration
from holdfast.cel import CompileError, DeviceSelectors, EvaluationError
from holdfast.devices.errors import AllocationError
from holdfast.devices.features import Features
from holdfast.devices.requests import RequestAlternative, claim_label
from holdfast.devices.slices import DeviceCandidate

_SELECTED_A_STEP = 64
"""About two milliseconds."""
_BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")


class Matcher:
    """Evaluates selectors for the claims of one pod; errors have upstream's messages."""

    def __init__(
        self, claims: Sequence[ResourceClaim], selectors: DeviceSelectors, features: Features
    ) -> None:
        self._claims = claims
        self._selectors = selectors
        self._features = features

    def selectable(
        self, alternative: RequestAlternative, candidate: DeviceCandidate, node: Node
    ) -> bool:
        """Return whether the device matches and is available on this node, allocated or not."""
        return self.selected(alternative, candidate) and candidate.is_available_on(node)

    def selected(self, alternative: RequestAlternative, candidate: DeviceCandidate) -> bool:
        """Return whether the device matches all selectors, on any node."""
        if candidate.device.binding_conditions and not self._features.binding_conditions:
            return False
        owner = f"class {alternative.device_class.name}"
        if not self._all(owner, alternative.device_class.spec.selectors, candidate):
            return False
        if not alternative.selectors:
            return True
        owner = f"claim {claim_label(self._claims[alternative.claim])}"
        return self._all(owner, alternative.selectors, candidate)

    def select_in_steps(
        self, alternatives: Sequence[RequestAlternative], candidates: Sequence[DeviceCandidate]
    ) -> Iterator[None]:
        """Evaluate all selectors for devices, with pauses; the candidates keep the results."""
        for number, candidate in enumerate(candidates, 1):
            for alternative in alternatives:
                try:
                    self.selected(alternative, candidate)
                except AllocationError:
                    continue  # raised again where the device is tried
            if number % _SELECTED_A_STEP == 0:
                yield

    def _all(
        self, owner: str, expressions: Sequence[DeviceSelector], candidate: DeviceCandidate
    ) -> bool:
        for i, selector in enumerate(expressions):
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
    """Return whether a toleration matches a taint; an empty key or effect matches all."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def tolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> bool:
    """Return whether every NoSchedule and NoExecute taint is tolerated."""
    return all(
        any(tolerates(toleration, taint) for toleration in tolerations)
        for taint in taints
        if taint.effect in _BLOCKING_EFFECTS
    )
