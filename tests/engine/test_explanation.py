"""The whole story of a decision as plain data, in the shape that ``explain`` prints."""

import json

import numpy as np

from holdfast.engine.explanation import explain
from holdfast.engine.profile import Profile
from holdfast.framework.plugin import NO_CHANGE, Code, Traits
from holdfast.framework.world import World
from holdfast.plugins import default_profiles
from holdfast.testing import a_node, a_pod, typed

PROFILE = default_profiles()["default-scheduler"]
KEYS = {"pod", "schedulable", "message", "preFilter", "nodes", "best", "preemption"}
NODE_KEYS = {"name", "feasible", "plugin", "code", "reasons", "scores", "total"}


def told(*raws, pod, **options):
    world = World()
    for raw in raws:
        world.upsert(typed(raw))
    answer = explain(PROFILE, typed(pod), world, 0.0, **options)
    assert json.loads(json.dumps(answer)) == answer, "plain data only"
    assert set(answer) >= KEYS
    assert all(set(node) == NODE_KEYS for node in answer["nodes"])
    return answer


def test_every_feasible_node_is_scored_even_if_it_is_the_only_one():
    answer = told(a_node("n1", cpu="4", memory="8Gi"), pod=a_pod(cpu="500m", memory="1Gi"))
    (node,) = answer["nodes"]
    assert (answer["schedulable"], answer["message"], answer["best"]) == (True, "", ["n1"])
    assert node["scores"]["NodeResourcesFit"] == {"raw": 87, "normalized": 87, "weighted": 87}
    assert node["scores"]["TaintToleration"] == {"raw": 0, "normalized": 100, "weighted": 300}
    assert node["total"] == sum(score["weighted"] for score in node["scores"].values())
    assert (node["plugin"], node["code"], node["reasons"]) == (None, "Success", [])


def test_nodes_that_do_not_pass_stand_beside_those_that_do():
    answer = told(a_node("n1"), a_node("n2", unschedulable=True), pod=a_pod())
    closed = answer["nodes"][1]
    assert closed["plugin"] == "NodeUnschedulable"
    assert closed["code"] == "UnschedulableAndUnresolvable"
    assert closed["reasons"] == ["node(s) were unschedulable"]
    assert closed["total"] is None


def test_a_word_before_any_node_counts_for_every_node():
    term = {"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": ["n1"]},
        {"key": "metadata.name", "operator": "In", "values": ["n2"]},
    ]}  # fmt: skip
    needed = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    answer = told(a_node("n1"), a_node("n2"), pod=a_pod(affinity={"nodeAffinity": needed}))
    assert answer["message"] == "0/2 nodes are available: pod affinity terms conflict."
    assert answer["preFilter"]["plugin"] == "NodeAffinity"
    assert [node["plugin"] for node in answer["nodes"]] == ["NodeAffinity", "NodeAffinity"]
    assert answer["nodes"][0]["reasons"] == ["pod affinity terms conflict"]


def test_preemption_names_the_victims_and_who_was_equally_good():
    standing = [a_pod(f"s{i}", cpu="8", node=f"n{i}", priority=0) for i in (1, 2)]
    answer = told(
        a_node("n1"), a_node("n2"), *standing, pod=a_pod(cpu="8", priority=10), preempt=True
    )
    story = answer["preemption"]
    assert story["tied"] == ["n1", "n2"]
    assert story["victims"] == [f"default/s{story['nominatedNode'][1:]}"]
    assert story["message"] == ""
    assert {c["node"]: c["pdbViolations"] for c in story["candidates"]} == {"n1": 0, "n2": 0}
    without = told(a_node("n1"), standing[0], pod=a_pod(cpu="8", priority=10))
    assert without["preemption"] is None


def test_an_empty_cluster():
    answer = told(pod=a_pod())
    assert answer["message"] == "no nodes available to schedule pods"
    assert answer["nodes"] == []


def test_a_pod_on_a_node_is_explained_as_if_it_were_not():
    world = World()
    placed = a_pod(cpu="5", node="n1")
    for raw in (a_node("n1", cpu="8"), placed):
        world.upsert(typed(raw))
    answer = explain(PROFILE, typed(placed), world, 0.0)
    assert answer["best"] == ["n1"]
    assert [pod_info.name for pod_info, _ in world.nodes.pods()] == ["p"]


def test_a_filter_that_fails_is_told_as_an_error():
    class Fails:
        name = "Fails"
        traits = Traits()

        def reads(self, _pod, _view):
            return None

        def filter(self, _state, rows, _change=NO_CHANGE):
            return np.full(len(rows), Code.ERROR, np.int8)

        def reasons(self, _state, _row, _change=NO_CHANGE):
            return ("out of order",)

    world = World()
    world.upsert(typed(a_node("n1")))
    answer = explain(Profile("test", (Fails(),)), typed(a_pod()), world, 0.0)
    assert answer["error"] == answer["message"] == 'running "Fails" filter plugin: out of order'
    assert answer["nodes"] == []
