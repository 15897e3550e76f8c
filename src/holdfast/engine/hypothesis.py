"""Verdicts under a hypothesis: what if these pods came to, or left, that row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from holdfast.columns.pod_facts import PodFacts
from holdfast.framework.plugin import NONE, Change, Code, JudgesOne, Rows, State, implements
from holdfast.framework.words import Word

FilterPair = tuple[Any, State]


def judge(filters: Iterable[FilterPair], row: int, change: Change = NONE) -> Word | None:
    """The first objection to the row under a change, or None if it passes."""
    rows: Rows | None = None
    for plugin, state in filters:
        if implements(plugin, JudgesOne):
            verdict = plugin.verdict(state, row, change)
        else:
            rows = np.array([row], np.intp) if rows is None else rows
            verdict = int(plugin.filter(state, rows, change)[0])
        if verdict:
            return Word(plugin.name, Code(verdict), tuple(plugin.reasons(state, row, change)))
    return None


def judge_beside_nominated(
    filters: Sequence[FilterPair],
    row: int,
    nominated: Mapping[str, PodFacts],
    change: Change = NONE,
) -> Word | None:
    """Judge a row twice if pods are nominated to it: with them there, and as it is.

    Both must pass: a nominated pod may take room, and may also go elsewhere after all and with it
    what the pod relies on (its affinity, say).
    """
    if nominated:
        added = {**change.added, row: (*change.added.get(row, ()), *nominated.values())}
        objection = judge(filters, row, Change(added, change.removed))
        if objection is not None:
            return objection
    return judge(filters, row, change)
