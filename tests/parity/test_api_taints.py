"""Taints and tolerations."""

from holdfast.api.decode import convert_object
from holdfast.api.node import Taint
from holdfast.api.pod import Toleration
from holdfast.api.tolerations import compares, find_untolerated, same_taint, tolerates
from parity.harness import parity


def taint(raw):
    return convert_object(raw, Taint)


@parity("taints.jsonl", "TestMatchTaint")
def test_same_taint(record):
    got = same_taint(taint(record.input["taint"]), taint(record.input["taintToMatch"]))
    assert got == record.expected["expectMatch"]


@parity("taints.jsonl", "TestTolerationToleratesTaint")
def test_tolerates(record):
    toleration = convert_object(record.input["toleration"], Toleration)
    comparisons = record.input["enableTaintTolerationComparisonOperatorsFG"]
    got = tolerates(toleration, taint(record.input["taint"]), comparisons=comparisons)
    assert got == record.expected["expectTolerated"]


@parity("taints.jsonl", "TestCompareNumericValues")
def test_numbers_compare(record):
    theirs, ours = record.input["taintVal"], record.input["tolerationVal"]
    operator, wanted = record.input["operator"], record.expected["expectedResult"]
    assert compares(operator, theirs, ours) == wanted
    if operator in ("Gt", "Lt"):
        toleration = Toleration(key="k", operator=operator, value=ours)
        assert tolerates(toleration, Taint(key="k", value=theirs), comparisons=True) == wanted
        assert not tolerates(toleration, Taint(key="k", value=theirs))


@parity("component_helpers.jsonl", "TestFindMatchingUntoleratedTaint")
def test_find_untolerated(record):
    left = [taint(raw) for raw in record.input["taintsAfterFilter"]]
    found = find_untolerated(
        [taint(raw) for raw in record.input["taints"]],
        [convert_object(raw, Toleration) for raw in record.input["tolerations"]],
        lambda one: one in left,
        comparisons=record.input["enableComparisonOperatorsFG"],
    )
    assert (found is None) == record.expected["expectTolerated"]
