"""Match devices with requests: selectors of class and request, node, taints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from holdfast.api.cel import CompileError, DeviceSelectors, EvaluationError
from holdfast.api.devices import DeviceSelector, ResourceClaim
from holdfast.api.node import Node, Taint
from holdfast.api.pod import Toleration
from holdfast.api.tolerations import tolerates
from holdfast.state.devices.errors import AllocationError
from holdfast.state.devices.features import Features
from holdfast.state.devices.requests import RequestAlternative, claim_label
from holdfast.state.devices.slices import DeviceCandidate

_WORK_A_STEP = 20_000
"""Two milliseconds, in the units of selectors; more if a single selector costs more."""
_WORK_OF_LOOKUP, _WORK_OF_EVALUATION = 50, 300
"""What is added for each selector that is looked up, and if it is evaluated."""
_BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")


class Mismatch(NamedTuple):
    """A selector that a device does not match, and its number in its class or claim."""

    source: str
    """The class or claim, in words."""
    number: int
    selector: DeviceSelector
    matched: int
    """How many selectors before it the device matches."""


class Matcher:
    """Evaluates selectors for the claims of one pod; errors have upstream's messages."""

    def __init__(
        self, claims: Sequence[ResourceClaim], selectors: DeviceSelectors, features: Features
    ) -> None:
        self._claims = claims
        self.selectors = selectors
        self._features = features
        self._is_compiled = False

    def for_claims(self, claims: Sequence[ResourceClaim]) -> Matcher:
        """Return the same for claims with the same specs: errors name these claims."""
        other = Matcher(claims, self.selectors, self._features)
        other._is_compiled = self._is_compiled
        return other

    def selectable(
        self, alternative: RequestAlternative, candidate: DeviceCandidate, node: Node
    ) -> bool:
        """Return whether the device matches and is available on this node, allocated or not."""
        return self.selected(alternative, candidate) and candidate.is_available_on(node)

    def selected(self, alternative: RequestAlternative, candidate: DeviceCandidate) -> bool:
        """Return whether the device matches all selectors, on any node."""
        if candidate.device.binding_conditions and not self._features.binding_conditions:
            return False
        return self.mismatch(alternative, candidate) is None

    def mismatch(
        self, alternative: RequestAlternative, candidate: DeviceCandidate
    ) -> Mismatch | None:
        """Return the first selector that the device does not match; None if it matches all."""
        device_class = alternative.device_class
        of_class, source = device_class.spec.selectors, f"class {device_class.name}"
        number = self._first_mismatch(source, of_class, candidate)
        if number is not None:
            return Mismatch(source, number, of_class[number], number)
        if not alternative.selectors:
            return None
        claim = self._claims[alternative.claim]
        source = f"claim {claim_label(claim)}"
        number = self._first_mismatch(source, alternative.selectors, candidate, claim.namespace)
        if number is None:
            return None
        return Mismatch(source, number, alternative.selectors[number], len(of_class) + number)

    def select_in_steps(
        self, alternatives: Sequence[RequestAlternative], candidates: Sequence[DeviceCandidate]
    ) -> Iterator[None]:
        """Evaluate all selectors for devices, with pauses; the candidates keep the results.

        There is a pause before anything that takes long.
        """
        if not candidates:
            return
        yield
        yield from self._compile_in_steps(alternatives)
        selectors, done = self.selectors, 0
        for candidate in candidates:
            for alternative in alternatives:
                before = selectors.work
                # An error is raised again where the device is tried.
                with suppress(AllocationError):
                    self.selected(alternative, candidate)
                count = max(alternative.selector_count, 1)
                new = selectors.work - before
                done += new + count * (_WORK_OF_EVALUATION if new else _WORK_OF_LOOKUP)
                if done >= _WORK_A_STEP:
                    done = 0
                    yield

    def _compile_in_steps(self, alternatives: Sequence[RequestAlternative]) -> Iterator[None]:
        if self._is_compiled:
            return
        self._is_compiled = True
        selectors = self.selectors
        before = selectors.work
        for expression, owner in self._owners(alternatives).items():
            if selectors.work - before >= _WORK_A_STEP:
                yield
                before = selectors.work
            with suppress(CompileError):
                selectors.compile(expression, owner)
        if selectors.work != before:
            yield

    def _owners(self, alternatives: Sequence[RequestAlternative]) -> dict[str, str]:
        """Return each expression with its owner: the claim's namespace, or "" for a class."""
        owners: dict[str, str] = {}
        for alternative in alternatives:
            if alternative.selectors:
                namespace = self._claims[alternative.claim].namespace
                owners |= dict.fromkeys(map(expression_of, alternative.selectors), namespace)
        for alternative in alternatives:
            of_class = alternative.device_class.spec.selectors
            owners |= dict.fromkeys(map(expression_of, of_class), "")
        return owners

    def _first_mismatch(
        self,
        source: str,
        expressions: Sequence[DeviceSelector],
        candidate: DeviceCandidate,
        namespace: str = "",
    ) -> int | None:
        for i, selector in enumerate(expressions):
            expression = expression_of(selector)
            try:
                if not candidate.selected_by(expression, self.selectors, namespace):
                    return i
            except CompileError as failure:
                raise AllocationError(
                    f"{source}: selector #{i}: CEL compile error: {failure.message}"
                ) from failure
            except EvaluationError as failure:
                raise AllocationError(
                    f"{source}: selector #{i}: CEL runtime error: {failure.message}"
                ) from failure
        return None


def expression_of(selector: DeviceSelector) -> str:
    """Return the expression of a selector."""
    return selector.cel.expression if selector.cel else ""


def tolerated(taints: Sequence[Taint], tolerations: tuple[Toleration, ...]) -> bool:
    """Return whether every NoSchedule and NoExecute taint is tolerated."""
    return not taints or next(untolerated(taints, tolerations), None) is None


def untolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Iterator[Taint]:
    """Return the NoSchedule and NoExecute taints that are not tolerated."""
    return (
        taint
        for taint in taints
        if taint.effect in _BLOCKING_EFFECTS
        and not any(tolerates(toleration, taint) for toleration in tolerations)
    )
