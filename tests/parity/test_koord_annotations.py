"""Koordinator's labels and annotations of pods, nodes and devices, and its checks of pods."""

import json
import re

import msgspec
import pytest

from holdfast.api import koordinator_names as names
from holdfast.api.decode import convert_object
from holdfast.api.koordinator_qos import named_priority_class, priority_class, qos_class
from holdfast.api.node_resource_topology import NodeResourceTopology
from holdfast.api.pod import Pod
from holdfast.api.quantity import units
from holdfast.api.shared_device import SharedDevices
from holdfast.runtime.errors import BadRequest
from holdfast.server.kinds.koordinator_checks import gpu_share_errors
from holdfast.state.device_share.allocation_annotation import allocations_text, read_allocations
from holdfast.state.device_share.allocations import SharedDeviceAllocation
from holdfast.state.device_share.partitions import partition_table
from holdfast.state.device_share.pod_devices import pod_devices
from holdfast.state.device_share.requests import RESOURCES
from holdfast.state.numa.cpu_set import parse_cpu_list
from holdfast.state.numa.node_policies import read_node
from holdfast.state.numa.topology import NO_TOPOLOGY, read_topology
from parity.harness import parity

EXTENSION = "koord_extension.jsonl"
A_TABLE = '{"1": [{"minors": [0], "allocationScore": 1}]}'


def annotations_of(obj):
    return obj["metadata"].get("annotations") or {}


def allocations(written):
    """Return devices with their amounts, by type, of the JSON form of an annotation."""
    return {
        kind: tuple(
            SharedDeviceAllocation(
                one["minor"],
                tuple(units(one["resources"].get(name, 0)) for name in RESOURCES[kind]),
            )
            for one in listed
        )
        for kind, listed in (written or {}).items()
    }


@parity(EXTENSION, "Test_GetDeviceAllocations")
def test_devices_of_a_pod_are_read(record):
    """The ids are not read: those of the Device are written."""
    if record.expected["wantErr"]:
        with pytest.raises(BadRequest):
            read_allocations(annotations_of(record.input["pod"]))
    else:
        got = read_allocations(annotations_of(record.input["pod"]))
        assert got == allocations(record.expected["want"])


@parity(EXTENSION, "Test_SetDeviceAllocations")
def test_devices_of_a_pod_are_written(record):
    got = allocations_text(allocations(record.input["allocations"]), {})
    assert json.loads(got) == json.loads(record.expected["wantAnnotation"])


@parity(EXTENSION, "TestGetGPUPartitionSpec")
def test_a_pod_asks_for_a_partition(record):
    pod = {"metadata": {"annotations": record.input.get("annotations") or {}}}
    got = pod_devices(convert_object(pod, Pod), {"nvidia.com/gpu": 1}).partition
    want = record.expected["want"]
    assert (got is None) == (want is None)
    if want is not None:
        assert got.restricted == (want["allocatePolicy"] == "Restricted")
        assert got.bandwidth == units(want.get("ringBusBandwidth", 0))


@parity(EXTENSION, "TestGetGPUPartitionTable")
def test_partitions_of_a_node(record):
    """A table that cannot be read counts as absent, as the plugin of the reference treats it."""
    table, _ = partition_table(convert_object(record.input["device"], SharedDevices), {})
    want = record.expected["want"] or {}
    got = {
        str(size): [(sorted(one.minors), one.score, one.bandwidth) for one in listed]
        for size, listed in (table.of_size if table else ())
    }
    assert got == {
        size: [
            (one["minors"], one["allocationScore"], units(one["ringBusBandwidth"]))
            for one in listed
        ]
        for size, listed in want.items()
    }


@parity(EXTENSION, "TestGetNodeLevelGPUAllocatePolicy")
def test_the_policy_for_partitions(record):
    device = record.input["node"]
    device["metadata"]["annotations"] = {names.GPU_PARTITIONS: A_TABLE}
    _, honors = partition_table(convert_object(device, SharedDevices), {})
    assert honors == (record.expected["expected"] == "Honor")


def topology_with(annotations):
    """Return what is read of a node with CPUs 0 to 7 and these annotations."""
    detail = [{"id": n, "core": n, "socket": 0, "node": 0} for n in range(8)]
    cpus = msgspec.json.encode({"detail": detail}).decode()
    notes = {names.CPU_TOPOLOGY: cpus} | (annotations or {})
    return read_topology(convert_object({"metadata": {"annotations": notes}}, NodeResourceTopology))


@parity(EXTENSION, "TestGetReservedCPUs")
def test_cpus_reserved_by_a_node(record):
    """The scheduler uses the list only; a list that cannot be read is a fault."""
    topology = topology_with(record.input.get("anno"))
    if record.expected["want"] == "-1":
        assert len(topology.faults) == 1
    else:
        assert topology.unavailable == parse_cpu_list(record.expected["want"])
        assert topology.faults == ()


@parity(EXTENSION, "TestGetSystemQOSResource")
def test_cpus_of_the_system(record):
    topology = topology_with(record.input.get("anno"))
    want = record.expected["want"] or {}
    assert bool(topology.faults) == record.expected["wantErr"]
    assert topology.unavailable == parse_cpu_list(want.get("cpuset", ""))


@parity(EXTENSION, "TestSystemQOSResource_IsCPUSetExclusive")
def test_cpus_of_the_system_are_exclusive_by_default(record):
    written = {"cpuset": record.input["cpuSet"]}
    if "cpuSetExclusive" in record.input:
        written["cpusetExclusive"] = record.input["cpuSetExclusive"]
    topology = topology_with({names.SYSTEM_QOS_RESOURCE: json.dumps(written)})
    assert bool(topology.unavailable) == record.expected["want"]


@parity(EXTENSION, "TestGetNodeResourceAmplificationRatios")
def test_ratios_of_a_node(record):
    policies = read_node({}, annotations_of(record.input["node"]), NO_TOPOLOGY)
    assert (policies.ratio is None) == record.expected["wantErr"]
    assert dict(policies.ratios) == (record.expected["want"] or {})


@parity(EXTENSION, "TestGetNodeResourceAmplificationRatio")
def test_the_ratio_of_a_resource(record):
    policies = read_node({}, annotations_of(record.input["node"]), NO_TOPOLOGY)
    assert (policies.ratio is None) == record.expected["wantErr"]
    assert dict(policies.ratios).get(record.input["resource"], -1) == record.expected["want"]


@parity(EXTENSION, "TestGetPriorityClass")
def test_the_named_priority_class(record):
    pod = record.input["pod"]
    got = named_priority_class(pod["metadata"].get("labels") or {}, pod["spec"].get("priority"))
    assert got == record.expected["expected"]


@parity(EXTENSION, "TestGetPodPriorityClassWithDefault")
def test_the_priority_class_by_qos(record):
    pod = record.input["pod"]
    got = priority_class(
        pod["metadata"].get("labels") or {}, pod["spec"].get("priority"), kubernetes_qos(pod)
    )
    assert got == record.expected["expected"]


def kubernetes_qos(pod):
    """Return the QoS class of Kubernetes; the requests of these records are for cpu only."""
    resources = [one.get("resources") or {} for one in pod["spec"].get("containers") or ()]
    if not any(resources):
        return "BestEffort"
    return "Burstable"


@parity(EXTENSION, "TestGetPodQoSClass", "TestGetQoSClassByAttrs")
def test_the_qos_class(record):
    labels = record.input.get("labels") or (record.input.get("pod") or {}).get("metadata", {}).get(
        "labels"
    )
    assert qos_class(labels or {}) == record.expected["want"]


@parity(
    EXTENSION, "TestGetNodeRawAllocatable", "TestGetPodPriorityValueWithDefault",
    "Test_PodEvictDisabled", "TestGetPodKoordPreemptionPolicy",
)  # fmt: skip
def test_what_no_part_of_holdfast_reads(record):
    pytest.fail("not read")


@parity("koord_webhook.jsonl", "TestDeviceResourceValidatingPod")
def test_requests_for_shares_of_gpus(record):
    """Our paths have the index of the container; the check has the same gate."""
    if record.input["disableValidateDeviceResource"]:
        told = []
    else:
        told = [
            f"pod.{re.sub(r'[0-9]+', '*', cause.field)}: {cause.message}"
            for cause in gpu_share_errors(record.input["newPod"])
        ]
    if record.expected["wantAllowed"]:
        assert told == []
    else:
        assert ", ".join(told) == record.expected["wantReason"]
