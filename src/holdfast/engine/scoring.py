"""Scores of feasible rows in full: raw, normalized, weighted; and the tiers above them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.engine.prepared import Prepared
from holdfast.engine.profile import Profile
from holdfast.errors import HoldfastError
from holdfast.framework.plugin import AnyRows, RawScores, Reject, Rows
from holdfast.framework.plugin import Skip as Skipped

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


def weighted_apart(
    profile: Profile, prepared: Prepared, rows: AnyRows
) -> NDArray[np.float64] | float:
    """What a plugin that is asked every time adds to the sums of the others.

    Rows are a slice when every row of the picture is ranked.
    """
    asked = rows
    if isinstance(rows, slice) and not prepared.use.accepts_slices:
        asked = np.arange(rows.stop, dtype=np.intp)
    if not _ready(prepared, asked):
        return 0.0
    weight = profile.weight(prepared.use.name)
    if prepared.use.tabulates:
        found = prepared.plugin.score_table(prepared.state, asked)
        if found is not None:
            places, table = found
            scores: RawScores = (table if weight == 1 else table * weight).take(places)
            return scores
    normalized = _normalized(prepared, asked, _raw(prepared, asked))
    return normalized if weight == 1 else normalized * weight


def _score(profile: Profile, prepared: Prepared, rows: Rows) -> Score | None:
    if not _ready(prepared, rows):
        return None
    name, raw = prepared.use.name, _raw(prepared, rows)
    return Score(name, profile.weight(name), raw, _normalized(prepared, rows, raw))


def _ready(prepared: Prepared, rows: AnyRows) -> bool:
    """Let a plugin look at the rows to be scored; tell whether it adds anything to the sum."""
    plugin = prepared.plugin
    if prepared.score_error:
        raise InvalidScore(f'running PreScore plugin "{plugin.name}": {prepared.score_error}')
    if prepared.use.pre_scores:
        answer = plugin.pre_score(prepared.state, rows)
        if isinstance(answer, Reject):
            words = ", ".join(answer.reasons)
            raise InvalidScore(f'running PreScore plugin "{plugin.name}": {words}')
        return not isinstance(answer, Skipped)
    return True


def _raw(prepared: Prepared, rows: AnyRows) -> RawScores:
    raw: RawScores
    if prepared.answers is not None and prepared.answers.raw is not None:
        raw = prepared.answers.raw[rows]
    else:
        raw = prepared.plugin.score(prepared.state, rows)
    return raw


def _normalized(prepared: Prepared, rows: AnyRows, raw: RawScores) -> RawScores:
    plugin, state, use = prepared.plugin, prepared.state, prepared.use
    normalized = raw
    if use.normalizes:
        normalized = plugin.normalize_score(state, rows, raw)
    elif use.scales:
        normalized = plugin.normalize_by_range(state, raw, float(raw.min()), float(raw.max()))
    if (
        not use.bounded_scores
        and len(normalized)
        and (normalized.min() < 0 or normalized.max() > 100)
    ):
        wrong = int(np.argmax((normalized < 0) | (normalized > 100)))
        raise InvalidScore(
            f'plugin "{plugin.name}" returns an invalid score {int(normalized[wrong])}, '
            "it should in the range of [0, 100] after normalizing"
        )
    return normalized
