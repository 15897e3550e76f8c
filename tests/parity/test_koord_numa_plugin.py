"""Koordinator's NodeNUMAResource: the plugin, on nodes and pods as the API has them."""

import json

from holdfast.api import koordinator_names as names
from holdfast.api.decode import convert_object
from holdfast.api.pod import Pod
from holdfast.api.quantity import milli
from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.framework.world import World
from holdfast.state.numa.cpu_set import format_cpu_list, mask_of, members_of
from holdfast.state.numa.resource_status import (
    amount_fields,
    completed_spec,
)
from holdfast.state.numa.trial import Situation, allocate_within
from parity.harness import parity
from parity.numa import (
    PREFERRED,
    REQUIRED,
    RESERVATION,
    divided,
    hold,
    pod_of,
    prepared,
    reserve,
    topology,
    world_of,
)
from parity.reserving import asking_for
from parity.scheduling import by_name, node, put

FILE = "koord_numa.jsonl"
NODE, SPREAD_NODE = "test-node-1", {names.NUMA_TOPOLOGY_POLICY: "Restricted"}


def situation(found, row, reservation=""):
    """Return what the pod asks, and what it may use."""
    plan, ledger = found.prepared.plan, found.world.numa
    offer = ledger.offer(row, reservation)
    return Situation(plan.request, ledger.state(ledger.signature(row)), offer)


@parity(FILE, "TestPlugin_PreFilter")
def test_pre_filter(record):
    world = World()
    # Without a node that binds, aligns or amplifies, a pod that asks for nothing is skipped.
    world.upsert(node({"metadata": {"name": "n", "labels": SPREAD_NODE}}))
    default = record.input["defaultBindPolicy"] or "FullPCPUs"
    found = prepared(world, record.input["pod"], {"defaultCPUBindPolicy": default})
    assert found.prefilter == record.expected["want"]
    want = record.expected.get("wantState") or {}
    if "requests" in want:
        request = found.prepared.plan.request
        assert dict(request.amounts) == {"cpu": milli(want["requests"]["cpu"])}
        assert request.bound == want.get("requestCPUBind", False)
        assert request.bind_policy == want.get(PREFERRED, "")
        assert request.required_policy == want.get(REQUIRED, "")
        assert "designatedAllocation" not in want


@parity(FILE, "TestPlugin_Filter")
def test_filter(record):
    given, want = record.input, record.expected
    found = prepared(world_of(given), pod_of(given.get("state") or {}))
    assert found.filter(NODE) == want["want"]
    if expected := want["wantAllocationResult"]:
        allocation = found.prepared.plan.trial(0).allocation
        assert format_cpu_list(allocation.cpus) == expected.get("cpuSet", "")
        assert amount_fields(allocation.amounts) == expected.get("numaNodeResources", [])


@parity(FILE, "TestFilterWithAmplifiedCPUs")
def test_filter_where_cpu_is_amplified(record):
    given = record.input
    assert (
        prepared(amplified_world(given), given["pod"]).filter("node-1")
        == (record.expected["wantStatus"])
    )


def amplified_world(given):
    """Return a world of nodes with amplified cpu, some of them with zones, and pods on them."""
    world = World()
    nodes = given.get("nodes") or [given["node"]]
    for raw in nodes:
        name = raw["metadata"]["name"]
        known = given.get("nodeHasNRT") or ()
        if known is True or (known and name in known):
            cpus = (given.get("cpuTopologies") or {name: given.get("cpuTopology")})[name]["cpus"]
            world.upsert(topology(name, cpus, memory=given["numaMemoryEach"]))
        world.upsert(node(raw))
    for i, raw in enumerate(given.get("existingPods") or ()):
        world.upsert(convert_object(with_uid(raw, f"pod-{i}"), Pod))
    return world


def with_uid(raw, uid):
    return {**raw, "metadata": {**raw["metadata"], "uid": uid}}


@parity(FILE, "TestPlugin_Reserve")
def test_reserve(record):
    given, want = record.input, record.expected
    world, state = world_of(given), given.get("state") or {}
    for held in given["nominatedReservation"]:
        reserve(world, NODE, held, given["reservationAllocatePolicy"])
    found = prepared(world, pod_of(state, given["pod"]))
    if found.prepared.skip:
        assert (want["want"], want["wantCPUSet"]) == ({"code": "Success"}, "")
        return
    nominated = given["nominatedReservation"] and not found.prepared.plan.ignores_reservations
    uid = RESERVATION if nominated else ""
    if given.get("numaAffinity"):
        # The record names the NUMA nodes; here they follow from what is free.
        trial = allocate_within(situation(found, 0, uid), mask_of(given["numaAffinity"]))
    else:
        trial = found.prepared.plan.trial(0, uid)
    if trial.allocation is None:
        code = "UnschedulableAndUnresolvable" if trial.unresolvable else "Unschedulable"
        assert want["want"] == {"code": code, "reasons": list(trial.reasons)}
        return
    assert want["want"] == {"code": "Success"}
    assert format_cpu_list(trial.allocation.cpus) == want["wantCPUSet"]
    if want["wantNUMAResource"]:
        assert amount_fields(trial.allocation.amounts) == want["wantNUMAResource"]


@parity(FILE, "Test_appendResourceSpecIfMissed")
def test_the_bind_policy_is_written(record):
    given = record.input
    world = World()
    world.upsert(topology(NODE, [(0, 0, 0, 0)]))
    labels = {names.CPU_BIND_POLICY: given["nodePolicy"]}
    world.upsert(node({"metadata": {"name": NODE, "labels": labels}}))
    spec, state = given.get("resourceSpec") or {}, given.get("state") or {}
    found = prepared(world, pod_of({**state, "requestCPUBind": True}))
    on = situation(found, 0)
    notes = {names.RESOURCE_SPEC: json.dumps(spec)} if spec else {}
    written = completed_spec(notes, on.bind_policy, required=bool(on.required_policy))
    assert (spec if written is None else json.loads(written)) == record.expected["wantSpec"]


@parity(FILE, "TestFilterWithNUMANodeScoring")
def test_the_best_numa_nodes_are_chosen(record):
    given = record.input
    world = World()
    world.upsert(divided(given["node"], given["numaNodeCount"]))
    world.upsert(node(given["node"]))
    for number, pods in given["existingPods"].items():
        for i, raw in enumerate(pods):
            resources = raw["spec"]["containers"][0]["resources"]["requests"]
            status = {"numaNodeResources": [{"node": int(number), "resources": resources}]}
            hold(world, NODE, status, f"{number}-{i}", raw)
    args = {"numaScoringStrategy": given["numaScoringStrategy"]}
    found = prepared(world, given["requestedPod"], args)
    assert found.filter(NODE) == {"code": "Success"}
    mask = found.prepared.plan.trials.alignment(0).mask
    assert list(members_of(mask)) == record.expected["wantAffinity"]


@parity(FILE, "TestNUMANodeScore")
def test_scores_of_numa_nodes(record):
    given = record.input
    world = World()
    for raw in given["nodes"]:
        world.upsert(divided(raw, given["numaNodeCounts"][raw["metadata"]["name"]]))
        world.upsert(node(raw))
    for i, raw in enumerate(given.get("existingPods") or ()):
        if "labels" not in raw["metadata"]:
            put(world, raw, f"pod-{i}")
            continue
        last = int(raw["spec"]["containers"][0]["resources"]["requests"]["cpu"]) - 1
        hold(world, raw["spec"]["nodeName"], {"cpuset": f"0-{last}"}, f"pod-{i}", raw)
    found = prepared(world, given["requestedPod"], {"scoringStrategy": given["strategy"]})
    assert found.scores(normalized=False) == by_name(record.expected["expectedScores"])


@parity(FILE, "TestPlugin_Score")
def test_score(record):
    given, want = record.input, record.expected
    args = {"scoringStrategy": given["scoringStrategy"]}
    found = prepared(world_of(given), pod_of(given.get("state") or {}, at_least=0), args)
    assert want["want"] == {"code": "Success"}
    assert found.scores(normalized=False)[NODE] == want["wantScore"]


@parity(FILE, "TestScoreWithAmplifiedCPUs")
def test_score_where_cpu_is_amplified(record):
    given = record.input
    found = prepared(amplified_world(given), given["requestedPod"], given["args"])
    assert found.scores(normalized=False) == by_name(record.expected["wantScoreList"])


@parity(FILE, "TestPlugin_RestoreReservationPreAllocation")
def test_the_CPUs_of_pods_are_taken_over(record):
    given = record.input
    world = World()
    cpus = [(id_, id_ // 2, id_ // 8, id_ // 8) for id_ in range(16)]
    world.upsert(topology("test-node", cpus))
    world.upsert(node({"metadata": {"name": "test-node"}}))
    held = given.get("preAllocatableCPUs") or {}
    for uid, cpuset in held.items():
        amounts = (given.get("preAllocatableNUMA") or {}).get(uid, {})
        parts = [{"node": int(number), "resources": of} for number, of in amounts.items()]
        hold(world, "test-node", {"cpuset": cpuset, "numaNodeResources": parts}, uid)
    found = prepared(world, pod_of({"requestCPUBind": True, "numCPUsNeeded": 4}))
    pods = [world.nodes.pod(raw["metadata"]["uid"])[0] for raw in given["preAllocatablePods"]]
    assert len(pods) == record.expected["expectedRestoredUIDs"]
    allocation = found.prepared.plan.pre_allocation(0, pods).allocation
    expected = record.expected["expectedMergedCPUs"]
    assert format_cpu_list(allocation.cpus) == (expected or "0-3")


@parity(FILE, "TestPodEventHandler")
def test_a_pod_holds_what_its_annotation_says(record):
    world = World()
    world.upsert(topology(NODE, record.input["cpuTopology"]["cpus"]))
    world.upsert(node({"metadata": {"name": NODE}}))
    # A pod that requests no CPUs, as in Go's table, holds none here.
    world.upsert(convert_object(asking_for(record.input["pod"], {"cpu": "4"}), Pod))
    ledger = world.numa
    held = ledger.state(ledger.signature(0)).held
    assert (format_cpu_list(held), bool(held)) == (
        record.expected["want"], record.expected["wantAdd"],
    )  # fmt: skip


@parity(FILE, "TestPlugin_PreBind", "TestPlugin_PreBindWithCPUBindPolicyNone",
        "TestPlugin_PreBindReservation")  # fmt: skip
def test_the_result_is_written(record):
    given, want = record.input, record.expected
    world = World()
    world.upsert(topology(NODE, [(id_, id_ // 2, id_ // 8, id_ // 8) for id_ in range(16)]))
    world.upsert(node(given["node"]))
    found = prepared(world, pod_of(given["state"], given.get("pod")))
    made = convert_object(given.get("pod") or given["reservation"], Pod)
    pod_info = world.pod_info(made, is_reserve_pod="reservation" in given)
    placement = Placement(pod_info, 0, NODE, {})
    assert found.prepared.plan.reserve(placement) is None
    assert json.loads(placement.annotations[names.RESOURCE_STATUS]) == want["resourceStatus"]
    spec = json.loads(placement.annotations[names.RESOURCE_SPEC])
    assert spec == want.get("resourceSpec", spec)
