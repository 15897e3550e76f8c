"""Run the Score plugins for feasible rows: raw, normalized and weighted scores, and tiers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.runtime.errors import HoldfastError
from holdfast.scheduling.engine.plugin_results import PreFilterOutcome
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.plugin import AnyRows, RawScores, Reject, Rows
from holdfast.scheduling.framework.plugin import Skip as Skipped

HIGHEST_SCORE = 100
"""The highest normalized score of a plugin."""


@dataclass(frozen=True, slots=True)
class Score:
    """The scores of one plugin for the rows that are compared."""

    plugin: str
    weight: int
    raw: RawScores
    normalized: RawScores

    @property
    def weighted(self) -> RawScores:
        """The normalized scores, multiplied by the weight of the plugin."""
        return self.normalized * self.weight


class InvalidScore(HoldfastError):
    """A score is outside 0..100, or scoring failed: the scheduling attempt ends with an error."""


def best_tier(outcomes: Iterable[PreFilterOutcome], rows: Rows) -> Rows:
    """Return the rows of the lowest tier; if several plugins have tiers, the first decides."""
    for outcome in outcomes:
        if outcome.tiers:
            tiers = outcome.plan.tier(rows)
            rows = rows[tiers == tiers.min()]
    return rows


def score_rows(profile: Profile, outcomes: Iterable[PreFilterOutcome], rows: Rows) -> list[Score]:
    """Return the scores of every plugin for ``rows``, which are all rows that are compared."""
    return [
        score
        for outcome in outcomes
        if outcome.scores and (score := _score(profile, outcome, rows)) is not None
    ]


def run_pre_score_plugins(outcomes: Iterable[PreFilterOutcome], rows: Rows) -> None:
    """Call ``pre_score`` of the plugins that do not score; a single row is not compared."""
    for outcome in outcomes if len(rows) > 1 else ():
        if outcome.only_pre_scores:
            _pre_score(outcome, rows)


def total(scores: Iterable[Score], count: int) -> NDArray[np.float64]:
    """Return the weighted sum per row."""
    sums = np.zeros(count)
    for score in scores:
        sums += score.weighted
    return sums


def weighted_scores(
    profile: Profile, outcome: PreFilterOutcome, rows: AnyRows
) -> NDArray[np.float64] | float:
    """Return the weighted scores of a plugin that scores for every pod.

    ``rows`` is a slice if all rows of the node table are compared.
    """
    passed = rows
    if isinstance(rows, slice) and not outcome.use.accepts_slices:
        passed = np.arange(rows.stop, dtype=np.intp)
    if not _pre_score(outcome, passed):
        return 0.0
    weight = profile.weight(outcome.use.name)
    if outcome.methods.has_score_table:
        indexed_table = outcome.plan.score_table(passed)
        if indexed_table is not None:
            indexes, table = indexed_table
            scores: RawScores = (table if weight == 1 else table * weight).take(indexes)
            return scores
    normalized = _normalized(outcome, passed, _raw(outcome, passed))
    return normalized if weight == 1 else normalized * weight


def _score(profile: Profile, outcome: PreFilterOutcome, rows: Rows) -> Score | None:
    if not _pre_score(outcome, rows):
        return None
    name, raw = outcome.use.name, _raw(outcome, rows)
    return Score(name, profile.weight(name), raw, _normalized(outcome, rows, raw))


def _pre_score(outcome: PreFilterOutcome, rows: AnyRows) -> bool:
    """Call a plugin's ``pre_score``; return whether it scores the rows."""
    if outcome.plan.score_error:
        raise _failed_pre_score(outcome, outcome.plan.score_error)
    if outcome.methods.pre_scores:
        result = outcome.pre_score(rows)
        if isinstance(result, Reject):
            raise _failed_pre_score(outcome, ", ".join(result.reasons))
        return not isinstance(result, Skipped)
    return True


def _failed_pre_score(outcome: PreFilterOutcome, why: str) -> InvalidScore:
    return InvalidScore(f'running PreScore plugin "{outcome.use.name}": {why}')


def _raw(outcome: PreFilterOutcome, rows: AnyRows) -> RawScores:
    raw: RawScores
    if outcome.row_results is not None and outcome.row_results.raw is not None:
        raw = outcome.row_results.raw[rows]
    else:
        raw = outcome.score(rows)
    return raw


def _normalized(outcome: PreFilterOutcome, rows: AnyRows, raw: RawScores) -> RawScores:
    plan, methods = outcome.plan, outcome.methods
    normalized = raw
    if methods.normalizes:
        normalized = plan.normalize_score(rows, raw)
    elif methods.normalizes_by_range:
        normalized = plan.normalize_by_range(raw, float(raw.min()), float(raw.max()))
    if (
        not outcome.use.bounded_scores
        and len(normalized)
        and (normalized.min() < 0 or normalized.max() > 100)
    ):
        wrong = int(np.argmax((normalized < 0) | (normalized > 100)))
        raise InvalidScore(
            f'plugin "{outcome.use.name}" returns an invalid score {int(normalized[wrong])}, '
            "it should in the range of [0, 100] after normalizing"
        )
    return normalized
