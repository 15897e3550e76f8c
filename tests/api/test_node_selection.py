"""Node selectors beyond the parity vectors."""

from holdfast.api.decode import convert_object
from holdfast.api.node_selection import compile_selector, preferred_nodes, required_nodes
from holdfast.api.pod import NodeSelector, Pod


def selector(*terms):
    return convert_object({"nodeSelectorTerms": list(terms)}, NodeSelector)


def test_an_invalid_term_affects_only_itself():
    wrong = {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}
    right = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    compiled = compile_selector(selector(wrong, right))
    assert compiled.matches({"a": "1"}, "n")
    assert [cause.field for cause in compiled.mistakes] == [
        "nodeSelectorTerms[0].matchExpressions[0].operator"
    ]


def test_errors_of_node_selectors_are_upstreams():
    wrong = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]}
    (mistake,) = compile_selector(selector(wrong), "spec").mistakes
    assert str(mistake) == (
        "spec.nodeSelectorTerms[0].matchFields[0].values: "
        'Invalid value: ["a","b"]: must have one element'
    )


def test_a_field_that_is_not_the_name_matches_no_value():
    term = {"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["n"]}]}
    assert not compile_selector(selector(term)).matches({}, "n")


def test_a_pod_without_node_affinity_matches_every_node():
    assert required_nodes(Pod()).everything
    assert required_nodes(Pod()).matches({}, "n")
    assert preferred_nodes(Pod()).score({}, "n") == 0
