"""Upstream's tables of NodeName, NodeUnschedulable, TaintToleration, NodeAffinity, NodePorts."""

import pytest

from holdfast.scheduling.engine.scoring import InvalidScore
from holdfast.scheduling.plugins.node_affinity import NodeAffinityPlugin
from holdfast.scheduling.plugins.node_name import NodeName
from holdfast.scheduling.plugins.node_ports import NodePorts
from holdfast.scheduling.plugins.node_unschedulable import NodeUnschedulable
from holdfast.scheduling.plugins.taint_toleration import TaintToleration
from parity.harness import parity
from parity.scheduling import asked, by_name, node, put, world_of


def one_node(plugin, record):
    here = node(record.input["node"])
    return asked(plugin, record.input["pod"], world_of([here])).filter(here.name)


@parity("nodename.jsonl", "TestNodeName")
def test_node_name(record):
    assert one_node(NodeName({}), record) == record.expected["wantStatus"]


@parity("nodeunschedulable.jsonl", "TestNodeUnschedulable")
def test_node_unschedulable(record):
    assert one_node(NodeUnschedulable({}), record) == record.expected["wantStatus"]


@parity(
    "tainttoleration.jsonl", "TestTaintTolerationFilter", "TestTaintTolerationFilterWithFeatureGate"
)
def test_taints_filter(record):
    comparisons = record.input.get("enableTaintTolerationComparisonOps", False)
    plugin = TaintToleration({}, comparisons=comparisons)
    assert one_node(plugin, record) == record.expected["wantStatus"]


@parity("tainttoleration.jsonl", "TestTaintTolerationScore")
def test_taints_score(record):
    world = world_of([node(raw) for raw in record.input["nodes"]])
    comparisons = record.input.get("enableTaintTolerationComparisonOps", False)
    found = asked(TaintToleration({}, comparisons=comparisons), record.input["pod"], world)
    assert found.scores(normalized=True) == by_name(record.expected["expectedList"])


@parity("nodeaffinity.jsonl", "TestNodeAffinity")
def test_affinity_filter(record):
    here = node(record.input["node"])
    found = asked(
        NodeAffinityPlugin(record.input["args"] or {}), record.input["pod"], world_of([here])
    )
    prefilter = record.expected["wantPreFilterStatus"]
    if record.input["runPreFilter"]:
        assert found.prefilter == prefilter
        wanted = (record.expected["wantPreFilterResult"] or {}).get("nodeNames")
        if wanted is not None:
            # Only existing nodes are in the result.
            assert found.narrowed_to == set(wanted) & {here.name}
        else:
            assert found.narrowed_to is None
    if prefilter["code"] in ("Success", "Skip"):
        got = found.filter(here.name)
        if found.narrowed_to is not None and here.name not in found.narrowed_to:
            assert got["code"] == record.expected["wantStatus"]["code"]
        else:
            assert got == record.expected["wantStatus"]


@parity("nodeaffinity.jsonl", "TestNodeAffinityPriority")
def test_affinity_score(record):
    world = world_of([node(raw) for raw in record.input["nodes"]])
    found = asked(NodeAffinityPlugin(record.input["args"] or {}), record.input["pod"], world)
    wanted = record.expected["wantPreScoreStatus"]
    if record.input["runPreScore"] and wanted["code"] == "Error":
        with pytest.raises(InvalidScore):
            found.scores(normalized=True)
        return
    if record.input["runPreScore"]:
        assert found.prescore_skips == (wanted["code"] == "Skip")
    if wanted["code"] == "Success":
        assert found.scores(normalized=True) == by_name(record.expected["expectedList"])


@parity("nodeports.jsonl", "TestNodePorts")
def test_ports_filter(record):
    world = world_of([node({}, name="here")])
    for i, raw in enumerate(record.input["nodeInfo"]["pods"] or ()):
        put(world, raw, f"pod-{i}", "here")
    found = asked(NodePorts({}), record.input["pod"], world)
    assert found.prefilter == record.expected["wantPreFilterStatus"]
    if found.prefilter["code"] == "Success":
        assert found.filter("here") == record.expected["wantFilterStatus"]


@parity("nodeports.jsonl", "TestFits")
def test_ports_fit(record):
    world = world_of([node({}, name="here")])
    for i, raw in enumerate(record.input["existing"]["pods"] or ()):
        put(world, raw, f"pod-{i}", "here")
    found = asked(NodePorts({}), record.input["pod"], world).filter("here")
    assert (found["code"] == "Success") == record.expected["expect"]
