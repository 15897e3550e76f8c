"""Node selectors, node affinity, and a pod's priority."""

import re

import pytest

from holdfast.api.decode import convert_object
from holdfast.api.meta import Requirement
from holdfast.api.node import Node
from holdfast.api.node_selection import (
    compile_expressions,
    compile_preferred,
    compile_selector,
    required_nodes,
)
from holdfast.api.pod import NodeSelector, Pod, PreferredSchedulingTerm
from holdfast.runtime.errors import BadRequest
from holdfast.scheduling.framework.world import World
from parity.harness import parity

FILE = "component_helpers.jsonl"
REASONS = {"Invalid value": "FieldValueInvalid", "Unsupported value": "FieldValueNotSupported"}


def mistakes(text):
    """Return the field paths and error types of an upstream error, one or several in brackets."""
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    found = re.findall(r"(?:^|, )(\S+): (Invalid value|Unsupported value): ", text)
    return [(path, REASONS[kind]) for path, kind in found]


def ours(causes):
    return [(cause.field, cause.reason) for cause in causes]


def node(raw):
    found = convert_object(raw or {}, Node)
    return found.metadata.labels, found.name


@parity(FILE, "TestMatchNodeSelectorTerms")
def test_terms_match(record):
    selector = convert_object(record.input["nodeSelector"] or {}, NodeSelector)
    got = compile_selector(selector).matches(*node(record.input["node"]))
    assert got == record.expected["want"]


@parity(FILE, "TestNodeSelectorMatch")
def test_a_selector_matches_or_names_its_mistakes(record):
    selector = convert_object(record.input["nodeSelector"], NodeSelector)
    compiled = compile_selector(selector)
    if record.expected["wantErr"]:
        wanted = mistakes(record.expected["wantErr"])
        assert wanted
        assert ours(compiled.mistakes) == wanted
    else:
        assert not compiled.mistakes
        got = compiled.matches(*node(record.input["node"]))
        assert got == record.expected["wantMatch"]


@parity(FILE, "TestNodeSelectorRequirementsAsSelector")
def test_expressions_compile(record):
    expressions = [convert_object(raw, Requirement) for raw in record.input["in"] or ()]
    got, causes = compile_expressions(expressions, "root")
    wanted = [pair for text in record.expected["wantErr"] or () for pair in mistakes(text)]
    assert ours(causes) == wanted
    if not wanted:
        out = record.expected["out"]
        requirements = got.requirements and [
            {"key": r.key, "operator": r.operator, "values": list(r.values)}
            for r in got.requirements
        ]
        assert (requirements, str(got)) == (out["requirements"], out["string"])


@parity(FILE, "TestPodMatchesNodeSelectorAndAffinityTerms")
def test_required_nodes_match(record):
    pod = convert_object(record.input["pod"], Pod)
    got = required_nodes(pod).matches(record.input["labels"] or {}, record.input["nodeName"])
    assert got == record.expected["want"]


@parity(FILE, "TestPreferredSchedulingTermsScore")
def test_preferred_nodes_score(record):
    preferred_terms = [
        convert_object(raw, PreferredSchedulingTerm) for raw in record.input["prefSchedTerms"]
    ]
    if record.expected["wantErr"]:
        with pytest.raises(BadRequest) as refused:
            compile_preferred(preferred_terms)
        wanted = mistakes(record.expected["wantErr"])
        assert wanted
        assert ours(refused.value.details.causes) == wanted
    else:
        got = compile_preferred(preferred_terms).score(*node(record.input["node"]))
        assert got == record.expected["wantScore"]


@parity(FILE, "TestPodPriority")
def test_priority(record):
    pod = convert_object(record.input["pod"], Pod)
    assert World().pod_info(pod).priority == record.expected["expectedPriority"]
