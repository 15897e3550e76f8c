"""Which of the devices that fit are taken first."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.device_share.candidates import Candidates
from holdfast.device_share.scoring import ScoringStrategy


@dataclass(frozen=True, slots=True)
class Preference:
    """Devices (type, minor) and PCIe switches to prefer; without a strategy all scores are 0."""

    devices: frozenset[tuple[str, int]] = frozenset()
    strategy: ScoringStrategy | None = None
    pcies: frozenset[int] = frozenset()

    def score(self, candidates: Candidates, minor: int) -> int:
        """Return the score of a device for the request."""
        if self.strategy is None:
            return 0
        return self.strategy.score(
            candidates.kind,
            candidates.amounts,
            candidates.devices[minor].total,
            candidates.free[minor],
        )


def best_first(candidates: Candidates, preference: Preference) -> list[int]:
    """Return the minors: preferred ones, one of each preferred PCIe, high scores, low minors."""
    ordered = sorted(candidates.devices, key=lambda minor: -preference.score(candidates, minor))
    if not preference.devices and not preference.pcies:
        return ordered
    rounds: dict[int, int] = {}
    places: dict[int, tuple[bool, int]] = {}
    for minor in ordered:
        pcie = candidates.devices[minor].pcie
        rounds[pcie] = rounds.get(pcie, 0) + 1
        turn = rounds[pcie] if pcie in preference.pcies else len(ordered) + 1
        places[minor] = (candidates.kind, minor) not in preference.devices, turn
    return sorted(ordered, key=places.__getitem__)
