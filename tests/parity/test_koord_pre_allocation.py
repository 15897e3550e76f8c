"""Koordinator's tables of pre-allocation from running pods."""

import msgspec

from holdfast.api import reservation_names as names
from holdfast.api.decode import convert_object
from holdfast.api.pod import Pod
from holdfast.api.reservation import Reservation
from holdfast.scheduling.framework.plugin import NO_CHANGE, Code, PodChange
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.reservation import ReservationPlugin as Plugin
from holdfast.scheduling.plugins.reservation.pre_allocation import PreAllocationPlan
from holdfast.state.reservations.pre_allocation import (
    ClusterMode,
    PreAllocatablePods,
    by_score,
    choose_pods,
    read_rules,
)
from holdfast.state.reservations.reserve_pod import reserve_pod
from holdfast.testing import a_pod
from parity.harness import parity
from parity.scheduling import node, status

FILE = "koord_reservation_preallocation.jsonl"
MODES = (
    "TestPreAllocationClusterModeMultipleEnabled",
    "TestPreAllocationClusterModeMultipleDisabled",
    "TestPreAllocationDefaultModeMultipleEnabled",
    "TestPreAllocationDefaultModeMultipleDisabled",
)


def world_with(node_raw, pods, reservations):
    world = World()
    world.upsert(node(node_raw))
    for raw in reservations:
        world.upsert(convert_object(raw, Reservation))
    for raw in pods or ():
        world.upsert(convert_object(raw, Pod))
    return world


def reserve_pod_info(world, reservation):
    return world.pod_info(reserve_pod(reservation), is_reserve_pod=True)


def judged(plan, row, change=NO_CHANGE):
    code = Code(int(plan.filter(plan.nodes.rows, change)[row]))
    return status(code, plan.reasons(row, change) if code else ())


@parity(FILE, *MODES)
def test_a_reservation_chooses_running_pods(record):
    given, expected = record.input, record.expected
    world = world_with(given["node"], given["pods"], [given["reservation"]])
    reservation = convert_object(given["reservation"], Reservation)
    config = {k: v for k, v in given["preAllocationConfig"].items() if v != ""}
    pod_info = reserve_pod_info(world, reservation)
    plugin = Plugin({"preAllocationConfig": config})
    plan = plugin.pre_filter(pod_info, View(world, pod_info, 0.0))
    (row,) = world.nodes.rows.tolist()
    there = [pod.name for pod in plan.row_results().candidates.get(row, [])]
    if plan.rules.ranked:
        assert there == expected["preAllocatablePods"]
    assert sorted(there) == sorted(expected["preAllocatablePods"])
    assert judged(plan, row) == expected["filterStatus"]
    if "preAllocated" not in expected:
        return
    taken = [pod.name for pod in plan.at(row).pods]
    assert len(taken) == len(expected["preAllocated"])
    if plan.rules.ranked:
        assert taken == expected["preAllocated"]
    if plan.rules.multiple and not plan.at(row).shortfall:
        assert plan.at(row).score(plan.rules) == expected["score"]


def pod_of(amounts, name):
    cpu, memory = amounts["cpu"], amounts["memory"]
    raw = a_pod(name, cpu=f"{cpu}m", memory=memory, node="test-node", uid=name)
    return convert_object(raw, Pod)


def listed(amounts):
    raw = a_pod("x", requests={k: v.lstrip("-") for k, v in amounts.items()})
    found = dict(World().pod_info(convert_object(raw, Pod)).request)
    return {"cpu": found[0], "memory": found[1]}


@parity(FILE, "Test_filterWithPreAllocatablePods")
def test_a_node_is_filtered_with_its_pods(record):
    data = record.input["stateData"]
    there = data["nodeReservationStates"]["test-node"]
    reservation = convert_object(data["rInfo"]["reservation"], Reservation)
    world = world_with(record.input["node"], (), ())
    total = there["podRequested"]
    world.upsert(pod_of({"cpu": total["milliCPU"], "memory": total["memory"]}, "all"))
    pods = there.get("preAllocatablePods") or ()
    if data["isPreAllocationRequired"]:
        labelled = {names.PRE_ALLOCATION_REQUIRED: "true"}
        meta = msgspec.structs.replace(reservation.metadata, labels=labelled)
        reservation = msgspec.structs.replace(reservation, metadata=meta)
    pod_info = reserve_pod_info(world, reservation)
    rules = read_rules(reservation, pod_info, world.nodes.resources, prefers_none=False)
    pre_allocatable = PreAllocatablePods.to(reservation, ClusterMode())
    plan = PreAllocationPlan(
        world.nodes, world.reservations, "", "Restricted", False, rules, pre_allocatable
    )
    (row,) = world.nodes.rows.tolist()
    plan.row_results().candidates[row] = [world.pod_info(convert_object(raw, Pod)) for raw in pods]
    # An empty change makes the plugin filter the row again.
    change = PodChange(added={row: ()})
    if preemptible := (data.get("preemptible") or {}).get("test-node"):
        pod = world.pod_info(pod_of(listed(preemptible), "preemptible"))
        back = {row: (pod,)}
        comes = preemptible["cpu"].startswith("-")
        change = PodChange(added=back) if comes else PodChange(removed=back)
    assert judged(plan, row, change) == record.expected["wantStatus"]


@parity(FILE, "TestNominatePreAllocation", "Test_sortPreAllocatablePodsForDefaultMode")
def test_the_pod_that_fits_best_is_first(record):
    given = record.input
    raw = given.get("reservation") or given["rInfo"].get("reservation")
    world = world_with(given["node"], (), ())
    pods = given.get("preAllocatablePods") or given.get("preAllocatable") or ()
    found = [world.pod_info(convert_object(p, Pod)) for p in pods]
    reservation = convert_object(raw or {}, Reservation)
    pod_info = reserve_pod_info(world, reservation)
    rules = read_rules(reservation, pod_info, world.nodes.resources, prefers_none=False)
    if "wantOrder" in record.expected:
        assert [p.name for p in by_score(rules, found)] == (record.expected["wantOrder"] or [])
        return
    free = dict.fromkeys(range(4), 10**15)
    taken = [p.name for p in choose_pods(rules, free, found).pods]
    wanted = record.expected["wantNominated"]
    assert taken == ([wanted["metadata"]["name"]] if wanted else [])


@parity(FILE, "TestPreAllocation")
def test_a_node_passes(record):
    given = record.input
    world = world_with(given["node"], given["pods"], given["reservations"])
    raw = given["pod"]
    pod = convert_object(raw, Pod)
    pod_info = world.pod_info(pod, is_reserve_pod=names.RESERVE_POD in pod.metadata.annotations)
    plan = Plugin({}).pre_filter(pod_info, View(world, pod_info, 0.0))
    codes = plan.filter(world.nodes.rows)
    assert status(Code(int(codes[0])), ()) == record.expected["wantFilterStatus"]
