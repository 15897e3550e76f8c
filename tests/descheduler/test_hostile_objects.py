"""Objects that are odd, broken or hostile do not stop a cycle."""

import pytest

from descheduler.clusters import NOW, SETTINGS, objects, owned, plan, shown
from holdfast.api.scheme import POD_MIGRATION_JOBS
from holdfast.controllers.descheduler.configuration import DeschedulerConfiguration
from holdfast.controllers.descheduler.plan import PlannedMove, job_body
from holdfast.controllers.descheduler.simulation import (
    ClusterObjects,
    Simulation,
    predicting_profiles,
    without_node,
)
from holdfast.testing import a_node, a_pod
from holdfast.testing.builders import an_object, typed

EVERYTHING = DeschedulerConfiguration()
TAINTED = a_node("n1", taints=[{"key": "k", "effect": "NoSchedule"}])
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
BROKEN = {"matchExpressions": [{"key": "a b", "operator": "Near", "values": ["x" * 1000]}]}
SPECS = {
    "selector": {"nodeSelector": {"a b": "=/="}},
    "affinity": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [BROKEN, {}]}}}},
    "no terms": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}},
    "anti-affinity": {
        "affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "", "labelSelector": BROKEN}]}}
    },
    "spread": {
        "topologySpreadConstraints": [
            {"topologyKey": "z", "maxSkew": -1, "whenUnsatisfiable": "DoNotSchedule",
             "labelSelector": BROKEN}
        ]
    },
    "huge": {"cpu": "9" * 18},
    "scheduler": {"schedulerName": "\x00"},
    "annotations": {
        "annotations": {
            "scheduling.koordinator.sh/eviction-cost": "x" * 5000,
            "scheduling.koordinator.sh/resource-status": "{" * 500,
            "scheduling.koordinator.sh/device-allocated": "null",
            "controller.kubernetes.io/pod-deletion-cost": "1e9",
        }
    },
    "qos": {"labels": {"koordinator.sh/qosClass": "?", "koordinator.sh/priority-class": "?"}},
    "images": {"image": ""},
}  # fmt: skip


@pytest.mark.parametrize("kind", SPECS)
def test_a_broken_pod_does_not_keep_others_from_moving(kind):
    broken = owned("broken", "n1", owner="broken", **SPECS[kind])
    moves = plan(objects(TAINTED, a_node("n2"), broken, owned("p", "n1")), EVERYTHING)
    assert ("p", "n2") in shown(moves)


@pytest.mark.parametrize(
    "cluster",
    [
        ClusterObjects(),
        objects(owned("p", "gone")),
        objects(a_node("n1", cpu="0", memory="0"), owned("p", "n1")),
        objects(TAINTED, a_node("n2"), a_pod("waits")),
        objects(TAINTED, a_node("n2"), a_pod("bare", node="n1")),
        objects(TAINTED, a_node("n2"), owned("p", "n1", kind="DaemonSet")),
        objects(TAINTED, a_node("n2"), owned("p", "n1"), an_object(POD_MIGRATION_JOBS, "j", {})),
    ],
)
def test_clusters_at_the_edge(cluster):
    assert shown(plan(cluster, EVERYTHING)) in ([], [("p", "n2")])


def test_a_terminating_pod_stays():
    going = {"deletionTimestamp": "2023-11-14T22:13:20Z"}
    assert not plan(objects(TAINTED, a_node("n2"), owned("p", "n1", metadata=going)), EVERYTHING)


def test_a_node_that_is_deleted_has_no_candidates():
    assert not plan(objects(a_node("n2"), owned("p", "n1")), EVERYTHING)


def test_every_term_excludes_the_node_and_keeps_what_it_said():
    term = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term, term]}}}
    found = without_node(typed(a_pod(affinity=affinity)), "n1").spec.affinity.node_affinity
    terms = found.required_during_scheduling_ignored_during_execution.node_selector_terms
    assert len(terms) == 2
    for each in terms:
        assert [e.key for e in each.match_expressions] == ["disk"]
        (field,) = each.match_fields
        assert (field.key, field.operator, field.values) == ("metadata.name", "NotIn", ("n1",))


def test_a_job_without_a_ttl():
    pod = typed(owned("p", "n1"))
    move = PlannedMove(pod, "n2", "LowNodeLoad", "p", "r" * 10)
    body = job_body(move, type(SETTINGS)(default_ttl_seconds=0.0))
    assert "ttl" not in body["spec"]
    assert body["spec"]["podRef"] == {"namespace": "default", "name": "p", "uid": pod.uid}


def test_the_world_is_built_in_steps():
    cluster = objects(a_node("n1"), *(owned(f"p{i}", "n1") for i in range(500)))
    simulation = Simulation(cluster, SETTINGS, predicting_profiles(), NOW)
    assert sum(1 for _ in simulation.load()) > 5
