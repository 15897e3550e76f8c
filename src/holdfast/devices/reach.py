"""On which rows an allocated claim can be used, without walking over nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.api.meta import Requirement
from holdfast.api.node_selection import NAME_FIELD, compile_expressions
from holdfast.api.pod import NodeSelector, NodeSelectorTerm
from holdfast.columns.picture import Picture

Mask = NDArray[np.bool_]


def reachable(selector: NodeSelector | None, nodes: Picture) -> Mask:
    """Tell for each row whether the selector includes its node; no selector includes all."""
    size = nodes.size
    if selector is None:
        return np.ones(size, np.bool_)
    found = np.zeros(size, np.bool_)
    for term in selector.node_selector_terms:
        if term.match_fields or term.match_expressions:
            found |= _term(term, nodes)
    return found


def _term(term: NodeSelectorTerm, nodes: Picture) -> Mask:
    mask = np.ones(nodes.size, np.bool_)
    for requirement in term.match_fields:
        mask &= _name(requirement, nodes)
    for requirement in term.match_expressions:
        mask &= _label(requirement, nodes)
    return mask


def _name(requirement: Requirement, nodes: Picture) -> Mask:
    named = np.zeros(nodes.size, np.bool_)
    if requirement.key != NAME_FIELD or requirement.operator not in ("In", "NotIn"):
        return named
    for name in requirement.values:
        if (row := nodes.row_of.get(name)) is not None:
            named[row] = True
    return named if requirement.operator == "In" else ~named


def _label(requirement: Requirement, nodes: Picture) -> Mask:
    """Ask the requirement about each distinct value of the label, then spread the answers."""
    selector, _ = compile_expressions((requirement,))
    column = nodes.label_column(requirement.key)
    told = [selector.matches({requirement.key: value}) for value in column.values]
    answers = np.array([*told, selector.matches({})], np.bool_)  # the last stands for absent
    mask: Mask = answers[column.ids[: nodes.size]]
    return mask
