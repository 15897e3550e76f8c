"""The output of ``holdfast explain``: fields, messages and scores."""

import pytest

from cli.explain_requests import ask, ask_all, node_of, verdicts
from holdfast.testing import (
    a_claim,
    a_device_class,
    a_node,
    a_pod,
    a_priority_class,
    a_reservation,
    a_resource_policy,
    a_slice,
    a_unit,
)

U, UU = "Unschedulable", "UnschedulableAndUnresolvable"
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
EXCLUDED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
NC = "no new claims to deallocate, preemption: "


def nodes(count=3, **shape):
    return [a_node(f"n{i}", **{"cpu": "4", "memory": "8Gi", **shape}) for i in range(1, count + 1)]


def required(**term):
    terms = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def by_name(name):
    return required(matchFields=[{"key": "metadata.name", "operator": "In", "values": [name]}])


def spread(key):
    return [{
        "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }]  # fmt: skip


def a_budget(name, app, allowed):
    return {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }  # fmt: skip


def taint(effect="NoSchedule"):
    return {"key": "k", "value": "v", "effect": effect}


def using(port, **more):
    return [{"name": "main", "ports": [{"containerPort": port, **more}]}]


# name: (objects, pod, verdict on each node that is not feasible, message)
REFUSALS = {
    "resources": (
        [*nodes(2), a_pod("s", cpu="3", node="n1")],
        a_pod(cpu="5"),
        {"n1": ("NodeResourcesFit", UU, ["Insufficient cpu"]),
         "n2": ("NodeResourcesFit", UU, ["Insufficient cpu"])},
        "0/2 nodes are available: 2 Insufficient cpu.",
    ),
    "taken resources may be freed": (
        [*nodes(1), a_pod("s", cpu="3", memory="8Gi", node="n1")],
        a_pod(cpu="2", memory="1Gi"),
        {"n1": ("NodeResourcesFit", U, ["Insufficient cpu", "Insufficient memory"])},
        "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.",
    ),
    "an extended resource that no node has": (
        nodes(1),
        a_pod(requests={"example.com/gpu": "1"}),
        {"n1": ("NodeResourcesFit", UU, ["Insufficient example.com/gpu"])},
        "0/1 nodes are available: 1 Insufficient example.com/gpu.",
    ),
    "a taint": (
        nodes(1, taints=[taint()]),
        a_pod(),
        {"n1": ("TaintToleration", UU, ["node(s) had untolerated taint(s)"])},
        "0/1 nodes are available: 1 node(s) had untolerated taint(s).",
    ),
    "a cordon": (
        nodes(1, unschedulable=True),
        a_pod(),
        {"n1": ("NodeUnschedulable", UU, ["node(s) were unschedulable"])},
        "0/1 nodes are available: 1 node(s) were unschedulable.",
    ),
    "a selector": (
        nodes(1),
        a_pod(node_selector={"zone": "a"}),
        {"n1": ("NodeAffinity", UU, [AFFINITY])},
        f"0/1 nodes are available: 1 {AFFINITY}.",
    ),
    "affinity": (
        nodes(1, labels={"zone": "b"}),
        a_pod(affinity=required(
            matchExpressions=[{"key": "zone", "operator": "In", "values": ["a"]}])),
        {"n1": ("NodeAffinity", UU, [AFFINITY])},
        f"0/1 nodes are available: 1 {AFFINITY}.",
    ),
    "a host port": (
        [*nodes(1), a_pod("s", node="n1", containers=using(80, hostPort=80))],
        a_pod(containers=using(80, hostPort=80)),
        {"n1": ("NodePorts", U, ["node(s) didn't have free ports for the requested pod ports"])},
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.",
    ),
    "a topology to spread over": (
        [a_node("n1", labels={"zone": "a"}), a_node("n2", labels={"zone": "b"}, cpu="1"),
         a_node("n3"), a_pod("s", node="n1", labels={"app": "x"})],
        a_pod(cpu="2", labels={"app": "x"}, topology_spread_constraints=spread("zone")),
        {"n1": ("PodTopologySpread", U,
                ["node(s) didn't match pod topology spread constraints"]),
         "n2": ("NodeResourcesFit", UU, ["Insufficient cpu"]),
         "n3": ("PodTopologySpread", UU,
                ["node(s) didn't match pod topology spread constraints (missing required label)"])},
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod topology spread "
        "constraints, 1 node(s) didn't match pod topology spread constraints (missing required "
        "label).",
    ),
    "a name that preFilter narrows to": (
        [*nodes(3), a_pod("s", cpu="4", node="n2")],
        a_pod(affinity=by_name("n2")),
        {"n1": (None, UU, [EXCLUDED]), "n3": (None, UU, [EXCLUDED]),
         "n2": ("NodeResourcesFit", U, ["Insufficient cpu"])},
        f"0/3 nodes are available: 1 Insufficient cpu, 2 {EXCLUDED}.",
    ),
    "the pod nominated there": (
        [*nodes(1), a_pod("o", cpu="4", priority=10, status={"nominatedNodeName": "n1"})],
        a_pod(cpu="1"),
        {"n1": ("NodeResourcesFit", U, ["Insufficient cpu"])},
        "0/1 nodes are available: 1 Insufficient cpu.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_each_infeasible_node_has_its_reasons(case):
    objects, pod, expected, message = REFUSALS[case]
    answer = ask(*objects, pod)
    assert verdicts(answer) == expected
    assert answer["message"] == message
    assert (answer["schedulable"], answer["best"], answer["preemption"]) == (False, [], None)
    assert "error" not in answer and "preEnqueue" not in answer


def test_a_schedulable_pod_has_no_message_and_integer_scores():
    answer = ask(*nodes(2), a_pod("s", cpu="2", memory="2Gi", node="n2"), a_pod("p", memory="1Gi"))
    assert answer["message"] == ""
    assert answer["schedulable"] is True
    assert answer["preFilter"] is None
    assert answer["best"] == ["n1"]
    scores = node_of(answer, "n1")["scores"]
    assert scores["TaintToleration"] == {"raw": 0, "normalized": 100, "weighted": 300}
    assert scores["NodeResourcesFit"]["raw"] == 81  # (3/4 + 7/8) / 2 of 100, whole
    for node in answer["nodes"]:
        assert node["total"] == sum(s["weighted"] for s in node["scores"].values())
        numbers = [n for s in node["scores"].values() for n in s.values()]
        assert {type(n) for n in (*numbers, node["total"])} == {int}
        assert (node["plugin"], node["code"], node["reasons"]) == (None, "Success", [])


def test_nodes_with_the_highest_score_are_listed_in_order():
    assert ask(*reversed(nodes(3)), a_pod())["best"] == ["n1", "n2", "n3"]


def test_one_feasible_node_is_scored_too():
    answer = ask(*nodes(1), a_node("full", cpu="500m"), a_pod("p"))
    assert node_of(answer, "n1")["scores"]
    assert verdicts(answer) == {"full": ("NodeResourcesFit", UU, ["Insufficient cpu"])}


def test_an_empty_cluster():
    answer = ask(a_pod())
    assert answer["message"] == "no nodes available to schedule pods"
    assert answer["nodes"] == []


def test_scheduling_gates_stop_a_pod_before_any_node():
    answer = ask(*nodes(1), a_pod(scheduling_gates=[{"name": "a"}, {"name": "b"}]))
    words = "waiting for scheduling gates: [a b]"
    assert answer["preEnqueue"] == {"plugin": "SchedulingGates", "code": UU, "reasons": [words]}
    assert answer["message"] == words
    assert answer["nodes"] == []


def test_a_rejection_by_pre_filter_is_the_reason_of_every_node():
    pod = a_pod(claims=[{"name": "c", "resourceClaimName": "c"}])
    answer = ask(*nodes(2), a_claim("c"), pod)
    words = "request req-0: device class gpu does not exist"
    assert answer["preFilter"] == {"plugin": "DynamicResources", "code": UU, "reasons": [words]}
    assert verdicts(answer) == dict.fromkeys(("n1", "n2"), ("DynamicResources", UU, [words]))
    assert answer["message"] == f"0/2 nodes are available: {words}."


def test_an_error_on_one_node_fails_the_attempt():
    broken = a_device_class(selectors=['device.attributes["x"].nope > 1'])
    pod = a_pod(claims=[{"name": "c", "resourceClaimName": "c"}])
    answer = ask(*nodes(2), broken, a_slice("s", node="n1"), a_claim("c"), pod)
    assert answer["error"].startswith('running "DynamicResources" filter plugin: class gpu')
    assert answer["schedulable"] is False


def test_a_pod_gets_its_nominated_node_if_it_fits():
    fits = a_pod("p", status={"nominatedNodeName": "n3"})
    assert ask(*nodes(3), a_pod("s", node="n3"), fits)["best"] == ["n3"]
    full = a_pod("s", cpu="4", node="n3")
    assert ask(*nodes(3), full, fits)["best"] == ["n1", "n2"]


def test_a_bound_pod_is_explained_as_if_it_were_unbound():
    answer = ask(*nodes(2), a_pod("s", cpu="1", node="n2"), a_pod("p", cpu="4", node="n2"))
    assert answer["best"] == ["n1"]
    assert verdicts(answer) == {"n2": ("NodeResourcesFit", U, ["Insufficient cpu"])}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished_pods_use_no_resources(phase):
    done = a_pod("s", cpu="4", node="n1", status={"phase": phase})
    assert ask(*nodes(1), done, a_pod(cpu="4"))["best"] == ["n1"]
    assert ask(*nodes(1), done, pod="default/s")["error"] == (
        f'pod "default/s" has finished ({phase}) and needs no node'
    )


def test_preemption_tries_every_node_and_respects_disruption_budgets():
    answer = ask(
        *nodes(3), a_budget("b", "kept", 0),
        a_pod("v1", cpu="4", node="n1", labels={"app": "kept"}),
        a_pod("v2", cpu="4", node="n2", labels={"app": "free"}),
        a_pod("v3", cpu="4", node="n3", labels={"app": "free"}),
        a_pod("p", cpu="4", priority=10), preempt=True,
    )  # fmt: skip
    found = answer["preemption"]
    assert found["candidates"] == [
        {"node": "n1", "victims": ["default/v1"], "pdbViolations": 1},
        {"node": "n2", "victims": ["default/v2"], "pdbViolations": 0},
        {"node": "n3", "victims": ["default/v3"], "pdbViolations": 0},
    ]
    assert found["tied"] == ["n2", "n3"]
    assert found["nominatedNode"] in found["tied"]
    assert found["message"] == ""
    assert answer["message"] == "0/3 nodes are available: 3 Insufficient cpu."


@pytest.mark.parametrize(
    ("standing", "cpu", "words"),
    [(None, "5", "Preemption is not helpful for scheduling"),
     ("3500m", "1", "No preemption victims found for incoming pod")],
)  # fmt: skip
def test_preemption_that_does_not_help_has_a_message_of_its_own(standing, cpu, words):
    used = [a_pod(f"s{i}", cpu=standing, node=f"n{i}") for i in (1, 2, 3)] if standing else []
    answer = ask(*nodes(3), *used, a_pod(cpu=cpu), preempt=True)
    assert answer["message"] == "0/3 nodes are available: 3 Insufficient cpu."
    assert answer["preemption"] == {
        "nominatedNode": None, "victims": [], "tied": [], "candidates": [],
        "message": NC + f"0/3 nodes are available: 3 {words}.",
    }  # fmt: skip


def test_preemption_is_not_tried_without_the_flag_or_for_a_schedulable_pod():
    full = [*nodes(1), a_pod("v", cpu="4", node="n1"), a_pod("p", cpu="4", priority=1)]
    assert ask(*full)["preemption"] is None
    assert ask(*nodes(1), a_pod("p", priority=1), preempt=True)["preemption"] is None


def test_priority_classes_are_resolved_as_by_admission():
    full = [*nodes(1), a_pod("v", cpu="4", node="n1")]

    def victims(*objects):
        return ask(*full, *objects, preempt=True)["preemption"]["victims"]

    high = a_priority_class("high", 1000)
    default = a_priority_class("any", 5, global_default=True)
    assert victims(high, a_pod(cpu="4", priority_class_name="high")) == ["default/v"]
    assert victims(a_pod(cpu="4", priority_class_name="system-node-critical")) == ["default/v"]
    assert victims(high, a_pod(cpu="4")) == []
    assert victims(default, a_pod(cpu="4")) == []  # the victim has it too


def test_claims_are_allocated_on_nodes_with_devices():
    pod = a_pod(claims=[{"name": "c", "resourceClaimName": "c"}])
    answer = ask(*nodes(2), a_device_class(), a_slice("s", node="n1"), a_claim("c"), pod)
    assert answer["best"] == ["n1"]
    assert verdicts(answer) == {"n2": ("DynamicResources", UU, ["cannot allocate all claims"])}


def test_a_missing_claim_rejects_the_pod_before_it_is_queued():
    answer = ask(*nodes(1), a_pod(claims=[{"name": "c", "resourceClaimName": "c"}]))
    assert answer["preEnqueue"]["plugin"] == "DynamicResources"
    assert answer["message"] == 'could not find ResourceClaim "default/c"'


def test_an_extended_resource_is_served_by_a_device_plugin_or_by_devices():
    served = a_device_class(extended_resource_name="example.com/gpu")
    counted = a_node("n3", allocatable={"example.com/gpu": "1"})
    pod = a_pod(limits={"example.com/gpu": "1"})
    answer = ask(*nodes(2), counted, served, a_slice("s", node="n1"), pod)
    assert sorted(n["name"] for n in answer["nodes"] if n["feasible"]) == ["n1", "n3"]


def a_held_reservation(**more):
    status = {"phase": "Available", "nodeName": "n1", "allocatable": {"cpu": "3"}}
    return a_reservation("r", cpu="3", status=status, **more)


def test_only_owners_use_reserved_resources():
    owner = ask(*nodes(2), a_held_reservation(), a_pod(cpu="3", labels={"app": "r"}))
    assert owner["best"] == ["n1"]
    assert node_of(owner, "n1")["scores"]["Reservation"]["weighted"] == 500_000
    stranger = ask(*nodes(1), a_held_reservation(), a_pod(cpu="3"))
    assert verdicts(stranger) == {"n1": ("NodeResourcesFit", U, ["Insufficient cpu"])}


def test_reservations_without_uids_are_distinct():
    second = a_held_reservation()
    second["metadata"]["name"] = "other"
    second["status"]["nodeName"] = "n2"
    answer = ask(*nodes(2), a_held_reservation(), second, a_pod(cpu="2"))
    assert sorted(verdicts(answer)) == ["n1", "n2"]


def test_units_of_a_policy_are_used_in_order_and_feasible_nodes_have_scores():
    pools = [a_node("n1", labels={"pool": "a"}), a_node("n2", labels={"pool": "b"})]
    policy = a_resource_policy("web", units=[a_unit("a", 5, max_count=1), a_unit("b", 4)])
    first = ask(*pools, policy, a_pod(labels={"app": "web"}))
    assert first["best"] == ["n1"]
    scores = [node_of(first, n)["scores"]["resourcepolicy"]["normalized"] for n in ("n1", "n2")]
    assert scores == [100, 80]
    second = ask(*pools, policy, a_pod("s", node="n1", labels={"app": "web"}),
                 a_pod(labels={"app": "web"}))  # fmt: skip
    assert second["best"] == ["n2"]
    assert verdicts(second) == {"n1": ("resourcepolicy", U, ["unit a is full (1/1)"])}


def test_affinity_to_missing_pods_has_upstreams_message():
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    answer = ask(*nodes(1), a_pod(affinity=affinity))
    assert answer["schedulable"] is False
    assert "node(s) didn't match pod affinity rules" in answer["message"]


KINDS = [
    ("v1", "Namespace"), ("v1", "PersistentVolume"), ("v1", "PersistentVolumeClaim"),
    ("storage.k8s.io/v1", "StorageClass"), ("storage.k8s.io/v1", "CSINode"),
    ("policy/v1", "PodDisruptionBudget"), ("scheduling.k8s.io/v1", "PriorityClass"),
    ("v1", "Service"), ("apps/v1", "ReplicaSet"), ("resource.k8s.io/v1", "ResourceClaim"),
    ("resource.k8s.io/v1", "ResourceSlice"), ("resource.k8s.io/v1", "DeviceClass"),
    ("scheduling.koordinator.sh/v1alpha1", "Reservation"),
    ("v1", "ConfigMap"), ("example.com/v1", "Anything"),
]  # fmt: skip


def test_a_snapshot_may_contain_every_kind():
    others = [
        {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}} for version, kind in KINDS
    ]
    policy = a_resource_policy("of-others", units=[a_unit("a")])
    assert ask(*others, policy, *nodes(1), a_pod())["best"] == ["n1"]


def test_a_batch_writes_one_line_for_each_input_line_in_order():
    good = {"objects": [*nodes(1), a_pod("p")], "pod": "default/p"}
    answers = ask_all(
        good,
        b"{nonsense",
        {"pod": "default/q", "objects": [a_pod("p")]},
        {"objects": []},
        {**good, "now": "yesterday"},
        {**good, "objects": [a_pod("p", cpu="lots")]},
        {**good, "objects": 3},
        {**good, "pod": "p"},
        b"",
        good,
    )
    assert [a.get("best", a.get("error", "")[:40]) for a in answers] == [
        ["n1"],
        "JSON is malformed: object keys must be s",
        'pod "default/q" is not among the objects',
        "pod: Required value",
        'now: "yesterday" is not an RFC 3339 time',
        "objects[0] (Pod default/p): spec.contain",
        "Expected `array | null`, got `int` - at ",
        ["n1"],
        ["n1"],
    ]
    assert [set(a) for a in answers if "error" in a] == [{"pod", "error"}] * 6
    assert [a["pod"] for a in answers][2] == "default/q"
    assert answers[6]["pod"] == "default/p"
    assert answers[7]["pod"] == "default/p"
