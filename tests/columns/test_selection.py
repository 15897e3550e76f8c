"""Node selectors over columns match like those of single nodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.api.decode import convert_object
from holdfast.api.node_selection import compile_selector
from holdfast.api.pod import NodeSelector
from holdfast.scheduling.plugins.dynamic_resources.device_search import usable_nodes
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.selection import terms_selected
from holdfast.testing import a_claim, a_node, typed

LABELS = ({"zone": "x"}, {"zone": "y", "size": "3"}, {"size": "12"}, {})


def nodes_of(*labels):
    nodes = NodeTable()
    for name, some in zip("abcdefgh", labels, strict=False):
        nodes.upsert_node(typed(a_node(name, labels=some)))
    return nodes


def expression(keys, operators, values):
    return st.fixed_dictionaries(
        {
            "key": st.sampled_from(keys),
            "operator": st.sampled_from(operators),
            "values": st.lists(st.sampled_from(values), max_size=2),
        }
    )


EXPRESSION = expression(
    ("zone", "size"), ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near"), ("x", "y", "5")
)
FIELD = expression(
    ("metadata.name", "metadata.uid", "spec.unschedulable"), ("In", "NotIn", "Exists"), ("a", "")
)
TERM = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.lists(EXPRESSION, max_size=2),
        "matchFields": st.lists(FIELD, max_size=2),
    },
)


@given(st.lists(TERM, max_size=3))
def test_rows_match_like_single_nodes(terms):
    nodes = nodes_of(*LABELS)
    compiled = compile_selector(convert_object({"nodeSelectorTerms": terms}, NodeSelector))
    rows = slice(0, nodes.size)
    alone = [compiled.matches(n.metadata.labels, n.name) for n in nodes.nodes[rows]]
    assert terms_selected(nodes, compiled, rows).tolist() == alone
    unnamed = [compiled.matches(n.metadata.labels, "") for n in nodes.nodes[rows]]
    assert terms_selected(nodes, compiled, rows, by_labels_alone=True).tolist() == unnamed


def field(key, operator, *values):
    return {"matchFields": [{"key": key, "operator": operator, "values": values}]}


def label(operator, *values):
    return {"matchExpressions": [{"key": "zone", "operator": operator, "values": values}]}


@pytest.mark.parametrize(
    ("term", "rows"),
    [
        (field("metadata.name", "In", "b"), [0, 1, 0]),
        (field("metadata.name", "NotIn", "b"), [1, 0, 1]),
        # Of a node, upstream knows no field but the name: the others read as empty.
        (field("metadata.uid", "In", "b"), [0, 0, 0]),
        (field("metadata.uid", "NotIn", "b"), [1, 1, 1]),
        (field("metadata.uid", "In", ""), [1, 1, 1]),
        # More than one value is a mistake, and a term with a mistake chooses nothing.
        (field("metadata.name", "NotIn", "a", "b"), [0, 0, 0]),
        (label("In", "x"), [1, 0, 0]),
        (label("DoesNotExist"), [0, 0, 1]),
        (label("Exists"), [1, 1, 0]),
        ({}, [0, 0, 0]),
    ],
)
def test_a_claim_can_be_used_where_its_node_selector_matches(term, rows):
    nodes = nodes_of({"zone": "x"}, {"zone": "y"}, {})
    allocation = {"devices": {}, "nodeSelector": {"nodeSelectorTerms": [term]}}
    claim = typed(a_claim(status={"allocation": allocation}))
    assert usable_nodes(claim, nodes).tolist() == [bool(r) for r in rows]
