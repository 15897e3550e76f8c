"""Compare both schedulers on many cases and report the smallest differing case."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from real.differential.comparison import differences
from real.differential.families import Case
from real.differential.referee import ask_both
from real.differential.shrinking import shrink


@dataclass(frozen=True)
class Report:
    """The differing cases and their differences."""

    asked: int
    differing: dict[Case, list[str]]

    def __bool__(self) -> bool:
        return bool(self.differing)

    def text(self, *, seconds: float = 30.0) -> str:
        """Return a report of the smallest differing case, after minimizing it for ``seconds``."""
        case = min(self.differing, key=lambda case: case.size)
        found, small = self.differing[case], shrink(case, seconds)
        seeds = sorted(case.seed for case in self.differing)
        lines = [
            f"{len(seeds)} of {self.asked} cases differ, seeds {seeds}",
            f"the smallest is {case.family} {case.seed}:",
            *(f"  {line}" for line in found),
            f"again: make differential ARGS='{case.family} --seed {case.seed}'",
            f"the minimized case, for pod {case.pod}:",
            *(f"  {json.dumps(obj)}" for obj in small.objects),
            "its differences:",
            *(f"  {line}" for line in compare([small]).differing.get(small, ())),
        ]
        return "\n".join(lines)


def compare(cases: Sequence[Case]) -> Report:
    """Run both schedulers on the cases and compare the answers."""
    theirs, ours = ask_both(cases)
    found = {
        case: differences(one, other) for case, one, other in zip(cases, theirs, ours, strict=True)
    }
    return Report(len(cases), {case: lines for case, lines in found.items() if lines})
