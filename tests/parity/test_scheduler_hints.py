"""Upstream's tables of queueing hints."""

from holdfast.api.decode import convert_object
from holdfast.api.devices import ResourceClaim
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.scheduling.framework.plugin import ClusterEvent
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.dynamic_resources import DynamicResources
from holdfast.scheduling.plugins.node_affinity import NodeAffinityPlugin
from holdfast.scheduling.plugins.node_ports import NodePorts
from holdfast.scheduling.plugins.node_resources_fit import NodeResourcesFit
from holdfast.scheduling.plugins.node_unschedulable import NodeUnschedulable
from holdfast.scheduling.plugins.scheduling_gates import SchedulingGates
from holdfast.scheduling.plugins.taint_toleration import TaintToleration
from parity.harness import parity
from parity.scheduling import pod, status

FILE = "queueing_hints.jsonl"


def objects(record, kind):
    """Return the old and the new object of the event, typed."""
    raws = (record.input.get("oldObj"), record.input.get("newObj") or record.input.get("obj"))
    return tuple(None if raw is None else convert_object(raw, kind) for raw in raws)


def wanted(record):
    names = ("expectedHint", "wantHint", "expect")
    return next(record.expected[name] for name in names if name in record.expected) == "Queue"


def hinted(record, plugin, resource, action, old, new, world=None):
    """Return the plugin's hint for an event that the plugin must have registered."""
    world = world or World()
    pod_info = world.pod_info(pod(record.input["pod"]))
    event = ClusterEvent(resource, action, old, new)
    assert plugin.traits.registers(event)
    return plugin.queueing_hint(event, pod_info, View(world, pod_info, 0.0))


def after_node(record, plugin, update):
    old, new = objects(record, Node)
    return hinted(record, plugin, "Node", "Add" if old is None else update, old, new)


def after_pod(record, plugin, update):
    old, new = objects(record, Pod)
    action = "Delete" if new is None else update
    placed = (new or old).spec.node_name
    return hinted(record, plugin, "AssignedPod" if placed else "UnschedulablePod", action, old, new)


@parity(FILE, "nodeunschedulable/node_unschedulable_test.go:TestIsSchedulableAfterNodeChange")
def test_cordon(record):
    assert after_node(record, NodeUnschedulable({}), "UpdateNodeTaint") == wanted(record)


@parity(FILE, "nodeunschedulable/node_unschedulable_test.go:"
        "TestIsSchedulableAfterPodTolerationChange")  # fmt: skip
def test_cordon_tolerated(record):
    assert after_pod(record, NodeUnschedulable({}), "UpdatePodToleration") == wanted(record)


@parity(FILE, "tainttoleration/taint_toleration_test.go:TestIsSchedulableAfterNodeChange")
def test_taints(record):
    assert after_node(record, TaintToleration({}), "UpdateNodeTaint") == wanted(record)


@parity(FILE, "tainttoleration/taint_toleration_test.go:Test_isSchedulableAfterPodTolerationChange")
def test_taints_tolerated(record):
    assert after_pod(record, TaintToleration({}), "UpdatePodToleration") == wanted(record)


@parity(FILE, "nodeaffinity/node_affinity_test.go:Test_isSchedulableAfterNodeChange")
def test_affinity(record):
    plugin = NodeAffinityPlugin(record.input["args"] or {})
    assert after_node(record, plugin, "UpdateNodeLabel") == wanted(record)


@parity(FILE, "nodeports/node_ports_test.go:Test_isSchedulableAfterPodDeleted")
def test_ports(record):
    assert after_pod(record, NodePorts({}), "Delete") == wanted(record)


@parity(FILE, "noderesources/fit_test.go:Test_isSchedulableAfterNodeChange")
def test_fit_of_nodes(record):
    assert after_node(record, NodeResourcesFit({}), "UpdateNodeAllocatable") == wanted(record)


@parity(FILE, "noderesources/fit_test.go:Test_isSchedulableAfterPodChange")
def test_fit_beside_pods(record):
    assert after_pod(record, NodeResourcesFit({}), "UpdatePodScaleDown") == wanted(record)


@parity(FILE, "schedulinggates/scheduling_gates_test.go:Test_isSchedulableAfterPodChange")
def test_gates(record):
    found = after_pod(record, SchedulingGates({}), "UpdatePodSchedulingGatesEliminated")
    assert found == wanted(record)


@parity(FILE, "dynamicresources/dynamicresources_test.go:TestIsSchedulableAfterClaimChange")
def test_claims(record):
    old, new = objects(record, ResourceClaim)
    world = with_claims(record.input["claims"])
    if new is not None:
        world.upsert(new)
    action = "Add" if old is None else "Update"
    found = hinted(record, DynamicResources({}), "ResourceClaim", action, old, new, world)
    assert found == wanted(record)


@parity(FILE, "dynamicresources/dynamicresources_test.go:TestIsSchedulableAfterPodChange")
def test_generated_claims(record):
    _, new = objects(record, Pod)
    world = with_claims([*(record.input["claims"] or ()), *(record.input["objs"] or ())])
    action = "UpdatePodGeneratedResourceClaim"
    found = hinted(record, DynamicResources({}), "UnschedulablePod", action, None, new, world)
    assert found == wanted(record)


def with_claims(raws):
    world = World()
    for raw in raws or ():
        if raw.get("kind") == "ResourceClaim":
            world.upsert(convert_object(raw, ResourceClaim))
    return world


@parity("schedulinggates.jsonl", "TestPreEnqueue")
def test_gate(record):
    world = World()
    pod_info = world.pod_info(pod(record.input["pod"]))
    refusal = SchedulingGates({}).pre_enqueue(pod_info, View(world, pod_info, 0.0))
    got = {"code": "Success"} if refusal is None else status(refusal.code, refusal.reasons)
    assert got == record.expected["want"]
