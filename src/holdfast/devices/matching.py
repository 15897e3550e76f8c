"""Which devices a request may have at all: class selectors, own selectors, node."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.api.devices import DeviceSelector, ResourceClaim
from holdfast.api.node import Node
from holdfast.cel import CompileError, DeviceSelectors, EvaluationError
from holdfast.devices.failures import AllocationError
from holdfast.devices.features import Features
from holdfast.devices.requests import Ask, claim_label
from holdfast.devices.slices import Candidate


class Matcher:
    """Evaluates selectors for the claims of one pod, putting failures into upstream's words."""

    def __init__(
        self, claims: Sequence[ResourceClaim], selectors: DeviceSelectors, features: Features
    ) -> None:
        self._claims = claims
        self._selectors = selectors
        self._features = features

    def selectable(self, ask: Ask, candidate: Candidate, node: Node) -> bool:
        """Tell whether the ask may have the device on this node, in use or not."""
        return self.selected(ask, candidate) and candidate.on_node(node)

    def selected(self, ask: Ask, candidate: Candidate) -> bool:
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

    def _all(self, owner: str, chosen: Sequence[DeviceSelector], candidate: Candidate) -> bool:
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
