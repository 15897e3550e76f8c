"""Explanations of decisions as plain data, in the shape that ``holdfast explain`` prints."""

import json

import numpy as np

from holdfast.scheduling.engine.explanation import explain
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.plugin import NO_CHANGE, Code, NodeFilter, Plugin
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing import a_node, a_pod, typed

PROFILE = default_profiles()["default-scheduler"]
KEYS = {"pod", "schedulable", "message", "preFilter", "nodes", "best", "preemption"}
NODE_KEYS = {"name", "feasible", "plugin", "code", "reasons", "scores", "total"}


def explained(*raws, pod, **options):
    world = World()
    for raw in raws:
        world.upsert(typed(raw))
    result = explain(PROFILE, typed(pod), world, 0.0, **options)
    assert json.loads(json.dumps(result)) == result, "plain data only"
    assert set(result) >= KEYS
    assert all(set(node) == NODE_KEYS for node in result["nodes"])
    return result


def test_every_feasible_node_is_scored_even_if_it_is_the_only_one():
    result = explained(a_node("n1", cpu="4", memory="8Gi"), pod=a_pod(cpu="500m", memory="1Gi"))
    (node,) = result["nodes"]
    assert (result["schedulable"], result["message"], result["best"]) == (True, "", ["n1"])
    assert node["scores"]["NodeResourcesFit"] == {"raw": 87, "normalized": 87, "weighted": 87}
    assert node["scores"]["TaintToleration"] == {"raw": 0, "normalized": 100, "weighted": 300}
    assert node["total"] == sum(score["weighted"] for score in node["scores"].values())
    assert (node["plugin"], node["code"], node["reasons"]) == (None, "Success", [])


def test_rejected_nodes_are_listed_with_the_feasible_ones():
    result = explained(a_node("n1"), a_node("n2", unschedulable=True), pod=a_pod())
    closed = result["nodes"][1]
    assert closed["plugin"] == "NodeUnschedulable"
    assert closed["code"] == "UnschedulableAndUnresolvable"
    assert closed["reasons"] == ["node(s) were unschedulable"]
    assert closed["total"] is None


def test_a_reject_at_pre_filter_counts_for_every_node():
    term = {"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": ["n1"]},
        {"key": "metadata.name", "operator": "In", "values": ["n2"]},
    ]}  # fmt: skip
    needed = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    result = explained(a_node("n1"), a_node("n2"), pod=a_pod(affinity={"nodeAffinity": needed}))
    assert result["message"] == "0/2 nodes are available: pod affinity terms conflict."
    assert result["preFilter"]["plugin"] == "NodeAffinity"
    assert [node["plugin"] for node in result["nodes"]] == ["NodeAffinity", "NodeAffinity"]
    assert result["nodes"][0]["reasons"] == ["pod affinity terms conflict"]


def test_preemption_names_the_victims_and_the_tied_nodes():
    standing = [a_pod(f"s{i}", cpu="8", node=f"n{i}", priority=0) for i in (1, 2)]
    result = explained(
        a_node("n1"), a_node("n2"), *standing, pod=a_pod(cpu="8", priority=10), preempt=True
    )
    preemption = result["preemption"]
    assert preemption["tied"] == ["n1", "n2"]
    assert preemption["victims"] == [f"default/s{preemption['nominatedNode'][1:]}"]
    assert preemption["message"] == ""
    assert {c["node"]: c["pdbViolations"] for c in preemption["candidates"]} == {"n1": 0, "n2": 0}
    without = explained(a_node("n1"), standing[0], pod=a_pod(cpu="8", priority=10))
    assert without["preemption"] is None


def test_an_empty_cluster():
    result = explained(pod=a_pod())
    assert result["message"] == "no nodes available to schedule pods"
    assert result["nodes"] == []


def test_a_bound_pod_is_explained_as_if_it_were_not_bound():
    world = World()
    placed = a_pod(cpu="5", node="n1")
    for raw in (a_node("n1", cpu="8"), placed):
        world.upsert(typed(raw))
    result = explain(PROFILE, typed(placed), world, 0.0)
    assert result["best"] == ["n1"]
    assert [pod_info.name for pod_info, _ in world.nodes.pods()] == ["p"]


def test_a_filter_that_fails_is_reported_as_an_error():
    class OutOfOrder(NodeFilter):
        reason = "out of order"

        def filter(self, rows, change=NO_CHANGE):
            return np.full(len(rows), Code.ERROR, np.int8)

    class Fails(Plugin):
        name = "Fails"
        plan_classes = (OutOfOrder,)

        def pre_filter(self, pod, view):
            return OutOfOrder()

    world = World()
    world.upsert(typed(a_node("n1")))
    result = explain(Profile("test", (Fails(),)), typed(a_pod()), world, 0.0)
    assert result["error"] == result["message"] == 'running "Fails" filter plugin: out of order'
    assert result["nodes"] == []
