"""``holdfast explain`` and ``reservation why`` for CPUs, NUMA nodes and shared GPUs."""

import pytest

from cli.explain_requests import ask
from cli.numa_objects import a_gpu_holder, a_holder, a_reserved_gpu, a_reserved_set, gpu_share
from device_share.objects import a_device_object, a_gpu, a_gpu_node, a_gpu_pod
from holdfast.api import koordinator_names as names
from holdfast.api.koordinator_names import GPU
from holdfast.api.reservation_names import AFFINITY
from holdfast.cli.explanation_text import format_explanation
from holdfast.cli.reservation.why import explain
from holdfast.cli.snapshot import built_in_profiles
from holdfast.testing import a_node, a_reservation, typed
from holdfast.testing.numa_builders import a_bound_pod, a_topology

REQUIRED = {"requiredCPUBindPolicy": "FullPCPUs"}
AFFINE = {AFFINITY: "{}"}


def lines(*objects, **more):
    return format_explanation(ask(*objects, **more)).splitlines()


def node(name="n", **more):
    return a_node(name, cpu="16", memory="32Gi", **more)


def large(name="n"):
    """A node where certain CPUs are short before cpu is."""
    return a_node(name, cpu="64", memory="32Gi")


def test_the_node_with_the_most_free_cpus_is_named_and_what_holds_the_rest():
    reserved = {names.CPU_MANAGER_POLICY: {"policy": "static", "reservedCPUs": "0-1"}}
    found = lines(
        large("a"), a_topology("a"), a_holder("x", "0-13", node="a"),
        large("b"), a_topology("b", annotations=reserved), a_holder("y", "2-5", node="b"),
        a_reserved_set("r", "7,9", "2", node="b"), node("c"),
        a_bound_pod("p", "8", spec=REQUIRED),
    )  # fmt: skip
    assert found[0].startswith("default/p: 0/3 nodes are available: ")
    assert (
        "      2  not enough cpus available to satisfy request  [NodeNUMAResource]: a, b" in found
    )
    assert "      1  node(s) invalid CPU Topology  [NodeNUMAResource]: c" in found
    at = found.index("  it needs 8 exclusive CPUs, on whole cores")
    assert found[at + 1 : at + 3] == [
        "    closest: b has 8 free CPUs (6,8,10-15), 6 of them as FullPCPUs needs them; held: "
        "2 by reservation r, 4 by pods, 2 by the kubelet and the system",
        "    to do: `holdfast cpus b` shows what holds each CPU",
    ]
    assert found[at + 3].startswith("  to do: koordlet has to publish a NodeResourceTopology")


def test_the_left_amounts_of_NUMA_nodes_are_named():
    found = lines(
        node(labels={names.NUMA_TOPOLOGY_POLICY: "SingleNUMANode"}), a_topology(),
        a_holder("x", "", amounts=[(0, {"cpu": "6", "memory": "8Gi"})], cpu="6", memory="8Gi"),
        a_holder("y", "", amounts=[(1, {"cpu": "6", "memory": "4Gi"})], cpu="6", memory="4Gi"),
        a_bound_pod("p", "3", qos="LS", memory="1Gi"),
    )  # fmt: skip
    assert found[1].startswith("      1  Unaligned NUMA Hint cause")
    assert found[2:5] == [
        "  it needs cpu 3, memory 1Gi, aligned by SingleNUMANode",
        "    closest: n (SingleNUMANode): NUMA node 0 has cpu 2, memory 8Gi; "
        "NUMA node 1 has cpu 2, memory 12Gi left",
        "    to do: `holdfast cpus n` shows what holds each CPU",
    ]


def test_an_owner_sees_what_its_reservation_has_left():
    found = lines(
        node(), a_topology(), a_holder("o", "0-1", owns="r", cpu="2"),
        a_reserved_set("r", "0-3", allocate_policy="Restricted"),
        a_bound_pod("p", "3", labels={"app": "x"}, annotations=AFFINE),
    )  # fmt: skip
    assert (
        "    reservation r on n has CPUs 2-3 left: "
        "Reservation(s) not enough cpus available to satisfy request"
    ) in found


def test_an_owner_sees_the_amounts_of_NUMA_nodes_of_its_reservation():
    labels = {names.NUMA_TOPOLOGY_POLICY: "SingleNUMANode"}
    held = {"cpu": "4", "memory": "4Gi"}
    found = lines(
        node(labels=labels), a_topology(),
        a_holder("o", "", owns="r", amounts=[(0, {"cpu": "2"})], cpu="2"),
        a_reserved_set("r", "", amounts=[(0, held)], allocate_policy="Restricted"),
        a_bound_pod("p", "3", qos="LS", labels={"app": "x"}, annotations=AFFINE),
    )  # fmt: skip
    words = "    reservation r on n has NUMA node 0: cpu 2, memory 4Gi left: Reservation(s) "
    assert any(line.startswith(words) for line in found), found


def test_a_node_with_another_policy_is_not_the_closest():
    other = {names.NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy": "Restricted"}'}
    found = lines(
        node(labels={names.NUMA_TOPOLOGY_POLICY: "SingleNUMANode"}), a_topology(),
        a_bound_pod("p", "2", annotations=other),
    )  # fmt: skip
    assert "node(s) NUMA Topology policy not match" in found[0]
    assert found[2].startswith("  to do: pod and node name different NUMA policies")


def test_the_devices_of_the_closest_node_are_named():
    found = lines(
        a_gpu_node("a"), a_device_object("a", a_gpu(0, health=False), a_gpu(1, health=False)),
        a_gpu_node("b"), a_device_object("b"),
        a_gpu_holder("x", {"gpu": [gpu_share(0, 50, "8Gi")]}, node="b", requests={GPU: "50"}),
        a_reserved_gpu("r", {"gpu": [gpu_share(1, 70, "11Gi")]}, "b", {GPU: "70"}),
        a_gpu_pod("p", 60),
    )  # fmt: skip
    at = found.index("  it needs 1 gpu device with 60%")
    assert found[at + 1 : at + 5] == [
        "    closest: b, where 0 of 2 gpu devices have that much left",
        "      gpu 0 has 50% 8Gi left",
        "      gpu 1 has 30% 5Gi left; reservation r keeps 70% 11Gi",
        "    to do: `holdfast devices --node b` shows what holds them",
    ]


@pytest.mark.parametrize(
    ("requests", "words"),
    [
        ({"memory": "12Gi"}, "1 gpu device with 12Gi memory"),
        ({"ratio": "80"}, "1 gpu device with 80% memory"),
        ({"core": "30", "ratio": "80"}, "1 gpu device with 30/80%"),
        ({"nvidia.com/gpu": "2"}, "2 gpu devices with 100% each"),
        ({"rdma": "100", "ratio": "80"}, "1 gpu device with 80% memory, and 1 rdma device with"),
    ],
)
def test_what_a_pod_needs_is_written_as_it_asks(requests, words):
    more = {"allocatable": {"nvidia.com/gpu": "2"}}
    found = lines(
        a_gpu_node(**more), a_device_object("n"),
        a_gpu_holder("x", {"gpu": [gpu_share(0, 50, "8Gi")]}, requests={GPU: "50"}),
        a_gpu_holder("y", {"gpu": [gpu_share(1, 50, "8Gi")]}, requests={GPU: "50"}),
        a_gpu_pod("p", requests=requests),
    )  # fmt: skip
    assert any(line.startswith(f"  it needs {words}") for line in found), found


def test_an_owner_sees_what_is_left_of_the_devices_of_its_reservation():
    found = lines(
        a_gpu_node(), a_device_object("n"),
        a_gpu_holder("o", {"gpu": [gpu_share(0, 60, "9Gi")]}, owns="r"),
        a_reserved_gpu("r", {"gpu": [gpu_share(0, 100, "16Gi")]}, allocate_policy="Restricted"),
        a_gpu_pod("p", 50, labels={"app": "x"}, annotations=AFFINE),
    )  # fmt: skip
    words = "    reservation r on n: gpu 0 has 40% 7Gi left: Reservation(s) Insufficient"
    assert any(line.startswith(words) for line in found), found


def test_wrong_requests_come_with_advice():
    found = lines(node(), a_topology(), a_bound_pod("p", "1500m"))
    assert "  to do: request whole CPUs, or take the label koordinator.sh/qosClass" in "\n".join(
        found
    )
    assert not any("closest" in line for line in found)


def test_a_pod_that_fits_gets_no_advice():
    found = lines(
        large("a"), a_topology("a"), a_holder("x", "0-15", node="a"),
        node("b"), a_topology("b"), a_bound_pod("p", "8"),
    )  # fmt: skip
    assert found[0] == "default/p: fits on b"
    assert not any("closest" in line or "to do" in line for line in found)


def why_reservation(reservation, *objects):
    found = typed(reservation)
    objects = [typed(obj) for obj in (reservation, *objects)]
    return "\n".join(explain(found, objects, built_in_profiles(), 0.0)["lines"])


def test_a_reservation_without_a_node_says_which_node_came_closest():
    wanted = a_reservation("r", cpu="4", owner_labels={"app": "x"})
    wanted["spec"]["template"]["metadata"] = {"labels": {names.QOS_CLASS: "LSR"}}
    text = why_reservation(wanted, large(), a_topology(), a_holder("x", "0-13"))
    assert "closest: n has 2 free CPUs (14-15); held: 14 by pods" in text


def test_a_reservation_on_a_node_names_its_cpus_and_devices():
    assert "its CPUs: 0-3; `holdfast cpus n` shows their use" in why_reservation(
        a_reserved_set("r", "0-3")
    )
    shares = {"gpu": [gpu_share(0, 100, "16Gi")]}
    assert "its devices: gpu 0 100% 16Gi; `holdfast devices --node n`" in why_reservation(
        a_reserved_gpu("r", shares)
    )
