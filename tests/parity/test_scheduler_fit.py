"""Upstream's tables of NodeResourcesFit and BalancedAllocation."""

from dataclasses import replace

import pytest

from holdfast.api.decode import convert_object
from holdfast.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from holdfast.api.requests import PodResourcesOptions, pod_request
from holdfast.runtime.errors import BadConfiguration
from holdfast.scheduling.plugins.balanced_allocation import BalancedAllocation
from holdfast.scheduling.plugins.node_resources_fit import NodeResourcesFit
from holdfast.scheduling.plugins.node_resources_fit.arguments import read_args
from holdfast.scheduling.plugins.node_resources_fit.plugin import fits_empty, grew
from holdfast.scheduling.plugins.node_resources_fit.strategies import broken_linear
from parity.harness import parity
from parity.scheduling import asked, by_name, node, pod, put, world_of

TYPES = {
    "FieldValueInvalid": "Invalid value", "FieldValueRequired": "Required value",
    "FieldValueNotSupported": "Unsupported value",
}  # fmt: skip


def of_node_info(info, raw_node=None):
    world = world_of([node(info.get("node") or raw_node, name="here")])
    for i, raw in enumerate(info["pods"] or ()):
        put(world, raw, f"pod-{i}", "here")
    return world


DEVICE_KINDS = {kind.__name__: kind for kind in (DeviceClass, ResourceClaim, ResourceSlice)}


def with_devices(world, objects):
    for raw in objects or ():
        world.upsert(convert_object(raw, DEVICE_KINDS[raw["kind"]]))
    return world


def serve(world, classes):
    for raw in classes or ():
        world.upsert(convert_object(raw, DeviceClass))


@parity("noderesources_fit.jsonl", "TestEnoughRequests")
def test_enough(record):
    world = of_node_info(record.input["nodeInfo"], record.input["node"])
    serve(world, record.input.get("deviceClasses"))
    found = asked(NodeResourcesFit(record.input["args"]), record.input["pod"], world)
    assert found.filter("here") == record.expected["wantStatus"]
    plan, names = found.prepared.plan, world.nodes.resources
    short = plan.fit.shortages(world.nodes.row_of["here"])
    got = [(names[s.resource], plan.reason_of(s.resource), *s[1:]) for s in short]
    names = ("resourceName", "reason", "requested", "used", "capacity", "unresolvable")
    want = record.expected["wantInsufficientResources"]
    assert got == [tuple(one.get(name, False) for name in names) for one in want]


@parity("noderesources_fit.jsonl", "TestNotEnoughRequests", "TestStorageRequests")
def test_not_enough(record):
    world = of_node_info(record.input["nodeInfo"])
    found = asked(NodeResourcesFit(record.input["args"]), record.input["pod"], world)
    assert found.filter("here") == record.expected["wantStatus"]


QUANTITIES = {"milliCPU": ("cpu", "m"), "memory": ("memory", "")}


@parity("dynamicresources_helpers.jsonl", "TestNodeFitsNativeResources")
def test_aggregated_request(record):
    """The request is given as sums; what is requested on the node already comes from one pod."""
    world = of_node_info(record.input["nodeInfo"])
    put(world, pod_of(record.input["nodeInfo"]["requested"]), "others", "here")
    found = asked(NodeResourcesFit({}), pod_of(record.input["podRequest"]), world)
    assert found.filter("here") == record.expected["wantStatus"]


def pod_of(sums):
    """Return a pod with these requests."""
    requests = {name: f"{sums[key]}{unit}" for key, (name, unit) in QUANTITIES.items()}
    requests |= {name: str(amount) for name, amount in (sums["scalarResources"] or {}).items()}
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}}


@parity("noderesources_fit.jsonl", "TestRestartableInitContainers")
def test_sidecars(record):
    world = of_node_info(record.input["nodeInfo"])
    found = asked(NodeResourcesFit(record.input["args"]), record.input["pod"], world)
    assert found.prefilter == record.expected["wantPreFilterStatus"]
    assert found.filter("here") == record.expected["wantFilterStatus"]


def wants(raw):
    """Return the requests of a pod by name."""
    return {name: amount for name, amount in pod_request(pod(raw)).amounts.items() if amount}


@parity("noderesources_fit.jsonl", "TestIsFit")
def test_fits_the_empty_node(record):
    here, wanted = node(record.input["node"], name="here"), record.expected["expected"]
    assert fits_empty(wants(record.input["pod"]), here, lambda _: False) == wanted
    found = asked(NodeResourcesFit({}), record.input["pod"], world_of([here]))
    assert (found.filter("here")["code"] == "Success") == wanted


@parity("noderesources_fit.jsonl", "TestHaveAnyRequestedResourcesIncreased")
def test_a_node_grew(record):
    world = world_of([])
    serve(world, record.input.get("deviceClasses"))
    old, new = node(record.input["originalNode"]), node(record.input["modifiedNode"])
    got = grew(
        wants(record.input["pod"]),
        old,
        new,
        lambda n: world.devices.device_class_for(n) is not None,
    )
    assert got == record.expected["expected"]


@parity("noderesources_fit.jsonl", "TestComputePodResourceRequestWithNodeAllocatableDRA")
def test_pod_request(record):
    want, got = record.expected["resource"], pod_request(pod(record.input["pod"])).amounts
    assert got.get("cpu", 0) == want["milliCPU"]
    assert got.get("memory", 0) == want["memory"]
    assert got.get("ephemeral-storage", 0) == want["ephemeralStorage"]


def scored(plugin, record, normalized=False):
    world = world_of(
        [node(raw) for raw in record.input["nodes"]],
        record.input.get("existingPods") or record.input.get("pods"),
    )
    with_devices(world, record.input.get("draObjects"))
    incoming = record.input.get("requestedPod") or record.input.get("pod")
    return asked(plugin, incoming, world)


def fit_plugin(raw_args):
    """Build a strategy without defaulting, as upstream's tables do: no resources means none."""
    args = read_args(raw_args)
    given = (raw_args.get("scoringStrategy") or {}).get("resources")
    return NodeResourcesFit(args if given else replace(args, resources=()))


@parity(
    "noderesources_score.jsonl",
    "TestLeastAllocatedScoringStrategy",
    "TestMostAllocatedScoringStrategy",
)
def test_strategies(record):
    wrong = record.expected["wantErrs"]
    if wrong:
        with pytest.raises(BadConfiguration) as refusal:
            fit_plugin(record.input["args"])
        got = {(c.field, TYPES[c.reason]) for c in refusal.value.details.causes}
        assert got == {(w["field"], w["type"]) for w in map(error, wrong)}
        return
    found = scored(fit_plugin(record.input["args"]), record)
    if record.expected["wantStatusCode"] == "Error":
        assert found.prefilter["code"] == "Error"
    else:
        assert found.scores(normalized=False) == by_name(record.expected["expectedScores"])


def error(raw):
    if isinstance(raw, dict):
        return raw
    field, _, rest = raw.partition(": ")
    return {"field": field, "type": rest.partition(":")[0]}


@parity(
    "noderesources_score.jsonl",
    "TestRequestedToCapacityRatioScoringStrategy",
    "TestResourceBinPackingSingleExtended",
    "TestResourceBinPackingMultipleExtended",
)
def test_ratio(record):
    found = scored(fit_plugin(record.input["args"]), record)
    assert found.scores(normalized=False) == by_name(record.expected["expectedScores"])


@parity("noderesources_score.jsonl", "TestBrokenLinearFunction")
def test_broken_line(record):
    shape = [(p["utilization"], p["score"]) for p in record.input["points"]]
    for case in record.expected["assertions"]:
        assert broken_linear(shape, case["p"]) == pytest.approx(
            case["expected"], abs=record.expected["tolerance"]
        )


@parity("noderesources_score.jsonl", "TestFitScore")
def test_fit_score(record):
    found = scored(fit_plugin(record.input["nodeResourcesFitArgs"]), record)
    assert found.scores(normalized=False) == by_name(record.expected["expectedPriorities"])


@parity("noderesources_score.jsonl", "TestNodeResourcesBalancedAllocation")
def test_balanced(record):
    found = scored(BalancedAllocation(record.input["args"]), record)
    wanted = record.expected["expectedPreScoreStatusCode"]
    if record.input["runPreScore"]:
        assert found.prescore_skips == (wanted == "Skip")
    if wanted == "Success":
        assert found.scores(normalized=False) == by_name(record.expected["expectedScores"])


@parity("noderesources_score.jsonl", "TestCalculateResourceAllocatableRequest")
def test_what_a_node_has_and_uses(record):
    world = with_devices(world_of([node(record.input["node"])]), record.input["draObjects"])
    nodes = world.nodes
    resource, row = nodes.resources.id(record.input["extendedResource"]), nodes.rows[0]
    served = world.devices.device_backed_resources([resource])
    if record.input["draObjects"] is None:
        assert not served
        amounts = nodes.amounts
        found = amounts.allocatable_at[resource][row], amounts.requested_at[resource][row]
    else:
        found = served[resource].one(row)
        assert tuple(int(column[0]) for column in served[resource].many([row])) == found
    assert found == (record.expected["expectedAllocatable"], record.expected["expectedAllocated"])


@parity("noderesources_score.jsonl", "TestResourceAllocationScorerCalculateRequests")
def test_nonzero_requests(record):
    got = pod_request(pod(record.input["pod"]), PodResourcesOptions(pod_level=False))
    want = record.expected["expected"]
    assert got.nonzero_millicores == want.get("cpu", 0)
    assert got.nonzero_bytes == want.get("memory", 0)
    for name in set(want) - {"cpu", "memory"}:
        assert got.amounts.get(name, 0) == want[name]
