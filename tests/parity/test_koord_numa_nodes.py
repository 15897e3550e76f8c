"""Koordinator's NodeNUMAResource: CPUs and amounts of the NUMA nodes of one node."""

from holdfast.api.quantity import milli, units
from holdfast.state.numa.cpu_set import format_cpu_list, mask_of, parse_cpu_list
from holdfast.state.numa.node_policies import POLICY_MISMATCH, NodePolicies, merge_numa_policies
from holdfast.state.numa.node_state import PodHolding, node_shape, state_of
from holdfast.state.numa.pod_request import NumaRequest
from holdfast.state.numa.resource_status import NumaAllocation, ordered
from holdfast.state.numa.topology import Cpu, NodeTopology, NumaZone, cpu_topology
from holdfast.state.numa.topology_hints import Hint
from holdfast.state.numa.trial import Situation, allocate_within, amount_hints, available_amounts
from parity.harness import parity

FILE = "koord_numa.jsonl"


def amounts(raw):
    return {name: (milli if name == "cpu" else units)(text) for name, text in raw.items()}


def by_node(raw):
    return ordered({each["node"]: amounts(each["resources"]) for each in raw or ()})


def cpus_of(shape):
    """Return the CPUs of a node; ids of threads, cores and NUMA nodes follow one another."""
    threads, cores = shape["threadsPerCore"], shape["coresPerNUMANode"]
    nodes = shape["sockets"] * shape["numaNodesPerSocket"]
    return tuple(
        Cpu(
            core * threads + thread,
            core,
            core // cores,
            core // cores // shape["numaNodesPerSocket"],
        )
        for core in range(nodes * cores)
        for thread in range(threads)
    )


def state(cpus, zones, ratios, held, *, amplified):
    """Return the state of a node with one pod."""
    read = tuple(NumaZone(node, of) for node, of in by_node(zones))
    ratio = tuple((ratios or {}).items())
    topology = NodeTopology(cpu=cpu_topology(cpus), zones=read, ratios=ratio)
    policies = NodePolicies(
        ratio=dict(ratio).get("cpu", 1.0), ratios=ratio, zones_amplified=amplified
    )
    pods = [PodHolding(held)] if held else []
    return state_of(node_shape(topology, policies), pods, {})


def given_state(given):
    held = given.get("allocated")
    mask = held and parse_cpu_list(held.get("cpuSet", ""))
    holding = held and NumaAllocation(mask, by_node(held["numaNodeResources"]))
    cpus, ratios = cpus_of(given["cpuTopologyShape"]), given.get("amplificationRatios")
    return state(cpus, given["numaNodeResources"], ratios, holding, amplified=False)


def given_request(options):
    """Return what the pod asks; ``originalRequests`` are not amplified."""
    asked = amounts(options.get("originalRequests") or options["requests"])
    policy = options.get("cpuBindPolicy", "")
    bound = options.get("requestCPUBind", False)
    return NumaRequest(
        amounts=tuple(sorted(asked.items())),
        millicores=asked.get("cpu", 0),
        bound=bound,
        bind_policy=policy if bound else "",
        required_policy=policy if options.get("requiredCPUBindPolicy") else "",
    )


def situation(given):
    return Situation(given_request(given["options"]), given_state(given))


@parity(FILE, "TestResourceManagerAllocate", "TestAllocateDistributeEvenly")
def test_a_pod_is_allocated_within_numa_nodes(record):
    given, want = record.input, record.expected["want"]
    mask = mask_of(given["options"]["hint"]["numaNodeAffinity"])
    found = allocate_within(situation(given), mask).allocation
    if record.expected["wantErr"]:
        assert found is None
        return
    assert format_cpu_list(found.cpus) == want.get("cpuSet", "")
    assert found.amounts == by_node(want["numaNodeResources"])


@parity(FILE, "TestResourceManagerGetTopologyHint")
def test_a_pod_has_hints(record):
    given = record.input
    found = amount_hints(situation(given), given["policy"])
    got = {name: [hint._replace(score=0) for hint in hints] for name, hints in found.items()}
    assert got == {
        name: [Hint(mask_of(each["numaNodeAffinity"]), each["preferred"]) for each in hints]
        for name, hints in record.expected["want"].items()
    }


@parity(FILE, "Test_getAvailableNUMANodeResources")
def test_numa_nodes_have_available_amounts(record):
    options = record.input["topologyOptions"]
    cpus = tuple(Cpu(*cpu) for cpu in options["cpuTopology"]["cpus"])
    used = by_node((record.input["allocation"].get("allocatedResources") or {}).values())
    held = NumaAllocation(mask_of(range(record.input["allocatedCPUSets"])), used)
    ratios = options.get("amplificationRatios")
    node = state(cpus, options["numaNodeResources"], ratios, held, amplified=True)
    asked = NumaRequest((("cpu", 1000),), 1000)
    want = {int(n): amounts(of) for n, of in record.expected["wantAvailable"].items()}
    assert available_amounts(Situation(asked, node)) == want


@parity(FILE, "Test_getCPUBindPolicy")
def test_the_bind_policy_of_a_pod_on_a_node(record):
    given, want = record.input, record.expected
    kubelet = (given.get("kubeletPolicy") or {}).get("options") or {}
    forced = "FullPCPUs" if given["nodePolicy"] or kubelet else ""
    shape = node_shape(NodeTopology(), NodePolicies(bind=forced))
    asked = NumaRequest(
        bind_policy=given["preferredPolicy"], required_policy=given["requiredPolicy"]
    )
    on = Situation(asked, state_of(shape, (), {}))
    assert on.bind_policy == want["wantPolicy"]
    assert bool(on.required_policy) == want["wantRequired"]


@parity(FILE, "Test_mergeTopologyPolicy")
def test_the_numa_policy_of_a_pod_on_a_node(record):
    found = merge_numa_policies(record.input["nodePolicy"], record.input["podPolicy"])
    assert (found or "") == record.expected["want"]
    assert (POLICY_MISMATCH if found is None else None) == record.expected["wantErr"]
