"""How a rejection is put together: one word for all nodes, or each row's first objection."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from holdfast.engine.hypothesis import judge
from holdfast.engine.kept_objections import Objections
from holdfast.engine.nominated_pods import Crowd
from holdfast.engine.prepared import Prepared, filters_of, in_turn, reached, states_of
from holdfast.framework.plugin import Change, Code, Reject, Rows, Verdicts
from holdfast.framework.rejection import EXCLUDED, PASSED, Rejection
from holdfast.framework.view import View
from holdfast.framework.words import Words

_MOST_NOMINATED = 16


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
        states=states_of(active), prepared=reached(active), prefilter=prefilter, error=error,
    )  # fmt: skip


def refused(view: View, active: list[Prepared], plugin: str, reject: Reject) -> Rejection:
    """Make the rejection of a pod that did not get beyond preparing."""
    if reject.code is Code.ERROR:
        words = ", ".join(reject.reasons)
        return rejection_of(view, active, error=f'running PreFilter plugin "{plugin}": {words}')
    return rejection_of(view, active, prefilter=(plugin, reject))


def first_objections(
    view: View,
    active: list[Prepared],
    words: Words,
    kept: Objections | None = None,
    crowd: Crowd | None = None,
) -> Rejection:
    """Find each row's first objection; what is kept of a class is taken if it is given."""
    size = view.nodes.size
    if kept is not None:
        kept.count_reasons()
        told = Rejection(
            view.pod, view, view.nodes.node_count, kept.codes[:size].copy(),
            kept.plugin_of[:size].copy(), kept.filters, kept.states, kept.prepared,
            objectors=kept.objectors, memo=kept.memo,
        )  # fmt: skip
    else:
        told = rejection_of(view, active)
        narrowing = [p for p in active if p.narrow is not None]
        told.narrowed_by = tuple(p.plugin.name for p in narrowing)
        _ask_in_turn(told, view, active, narrowing)
    aside = False
    if words or view.world.nominations:
        told.words = words.sized(size)
        aside = _beside_nominated(told, crowd)
    if told.words:
        rows = told.words.write_codes(told.codes)
        if aside:
            # Some speak of rows that were objected to: what is kept counts those too.
            told.plugin_of[rows], told.objectors, told.memo = PASSED, None, None
    return told


def _ask_in_turn(
    told: Rejection, view: View, active: list[Prepared], narrowing: list[Prepared]
) -> None:
    """Ask in order, and only about rows still undecided."""
    nodes = view.nodes
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


def _beside_nominated(told: Rejection, crowd: Crowd | None) -> bool:
    """Let rows that pods are nominated to say what is said first with those pods there.

    Only the words differ, the rows will not do either way; so only a few rows are asked again.
    Tells whether any was.
    """
    nominations, pod = told.view.world.nominations, told.pod
    rows = nominations.promised.rows(pod.priority)
    own = told.view.nodes.row_of.get(nominations.node_of(pod.uid))
    if len(rows) > _MOST_NOMINATED:
        return False
    rows = rows[told.plugin_of[rows] >= 0]
    for row in rows.tolist():
        if told.words.at(row) is not None:
            continue
        if crowd is not None and row != own:
            told.words.put(row, crowd.aside(row))
        else:
            others = tuple(nominations.beside(pod, row).values())
            word = judge(told.filters, row, Change({row: others})) if others else None
            told.words.put(row, word)
    return len(rows) > 0


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
