"""Koordinator's CPU accumulator: which CPUs a pod gets."""

from holdfast.state.numa.cpu_accumulator import take_cpus
from holdfast.state.numa.cpu_set import format_cpu_list, mask_of, parse_cpu_list
from holdfast.state.numa.topology import Cpu, cpu_topology
from parity.harness import parity

FILE = "koord_takecpus.jsonl"


def topology(raw):
    return cpu_topology(tuple(Cpu(*cpu) for cpu in raw["cpus"]))


def held(given):
    """Return all held CPUs, and those whose holders have the exclusive policy of this pod."""
    found, policy = given.get("allocatedCPUs", ""), given["cpuExclusivePolicy"]
    if isinstance(found, str):
        mask = parse_cpu_list(found)
        return mask, mask if given.get("allocatedExclusivePolicy") == policy else 0
    alike = mask_of(cpu["cpu"] for cpu in found if cpu.get("exclusivePolicy", "") == policy)
    return mask_of(cpu["cpu"] for cpu in found), alike


def take(record):
    given = record.input
    cpus = topology(given["topology"])
    taken, alike = held(given)
    available = given.get("availableCPUs")
    found = take_cpus(
        cpus,
        cpus.all & ~taken if available is None else parse_cpu_list(available),
        given["numCPUsNeeded"],
        bind_policy=given["cpuBindPolicy"],
        exclusive_policy=given["cpuExclusivePolicy"],
        held_exclusively=alike,
        strategy=given["numaAllocateStrategy"],
        preferred=parse_cpu_list(given.get("preferredCPUs", "")),
    )
    return None if found is None else format_cpu_list(found)


@parity(
    FILE,
    "TestTakeFullPCPUs",
    "TestTakeFullPCPUsWithNUMALeastAllocated",
    "TestTakeSpreadByPCPUs",
    "TestTakeSpreadByPCPUsWithNUMALeastAllocated",
    "TestTakeCPUsWithExclusivePolicy",
    "TestTakePreferredCPUs",
)
def test_the_accumulator_takes(record):
    assert take(record) == (None if record.expected["wantError"] else record.expected["wantResult"])


@parity(
    FILE,
    "TestPlugin_Filter",
    "TestPlugin_Reserve",
    "TestPlugin_AllocateReservationPreAllocationFromPreAllocatablePods",
    "TestPlugin_FilterNominateReservationPreAllocation",
    "TestResourceManagerAllocate",
    "TestAllocateDistributeEvenly",
    "TestResourceManagerGetTopologyHint",
)
def test_a_recorded_call_takes(record):
    assert take(record) == record.observed.get("result")
