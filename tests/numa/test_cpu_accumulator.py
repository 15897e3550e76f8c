"""Which CPUs a pod gets: the sets of the specification, and what holds for every choice."""

import random

import pytest

from holdfast.state.numa.cpu_accumulator import satisfies, take_cpus, usable_cpus
from holdfast.state.numa.cpu_set import format_cpu_list, parse_cpu_list
from holdfast.state.numa.policy_names import (
    FULL_PCPUS,
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    NUMA_NODE_LEVEL,
    PCPU_LEVEL,
    SPREAD_BY_PCPUS,
)
from holdfast.state.numa.topology import Cpu, cpu_topology


def node(sockets=2, nodes_per_socket=1, cores=4, threads=2, *, split=False):
    """Return a node; threads of a core are numbered in a row, or each in a run of its own."""
    count = sockets * nodes_per_socket * cores
    return cpu_topology(
        tuple(
            Cpu(
                core + thread * count if split else core * threads + thread,
                core % (nodes_per_socket * cores),
                core // cores,
                core // (nodes_per_socket * cores),
            )
            for core in range(count)
            for thread in range(threads)
        )
    )


T16 = node()
SPREAD = {"bind_policy": SPREAD_BY_PCPUS}
MOST = {"strategy": MOST_ALLOCATED}
PCPU = {"exclusive_policy": PCPU_LEVEL}
NUMA = {"exclusive_policy": NUMA_NODE_LEVEL}


def take(count, held="", topology=T16, alike="", preferred="", **options):
    found = take_cpus(
        topology,
        topology.all & ~parse_cpu_list(held),
        count,
        held_exclusively=parse_cpu_list(alike),
        preferred=parse_cpu_list(preferred),
        **options,
    )
    return None if found is None else format_cpu_list(found)


@pytest.mark.parametrize(
    ("count", "held", "options", "expected"),
    [
        (4, "", {}, "0-3"),  # N001
        (4, "0-3", {}, "8-11"),  # N002
        (4, "0-3", MOST, "4-7"),
        (8, "", {}, "0-7"),  # N003
        (10, "", {}, "0-9"),
        (4, "", SPREAD, "0,2,4,6"),  # N004
        (5, "", SPREAD, "0-2,4,6"),
        (10, "", SPREAD, "0-4,6,8,10,12,14"),
        (3, "", {}, "0-2"),  # N005
        (10, "0,2,4,6", {}, "1,3,8-15"),  # N006
        (10, "0,2,4,6", {"required": True}, None),
        (9, "", {**SPREAD, "required": True}, None),  # N007
        (8, "", {**SPREAD, "required": True}, "0,2,4,6,8,10,12,14"),
        (4, "0-1", {}, "8-11"),  # N008
        (8, "0-1", {}, "8-15"),
        (2, "", {"required": True}, "0-1"),  # N009
        (2, "0,2", {**MOST, **SPREAD, **PCPU, "alike": "0,2"}, "4,6"),  # N012
        (2, "0,2", {**MOST, **SPREAD}, "1,3"),
        (4, "0-3", {**MOST, **NUMA, "alike": "0-3"}, "8-11"),  # N013
        (4, "0-3,8-9", {**MOST, **NUMA, "alike": "0-3,8-9"}, "4-7"),
        (6, "", {"preferred": "0-3"}, "0-5"),  # N018
        (3, "0-2", {"preferred": "3"}, "3-5"),  # N020
        (2, "", {**SPREAD, "preferred": "0,2,4,6"}, "0,2"),  # N022
        (2, "0,2", {**SPREAD, "preferred": "4,6"}, "4,6"),
        (6, "4-7", {**MOST, "preferred": "0-3"}, "0-3,8-9"),  # N024
        (17, "", {}, None),
        (0, "", {}, ""),
        (16, "", {}, "0-15"),
    ],
)
def test_the_sets_of_the_specification(count, held, options, expected):
    assert take(count, held, **options) == expected


def test_threads_in_runs_of_their_own():
    topology = node(split=True)  # core k has the CPUs k and k + 8
    assert take(4, topology=topology) == "0-1,8-9"
    assert take(4, topology=topology, **SPREAD) == "0-3"
    assert take(4, "0", topology=topology, required=True) == "4-5,12-13"


def test_a_required_policy_uses_the_reservations_part_of_a_core():
    assert take(2, "", preferred="1,3", required=True, **SPREAD) == "1,3"
    assert take(2, "", preferred="1,2", required=True) == "0-1", "no whole core is preferred"


def test_leftover_sockets_give_whole_cores_only_while_one_is_needed():
    topology = node(sockets=3, cores=4)
    assert take(11, "0-1,8-9,16-17", topology=topology) == "2-7,10-14"


def test_a_topology_with_a_core_of_one_cpu():
    topology = cpu_topology((Cpu(0, 0, 0, 0), Cpu(2, 1, 0, 0), Cpu(3, 1, 0, 0)))
    assert topology.cpus_per_core == 2
    assert take(2, topology=topology) == "0,2"
    assert take(2, topology=topology, **SPREAD) == "0,2"


@pytest.mark.parametrize("seed", range(4))
def test_every_choice_is_free_complete_and_the_same_again(seed):
    rng = random.Random(seed)
    for _ in range(150):
        shape = [rng.randint(1, most) for most in (3, 2, 5, 3)]
        topology = node(*shape, split=rng.random() < 0.5)
        size = topology.all.bit_count()
        held = rng.getrandbits(size) & rng.getrandbits(size)
        free = topology.all & ~held
        policy = rng.choice((FULL_PCPUS, SPREAD_BY_PCPUS))
        options = {
            "bind_policy": policy,
            "required": rng.random() < 0.4,
            "exclusive_policy": rng.choice(("", PCPU_LEVEL, NUMA_NODE_LEVEL)),
            "held_exclusively": held & rng.getrandbits(size),
            "strategy": rng.choice((LEAST_ALLOCATED, MOST_ALLOCATED)),
            "preferred": free & rng.getrandbits(size) & rng.getrandbits(size),
        }
        count = rng.randint(0, size)
        found = take_cpus(topology, free, count, **options)
        assert found == take_cpus(topology, free, count, **options)
        if found is None:
            usable = usable_cpus(topology, free, policy if options["required"] else "")
            whole = policy == FULL_PCPUS and count % topology.cpus_per_core
            assert usable.bit_count() < count or (options["required"] and whole)
            continue
        assert found & ~free == 0
        assert found.bit_count() == count
        if options["required"]:
            assert satisfies(topology, found, policy)
        elif policy == FULL_PCPUS and not options["preferred"]:
            whole = usable_cpus(topology, free, FULL_PCPUS)
            assert found & ~whole == 0 or whole.bit_count() < count + topology.cpus_per_core
