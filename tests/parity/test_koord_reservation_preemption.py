"""Koordinator's tables of the pods that are preempted for a reservation."""

import numpy as np

from holdfast.api.decode import convert_object
from holdfast.api.workloads import PodDisruptionBudget
from holdfast.scheduling.engine.plugin_results import run_pre_filter
from holdfast.scheduling.engine.plugin_use import PluginUse
from holdfast.scheduling.framework.plugin import Code
from holdfast.scheduling.framework.rejection import PASSED, Rejection
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.default_preemption import DefaultPreemption
from holdfast.scheduling.plugins.default_preemption.dry_run_columns import dry_run_cache_of
from holdfast.scheduling.plugins.default_preemption.search import CandidateSearch
from holdfast.scheduling.plugins.reservation import ReservationPlugin
from holdfast.scheduling.plugins.reservation.eviction_rules import is_protected
from parity.harness import parity
from parity.reserving import ANY_OWNER, is_reserve_pod, reservation, summed_up
from parity.scheduling import node, pod

FILE = "koord_reservation_filter.jsonl"


def refused_everywhere(world, pod_info):
    """Return a rejection on every node by the Reservation plugin alone."""
    view, plugin = View(world, pod_info, 0.0), ReservationPlugin({"enablePreemption": True})
    prepared, size = run_pre_filter(PluginUse(plugin), pod_info, view), world.nodes.size
    return Rejection(
        pod=pod_info, view=view, nodes=world.nodes.node_count,
        codes=np.full(size, Code.UNSCHEDULABLE, np.int8),
        plugin_of=np.full(size, PASSED, np.int8),
        filters=((plugin, prepared.plan),) if prepared.filters else (),
    )  # fmt: skip


@parity(FILE, "TestPostFilterWithPreemption", where=lambda r: r.input["enablePreemption"])
def test_summary_with_preemption(record):
    """The message of preemption precedes the summary of reservations."""
    world = World()
    for raw in record.input["nodes"]:
        world.upsert(node(raw))
    refused = refused_everywhere(
        world, world.pod_info(pod(record.input["testPod"], uid="incoming"))
    )
    effect = DefaultPreemption({}).post_filter(refused, refused.view)
    want = record.expected
    assert [effect.message, *summed_up(record)] == want["wantStatus"]["reasons"]
    assert (effect.code.upstream_name, effect.nominated_node) == (
        want["wantStatus"]["code"],
        want["wantResult"],
    )


@parity(FILE, "TestPreemptionMgrSelectVictimsOnNode")
def test_no_victim_is_needed(record):
    """If the pod fits, all victims are reprieved; Go rejects such a node only later."""
    given, want, world = record.input, record.expected, World()
    world.upsert(node(given["nodeInfo"]["node"]))
    for raw in given["nodeInfo"]["pods"]:
        world.upsert(pod(raw))
    for raw in given.get("reservations") or ():
        world.upsert(reservation(raw, owners=ANY_OWNER))
    pod_info = world.pod_info(pod(given["pod"]), is_reserve_pod=is_reserve_pod(given["pod"]))
    refused = refused_everywhere(world, pod_info)
    outcome = CandidateSearch(refused, refused.view).outcome(world.nodes.row_of["test-node-0"])
    assert (want["wantVictims"], want["wantNumPDBViolations"]) == (None, 0)
    assert outcome.reasons == ('expected at least one victim pod on node "test-node-0"',)


@parity(FILE, "TestFilterPodsWithPDBViolation")
def test_budgets(record):
    given, want, world = record.input, record.expected, World()
    for raw in given.get("pdbs") or ():
        if "disruptedPods" in raw["status"]:
            # Go's zero time is null in JSON, and the records omit nulls.
            since = "2026-01-01T00:00:00Z"
            disrupted = {there["metadata"]["name"]: since for there in given["pods"]}
            raw = {**raw, "status": {**raw["status"], "disruptedPods": disrupted}}
        world.upsert(convert_object(raw, PodDisruptionBudget))
    budgets = dry_run_cache_of(world).budgets
    budgets.refresh()
    pods = [world.pod_info(pod(raw, uid=f"pod-{i}")) for i, raw in enumerate(given["pods"])]
    beyond = len(budgets.violating(pods))
    assert beyond == want["wantViolatingCount"]
    assert len(pods) - beyond == want["wantNonViolatingCount"]


@parity("koord_extension.jsonl", "TestIsPodPreemptible")
def test_pods_that_are_not_preempted(record):
    pod_info = World().pod_info(pod(record.input.get("pod"), uid="there"))
    assert is_protected(pod_info) is not record.expected["want"]
