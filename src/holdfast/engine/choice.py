"""The best of the feasible rows: kept sums where they hold, and what is asked every time on top."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.engine.candidates import Feasible
from holdfast.engine.profile import Profile
from holdfast.engine.scoring import best_tier, score_rows, weighted_apart
from holdfast.engine.scoring import total as total_of
from holdfast.engine.ties import NOWHERE, best_of
from holdfast.framework.plugin import AnyRows, Rows

_FEW = 32
"""So many kept best rows are looked at one by one before all rows are."""


def best_row(
    profile: Profile,
    found: Feasible,
    rng: np.random.Generator,
    points: NDArray[np.float64] | None,
) -> int:
    """Choose a row; among equals each is as likely. ``points`` (one a row) are added."""
    record = found.record
    known = record.simple and found.active is record.prepared and points is None
    if known and found.mask is None:
        ties: Sequence[int] | Rows = record.best_rows()
    elif known and record.flat:
        ties = _best_left(found)
    else:
        if not record.summed and len(only := found.rows) == 1:
            return int(only[0])  # unscored: what is wrong with the scores is no matter
        rows, sums = ranked(profile, found)
        if points is not None:
            sums = sums + points[rows]
        ties = best_of(sums)
        if not isinstance(rows, slice):
            ties = rows[ties]
    count = len(ties)
    return int(ties[0 if count == 1 else int(rng.random() * count)])


def _best_left(found: Feasible) -> Sequence[int] | Rows:
    """The best rows of those the mask leaves, if totals hold for any part of the rows."""
    mask, record = found.mask, found.record
    assert mask is not None
    ties = record.best_rows()
    if len(ties) <= _FEW:
        left = sorted([row for row in ties if mask[row]])
        if left:
            return left
    return best_of(np.where(mask, record.total[: len(mask)], NOWHERE))


def ranked(profile: Profile, found: Feasible) -> tuple[AnyRows, NDArray[np.float64]]:
    """The rows of the best tier and their totals; kept sums are used where they hold."""
    record = found.record
    same = record.summed and found.active is record.prepared
    if not (same and (found.mask is None or record.flat)):
        rows = best_tier(found.active, found.rows)
        return rows, total_of(score_rows(profile, found.active, rows), len(rows))
    size = found.view.nodes.size
    asked: AnyRows = slice(0, size) if found.count == size else found.rows
    sums = record.total[asked] if isinstance(asked, slice) else record.total.take(asked)
    if record.leading is not None:
        sums = sums + record.leading.of(asked)
    for prepared in record.apart:
        sums = sums + weighted_apart(profile, prepared, asked)
    return asked, sums
