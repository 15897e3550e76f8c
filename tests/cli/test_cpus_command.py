"""``holdfast cpus``: what it draws of the objects of a cluster."""

import random

import msgspec
import pytest

from cli.numa_objects import a_holder, a_reserved_set
from holdfast.api import koordinator_names as names
from holdfast.cli.cpus.listing import NO_NODES, as_text, nodes_as_text
from holdfast.cli.cpus.node_cpus import as_data, nodes_with_topology, read_node_cpus, summary
from holdfast.cli.world_building import build_world
from holdfast.runtime.errors import Refused
from holdfast.state.numa.cpu_set import format_cpu_list, mask_of
from holdfast.testing import a_node, typed
from holdfast.testing.numa_builders import a_topology

KUBELET = {
    names.CPU_MANAGER_POLICY: {"policy": "static", "reservedCPUs": "0-1"},
    names.POD_CPU_ALLOCS: [
        {"namespace": "kube-system", "name": "agent", "uid": "u", "cpuset": "14-15",
         "managedByKubelet": True},
    ],
    names.SYSTEM_QOS_RESOURCE: {"cpuset": "1-2"},
}  # fmt: skip


def world_of(*objects):
    return build_world([typed(obj) for obj in objects])


def cpus_of(*objects, node="n"):
    return read_node_cpus(world_of(a_node("n", cpu="16", memory="64Gi"), *objects), node)


def test_every_cpu_is_drawn_with_its_holder():
    found = cpus_of(
        a_topology(annotations=KUBELET),
        a_holder("db", "8-11", cpu="4"),
        a_holder("web", "4-5", owns="r", cpu="2"),
        a_reserved_set("r", "4-7"),
    )
    assert as_text(found, 80) == (
        "n: 16 CPUs, 8 cores, 2 NUMA nodes, 2 sockets\n"
        "3 CPUs without a holder; pods and reservations request 8 of 16 cpu\n"
        "\n"
        "socket 0, NUMA node 0: 8 CPUs, 1 free\n"
        "   0 #    2 #    4 a    6 A\n"
        "   1 #    3 .    5 a    7 A\n"
        "\n"
        "socket 1, NUMA node 1: 8 CPUs, 2 free\n"
        "   8 b   10 b   12 .   14 #\n"
        "   9 b   11 b   13 .   15 #\n"
        "\n"
        "    HOLDER                                        CPUS      NOTES\n"
        "a   pod default/web                               4-5       from reservation r\n"
        "b   pod default/db                                8-11\n"
        "A   reservation r                                 4-7       unused: 6-7\n"
        "#   the kubelet (reservedCPUs)                    0-1\n"
        "#   QoS class SYSTEM                              1-2\n"
        "#   pod kube-system/agent, bound by the kubelet   14-15\n"
        ".   free                                          3,12-13\n"
        "\n"
        "NUMA NODE   CPU   MEMORY\n"
        "0           5     16Gi\n"
        "1           6     16Gi\n"
        "the node has no NUMA policy: what pods use of each NUMA node is not counted"
    )


def test_amounts_of_NUMA_nodes_are_counted_under_a_policy():
    found = cpus_of(
        a_topology(policy="SingleNUMANodePodLevel"),
        a_holder("p", "", amounts=[(1, {"cpu": "3", "memory": "4Gi"})], cpu="3", memory="4Gi"),
        a_holder("q", "0-1", owns="r", amounts=[(0, {"cpu": "2"})], cpu="2"),
        a_reserved_set("r", "0-3", amounts=[(0, {"cpu": "4"})]),
    )
    text = as_text(found, 80)
    assert "NUMA policy SingleNUMANode" in text
    assert "NUMA NODE   CPU   USED   RESERVED   FREE   MEMORY   USED   RESERVED   FREE" in text
    assert "0           8     2      2          4      16Gi     0      0          16Gi" in text
    assert "1           8     3      0          5      16Gi     4Gi    0          12Gi" in text
    assert "pod default/p   -      NUMA node 1: cpu 3, memory 4Gi" in text
    assert "not counted" not in text


def test_json_has_the_same():
    found = cpus_of(a_topology(), a_holder("db", "0-1", owns="r"), a_reserved_set("r", "0-3"))
    data = msgspec.json.decode(msgspec.json.encode(as_data(found)))
    assert data["cpus"][1] == {
        "id": 1, "core": 0, "numaNode": 0, "socket": 0, "holders": ["pod default/db"],
    }  # fmt: skip
    assert [cpu["holders"] for cpu in data["cpus"][2:5]] == [["reservation r"]] * 2 + [[]]
    assert data["freeCPUs"] == "4-15" and data["problems"] == []
    assert [(one["name"], one["cpus"]) for one in data["holders"]] == [
        ("default/db", "0-1"), ("r", "0-3"),
    ]  # fmt: skip
    assert data["holders"][1]["unusedCPUs"] == "2-3"
    assert data["numaNodes"][0]["freeCPUs"] == "4-7"
    assert summary(found)["freeByNUMANode"] == {"0": 4, "1": 8}


def test_the_drawing_is_as_wide_as_the_terminal():
    found = cpus_of(a_topology(numa_nodes=1, cores=64), a_holder("db", "0-127"))
    for width in (40, 80, 100, 200):
        lines = as_text(found, width).splitlines()
        drawn = [line for line in lines if line.startswith("  ") and "HOLDER" not in line]
        assert max(map(len, drawn)) <= width
        assert sum(line.count(" a") for line in drawn) == 128
        assert len(drawn) == -(-64 // drawn[0].count(" a")) * 2


def test_two_holders_of_a_cpu_are_a_problem():
    found = cpus_of(a_topology(), a_holder("p", "0-3"), a_holder("q", "2-5,99"))
    text = as_text(found, 80)
    assert " 2 !" in text and " 3 !" in text and " 4 b" in text
    assert "CPUs 2-3 are held by pod default/p and by pod default/q" in text
    assert "pod default/q holds CPUs 99, which are not in the topology" in text


def test_more_holders_than_letters_are_listed_all():
    pods = [a_holder(f"p{i:02}", str(i)) for i in range(30)]
    text = as_text(cpus_of(a_topology(cores=8), *pods), 80)
    assert " 25 z" in text and " 26 +" in text
    assert all(f"pod default/p{i:02}" in text for i in range(30))


def test_nodes_without_a_topology_say_how_to_get_one():
    alone = cpus_of(a_holder("p", "0-3", cpu="4"))
    text = as_text(alone, 80)
    assert "request 4 of 16 cpu\nits CPUs are not known: no NodeResourceTopology" in text
    assert "a   pod default/p   0-3" in text
    assert nodes_as_text(nodes_with_topology(world_of(a_node("n")))) == NO_NODES
    broken = cpus_of(a_topology(annotations={names.CPU_TOPOLOGY: "{"}))
    assert "annotation node.koordinator.sh/cpu-topology" in as_text(broken, 80)


def test_all_nodes_are_listed_in_a_line_each():
    label = {names.NUMA_TOPOLOGY_POLICY: "Restricted"}
    world = world_of(
        a_node("a", labels=label), a_topology("a"), a_node("b"), a_topology("b"), a_node("c"),
        a_holder("p", "0-3", node="b"), a_reserved_set("r", "8-9", node="b"),
    )  # fmt: skip
    assert nodes_as_text(nodes_with_topology(world)).splitlines() == [
        "NODE   CPUS   FREE   FREE BY NUMA NODE   PODS   RESERVATIONS   POLICIES",
        "a      16     16     0: 8, 1: 8          0      0              Restricted",
        "b      16     10     0: 4, 1: 6          1      1              -",
    ]
    with pytest.raises(Refused, match='there is no node "x": there are a, b, c'):
        read_node_cpus(world, "x")


@pytest.mark.parametrize("seed", range(20))
def test_every_cpu_is_free_or_has_one_holder(seed):
    """Of any pods, reservations and owners with different CPUs; the drawing shows the same."""
    rng = random.Random(seed)
    cpus, objects = rng.sample(range(16), 16), []
    for number in range(rng.randint(0, 4)):
        own = [cpus.pop() for _ in range(rng.randint(1, 3))]
        objects.append(a_holder(f"p{number}", ",".join(map(str, own)), cpu=len(own)))
    for number in range(rng.randint(0, 2)):
        held = [cpus.pop() for _ in range(2)]
        objects.append(a_reserved_set(f"r{number}", ",".join(map(str, held)), cpu="2"))
        if rng.random() < 0.5:
            objects.append(a_holder(f"o{number}", str(held[0]), owns=f"r{number}", cpu=1))
    found = cpus_of(a_topology(), *objects)
    data = as_data(found)
    counts = {cpu["id"]: len(cpu["holders"]) for cpu in data["cpus"]}
    assert counts == {cpu: int(cpu not in cpus) for cpu in range(16)}
    assert data["freeCPUs"] == format_cpu_list(mask_of(cpus))
    drawing = as_text(found, 80).split("\n\n")[1:3]
    assert sum(part.count(" .") for part in drawing) == len(cpus)
    assert data["problems"] == []


def test_text_that_a_node_writes_does_not_reach_the_terminal_as_it_is():
    """Both in the table of holders and in the line about CPUs with two of them."""
    pod = {"namespace": "a", "name": "b\x1b[2J\n", "uid": "u", "cpuset": "0-1",
           "managedByKubelet": True}  # fmt: skip
    found = cpus_of(
        a_topology(annotations={names.POD_CPU_ALLOCS: [pod]}), a_holder("db", "0-1", cpu="2")
    )
    text = as_text(found, 80)
    assert text.replace("\n", "").isprintable()
    assert text.count(r"pod a/b\x1b[2J\n, bound by the kubelet") == 2
