"""Koordinator's tables of who is evicted for a reservation, and who is not."""

import numpy as np

from holdfast.api.decode import convert_object
from holdfast.api.workloads import PodDisruptionBudget
from holdfast.engine.plugin_use import PluginUse
from holdfast.engine.prepared import ask
from holdfast.framework.plugin import Code
from holdfast.framework.rejection import PASSED, Rejection
from holdfast.framework.view import View
from holdfast.framework.world import World
from holdfast.plugins.default_preemption import DefaultPreemption
from holdfast.plugins.default_preemption.search import Search
from holdfast.plugins.default_preemption.trial import trials_of
from holdfast.plugins.reservation import ReservationPlugin
from holdfast.plugins.reservation.evicting import spared
from parity.harness import parity
from parity.reserving import EVERYBODY, is_reserve_pod, reservation
from parity.scheduling import node, pod
from parity.test_koord_reservation_filter import summed_up

FILE = "koord_reservation_filter.jsonl"


def refused_everywhere(world, pod_info):
    """A rejection by every node, where reservations are all there is to ask."""
    view, plugin = View(world, pod_info, 0.0), ReservationPlugin({"enablePreemption": True})
    prepared, size = ask(PluginUse(plugin), pod_info, view, ()), world.nodes.size
    return Rejection(
        pod=pod_info, view=view, nodes=world.nodes.node_count,
        codes=np.full(size, Code.UNSCHEDULABLE, np.int8),
        plugin_of=np.full(size, PASSED, np.int8),
        filters=((plugin, prepared.state),) if prepared.filters else (),
    )  # fmt: skip


@parity(FILE, "TestPostFilterWithPreemption", where=lambda r: r.input["enablePreemption"])
def test_summary_with_preemption(record):
    """What preempting came to stands before what became of reservations."""
    world = World()
    for raw in record.input["nodes"]:
        world.upsert(node(raw))
    refused = refused_everywhere(
        world, world.pod_info(pod(record.input["testPod"], uid="incoming"))
    )
    effect = DefaultPreemption({}).post_filter(None, refused, refused.view)
    want = record.expected
    assert [effect.message, *summed_up(record)] == want["wantStatus"]["reasons"]
    assert (effect.code.upstream_name, effect.nominated_node) == (
        want["wantStatus"]["code"],
        want["wantResult"],
    )


@parity(FILE, "TestPreemptionMgrSelectVictimsOnNode")
def test_nobody_has_to_go(record):
    """Where there is room all are let back; Go only later says that this helps nobody."""
    given, want, world = record.input, record.expected, World()
    world.upsert(node(given["nodeInfo"]["node"]))
    for raw in given["nodeInfo"]["pods"]:
        world.upsert(pod(raw))
    for raw in given.get("reservations") or ():
        world.upsert(reservation(raw, owners=EVERYBODY))
    pod_info = world.pod_info(pod(given["pod"]), stands_in=is_reserve_pod(given["pod"]))
    refused = refused_everywhere(world, pod_info)
    outcome = Search(refused, refused.view).outcome(world.nodes.row_of["test-node-0"])
    assert (want["wantVictims"], want["wantNumPDBViolations"]) == (None, 0)
    assert outcome.reasons == ('expected at least one victim pod on node "test-node-0"',)


@parity(FILE, "TestFilterPodsWithPDBViolation")
def test_budgets(record):
    given, want, world = record.input, record.expected, World()
    for raw in given.get("pdbs") or ():
        if "disruptedPods" in raw["status"]:
            # Go's zero time is null in JSON, and nulls were left out of records.
            since = "2026-01-01T00:00:00Z"
            disrupted = {there["metadata"]["name"]: since for there in given["pods"]}
            raw = {**raw, "status": {**raw["status"], "disruptedPods": disrupted}}
        world.upsert(convert_object(raw, PodDisruptionBudget))
    budgets = trials_of(world).budgets
    budgets.refresh()
    pods = [world.pod_info(pod(raw, uid=f"pod-{i}")) for i, raw in enumerate(given["pods"])]
    beyond = len(budgets.violating(pods))
    assert beyond == want["wantViolatingCount"]
    assert len(pods) - beyond == want["wantNonViolatingCount"]


@parity("koord_extension.jsonl", "TestIsPodPreemptible")
def test_who_is_spared(record):
    pod_info = World().pod_info(pod(record.input.get("pod"), uid="there"))
    assert spared(pod_info) is not record.expected["want"]
