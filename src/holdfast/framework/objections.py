"""How a rejection is put together: one word for all nodes, or each row's first objection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any

import numpy as np

from holdfast.framework.hypothesis import judge
from holdfast.framework.plugin import Change, Code, Reject, Rows, State, Verdicts
from holdfast.framework.prepared import Prepared
from holdfast.framework.rejection import EXCLUDED, PASSED, Rejection, Word
from holdfast.framework.view import View

_MOST_NOMINATED = 16

_place = attrgetter("traits.place")


def filters_of(active: Iterable[Prepared]) -> tuple[tuple[Any, State], ...]:
    """Plugins that filter for this pod, with their states, in order."""
    return tuple((p.plugin, p.state) for p in in_turn(active))


def in_turn(active: Iterable[Prepared]) -> list[Prepared]:
    """What filters for this pod, in the order of the filters, which need not be that of active."""
    return sorted((p for p in active if p.filters), key=_place)


def rejection_of(
    view: View,
    active: Iterable[Prepared],
    *,
    prefilter: tuple[str, Reject] | None = None,
    error: str = "",
) -> Rejection:
    """Make a rejection that counts for every node alike."""
    nodes = view.nodes
    codes = np.zeros(nodes.size, np.int8)
    if prefilter is not None:
        codes[nodes.rows] = prefilter[1].code
    return Rejection(
        pod=view.pod, view=view, nodes=nodes.node_count, codes=codes,
        plugin_of=np.full(nodes.size, PASSED, np.int8), filters=filters_of(active),
        states={p.plugin.name: p.state for p in active if not p.skip and p.reject is None},
        prepared=_reached(active), prefilter=prefilter, error=error,
    )  # fmt: skip


def _reached(active: Iterable[Prepared]) -> frozenset[str]:
    """Plugins that had their turn to prepare: an unresolvable word ends it."""
    names = []
    for prepared in active:
        names.append(prepared.plugin.name)
        if prepared.reject is not None and prepared.reject.code is not Code.UNSCHEDULABLE:
            break
    return frozenset(names)


def refused(view: View, active: list[Prepared], plugin: str, reject: Reject) -> Rejection:
    """Make the rejection of a pod that did not get beyond preparing."""
    if reject.code is Code.ERROR:
        words = ", ".join(reject.reasons)
        return rejection_of(view, active, error=f'running PreFilter plugin "{plugin}": {words}')
    return rejection_of(view, active, prefilter=(plugin, reject))


def first_objections(view: View, active: list[Prepared], words: Mapping[int, Word]) -> Rejection:
    """Find each row's first objection, asking in order and only about rows still undecided."""
    nodes = view.nodes
    told = rejection_of(view, active)
    narrowing = [p for p in active if p.narrow is not None]
    told.narrowed_by = tuple(p.plugin.name for p in narrowing)
    undecided = nodes.alive[: nodes.size].copy()
    promised: int | None = None
    if narrowing:
        kept = np.zeros(nodes.size, np.bool_)
        kept[common_rows(narrowing)] = True
        out = (undecided & ~kept).nonzero()[0]
        told.codes[out], told.plugin_of[out] = Code.UNRESOLVABLE, EXCLUDED
        undecided[out] = False
        promised = nodes.row_of.get(view.pod.pod.status.nominated_node_name)
        if promised is not None:
            undecided[promised] = True  # it is tried first, whatever anybody narrows to
    for index, prepared in enumerate(in_turn(active)):
        rows = undecided.nonzero()[0]
        verdicts = _verdicts(prepared, rows)
        out = verdicts.nonzero()[0]
        told.codes[rows[out]], told.plugin_of[rows[out]] = verdicts[out], index
        undecided[rows[out]] = False
    if promised is not None and told.plugin_of[promised] >= 0:
        # Upstream names it among those that narrowed.
        told.narrowed_by = tuple({*told.narrowed_by, told.plugin_at(promised)})
    told.words = {**_beside_nominated(told), **words}
    for row, word in told.words.items():
        told.codes[row], told.plugin_of[row] = word.code, PASSED
    return told


def _beside_nominated(told: Rejection) -> Mapping[int, Word]:
    """What is said first against rows that pods are nominated to: with those pods there.

    Only the words differ, the rows will not do either way; so only a few rows are asked again.
    """
    nominated = told.view.nominated
    if len(nominated) > _MOST_NOMINATED:
        return {}
    words = {
        row: judge(told.filters, row, Change({row: tuple(others.values())}))
        for row, others in nominated.items()
        if told.plugin_of[row] >= 0
    }
    return {row: word for row, word in words.items() if word is not None}


def _verdicts(prepared: Prepared, rows: Rows) -> Verdicts:
    if prepared.answers is not None and prepared.answers.verdicts is not None:
        kept: Verdicts = prepared.answers.verdicts[rows]
        return kept
    answer: Verdicts = prepared.plugin.filter(prepared.state, rows)
    return answer


def common_rows(narrowing: list[Prepared]) -> Rows:
    """Rows that every one of them allows."""
    common = narrowing[0].narrow
    assert common is not None
    for prepared in narrowing[1:]:
        common = np.intersect1d(common, prepared.narrow)  # type: ignore[arg-type]
    return common
