"""Scores of feasible rows in full: raw, normalized, weighted; and the tiers above them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import HoldfastError
from holdfast.framework.plugin import (
    AnyRows,
    Normalizes,
    PreScores,
    RawScores,
    Reject,
    Rows,
    Scales,
    implements,
)
from holdfast.framework.plugin import Skip as Skipped
from holdfast.framework.prepared import Prepared
from holdfast.framework.profile import Profile

HIGHEST_SCORE = 100
"""The best a plugin can say of a node."""


@dataclass(frozen=True, slots=True)
class Score:
    """What one plugin gives each of the rows asked about."""

    plugin: str
    weight: int
    raw: RawScores
    normalized: RawScores

    @property
    def weighted(self) -> RawScores:
        """What counts in the sum."""
        return self.normalized * self.weight


class InvalidScore(HoldfastError):
    """A plugin's score is outside 0..100, or scoring failed: the attempt is an error."""


def best_tier(active: Iterable[Prepared], rows: Rows) -> Rows:
    """Rows of the lowest tier; of several plugins with tiers the first is compared first."""
    for prepared in active:
        if prepared.tiers:
            tiers = prepared.plugin.tier(prepared.state, rows)
            rows = rows[tiers == tiers.min()]
    return rows


def score_rows(profile: Profile, active: Iterable[Prepared], rows: Rows) -> list[Score]:
    """Every plugin's scores of the rows, which are all the rows being ranked."""
    return [
        score
        for prepared in active
        if prepared.scores and (score := _score(profile, prepared, rows)) is not None
    ]


def total(scores: Iterable[Score], count: int) -> NDArray[np.float64]:
    """The weighted sum of each row."""
    sums = np.zeros(count)
    for score in scores:
        sums += score.weighted
    return sums


def add_apart(
    profile: Profile, apart: Iterable[Prepared], rows: AnyRows, sums: NDArray[np.float64]
) -> None:
    """Add the scores of plugins that are asked every time to the sums of the others.

    Rows are a slice when every row of the picture is ranked.
    """
    for prepared in apart:
        asked = rows
        if isinstance(rows, slice) and not prepared.traits.sliced:
            asked = np.arange(rows.stop, dtype=np.intp)
        score = _score(profile, prepared, asked)
        if score is not None:
            sums += score.normalized if score.weight == 1 else score.weighted


def _score(profile: Profile, prepared: Prepared, rows: AnyRows) -> Score | None:
    plugin, state = prepared.plugin, prepared.state
    if prepared.mistake:
        raise InvalidScore(f'running PreScore plugin "{plugin.name}": {prepared.mistake}')
    if implements(plugin, PreScores):
        answer = plugin.pre_score(state, rows)
        if isinstance(answer, Skipped):
            return None
        if isinstance(answer, Reject):
            words = ", ".join(answer.reasons)
            raise InvalidScore(f'running PreScore plugin "{plugin.name}": {words}')
    if prepared.answers is not None and prepared.answers.raw is not None:
        raw = prepared.answers.raw[rows]
    else:
        raw = plugin.score(state, rows)
    normalized = raw
    if implements(plugin, Normalizes):
        normalized = plugin.normalize(state, rows, raw)
    elif implements(plugin, Scales):
        normalized = plugin.scale(state, raw, float(raw.min()), float(raw.max()))
    if len(normalized) and (normalized.min() < 0 or normalized.max() > 100):
        wrong = int(np.argmax((normalized < 0) | (normalized > 100)))
        raise InvalidScore(
            f'plugin "{plugin.name}" returns an invalid score {int(normalized[wrong])}, '
            "it should in the range of [0, 100] after normalizing"
        )
    return Score(plugin.name, profile.weight(plugin.name), raw, normalized)
