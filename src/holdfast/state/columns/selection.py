"""Label selectors and node selectors, evaluated for many rows at once.

They are the selectors that ``api.labels`` and ``api.node_selection`` compile and evaluate for one
node; here a label is tested by comparing value ids.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.api import labels as label_selection
from holdfast.api.labels import LabelRequirement, Selector
from holdfast.api.names import parse_integer
from holdfast.api.node_selection import (
    NAME_FIELD,
    UNKNOWN_FIELD,
    NodeTerm,
    NodeTerms,
    RequiredNodes,
)
from holdfast.state.columns.node_labels import Ids, LabelColumn
from holdfast.state.columns.node_table import NodeTable

Bools = NDArray[np.bool_]
SomeRows = NDArray[np.intp] | slice


def selected(nodes: NodeTable, selector: Selector, rows: SomeRows) -> Bools:
    """Return which rows a label selector matches."""
    mask = np.ones(_count(nodes, rows), np.bool_)
    if selector.requirements is None:
        return ~mask
    for requirement in selector.requirements:
        mask &= _passes(nodes.label_column(requirement.key), requirement, rows)
    return mask


def term_selected(
    nodes: NodeTable, term: NodeTerm, rows: SomeRows, *, by_labels_alone: bool = False
) -> Bools:
    """Return which rows a node selector term matches; an invalid term matches none.

    ``by_labels_alone`` skips the term's field requirements.
    """
    if term.mistakes:
        return np.zeros(_count(nodes, rows), np.bool_)
    mask = selected(nodes, term.labels, rows)
    for requirement in () if by_labels_alone else term.fields.requirements:
        if requirement.path == NAME_FIELD:
            named = np.full(nodes.capacity, not requirement.equal)
            if (row := nodes.row_of.get(requirement.value)) is not None:
                named[row] = requirement.equal
            mask &= named[rows]
        else:
            mask &= requirement.holds(UNKNOWN_FIELD)
    return mask


def terms_selected(
    nodes: NodeTable, terms: NodeTerms, rows: SomeRows, *, by_labels_alone: bool = False
) -> Bools:
    """Return which rows any of the terms matches."""
    mask = np.zeros(_count(nodes, rows), np.bool_)
    for term in terms.terms:
        mask |= term_selected(nodes, term, rows, by_labels_alone=by_labels_alone)
    return mask


def required_selected(nodes: NodeTable, required: RequiredNodes, rows: SomeRows) -> Bools:
    """Return which rows a pod's node selector and required affinity match."""
    mask = selected(nodes, required.labels, rows)
    if required.terms is not None:
        mask &= terms_selected(nodes, required.terms, rows)
    return mask


def _count(nodes: NodeTable, rows: SomeRows) -> int:
    return len(range(*rows.indices(nodes.capacity))) if isinstance(rows, slice) else len(rows)


def _passes(column: LabelColumn, requirement: LabelRequirement, rows: SomeRows) -> Bools:
    ids = column.ids[rows]
    match requirement.operator:
        case "in" | "=" | "==":
            return _one_of(column, requirement, ids)
        case "notin" | "!=":
            return ~_one_of(column, requirement, ids)
        case "exists":
            return ids >= 0
        case "!":
            return ids < 0
    bound = parse_integer(requirement.values[0])
    if bound is None:
        return np.zeros(len(ids), np.bool_)
    beyond = column.compare(bound, greater=requirement.operator == label_selection.GREATER)
    passes: Bools = beyond[ids]  # an absent value is -1, the last cell, which is False
    return passes


def _one_of(column: LabelColumn, requirement: LabelRequirement, ids: Ids) -> Bools:
    wanted = [v for value in requirement.values if (v := column.values.find(value)) >= 0]
    if len(wanted) == 1:
        same: Bools = ids == wanted[0]
        return same
    mask: Bools = np.isin(ids, wanted)
    return mask
