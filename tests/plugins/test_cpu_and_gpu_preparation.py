"""CPUs and GPUs of all nodes are searched in steps before the cycle of the first pod of a class."""

import json
from random import Random

import numpy as np
import pytest

from holdfast.api import koordinator_names as names
from holdfast.api.scheme import SHARED_DEVICES
from holdfast.scheduling.engine.decision import feasible, scored_rows
from holdfast.scheduling.engine.feasible_rows import Feasible
from holdfast.scheduling.engine.preparation import prepare_in_steps
from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.plugins.device_share import searches
from holdfast.scheduling.scheduler.cycle import schedule_pod
from holdfast.state.numa import pod_trials
from holdfast.testing import a_node, a_pod, a_reservation, typed
from holdfast.testing.builders import an_object
from holdfast.testing.numa_builders import a_bound_pod, a_topology
from soak_size import SEED, TIMES

PROFILE = default_profiles()["default-scheduler"]
NOW = 1.8e9
NODES = 150  # numbering their states takes a step more than the last one
GPUS = 4
SINGLE = {names.NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy":"SingleNUMANode"}'}
OWNER = {"app": "owner"}
PODS = {
    "CPUs": {"cpu": "4"},
    "CPUs of one NUMA node": {"cpu": "4", "annotations": SINGLE},
    "half a GPU": {"cpu": "4", "requests": {names.GPU: "50"}},
    "both of one NUMA node": {"cpu": "4", "requests": {names.GPU: "50"}, "annotations": SINGLE},
    "both, of a reservation": {"cpu": "2", "requests": {names.GPU: "25"}, "labels": OWNER},
}


def gpu_amounts(percent):
    amounts = {names.GPU_CORE: str(percent), names.GPU_MEMORY_RATIO: str(percent)}
    return amounts | {names.GPU_MEMORY: f"{percent}Gi"}


def a_device_object(node):
    listed = [
        {
            "type": "gpu", "id": f"{node}-{minor}", "minor": minor, "health": True,
            "resources": gpu_amounts(100),
            "topology": {"socketID": minor % 2, "nodeID": minor % 2, "pcieID": str(minor // 2)},
        }
        for minor in range(GPUS)
    ]  # fmt: skip
    return an_object(SHARED_DEVICES, node, {"devices": listed})


class BusyCluster:
    """Nodes on which different CPUs and parts of GPUs are in use, which change at random."""

    def __init__(self, random):
        self.random, self.world, self.made = random, World(), 0
        listed = {names.GPU: 100 * GPUS} | gpu_amounts(100 * GPUS)
        for i in range(NODES):
            node = f"n{i}"
            self.put(a_node(node, cpu="16", memory="64Gi", allocatable=listed))
            self.put(a_topology(node, numa_nodes=2, cores=4, threads=2, memory="32Gi"))
            self.put(a_device_object(node))
            self.use(node)
        for i in range(0, 80, 2):
            self.reserve(f"n{i}")

    def put(self, raw):
        self.world.upsert(typed(raw))

    def use(self, node):
        """Replace the pod that uses CPUs and GPUs of a node."""
        random = self.random
        cpus = random.sample(range(16), random.randrange(1, 5))
        shares = [random.randrange(1, 90) for _ in range(GPUS)]
        used = [{"minor": m, "resources": gpu_amounts(s)} for m, s in enumerate(shares)]
        notes = {
            names.RESOURCE_STATUS: json.dumps({"cpuset": ",".join(map(str, cpus))}),
            names.DEVICE_ALLOCATED: json.dumps({"gpu": used}),
        }
        requests = {names.GPU: str(sum(shares))}
        self.put(
            a_bound_pod(
                f"on-{node}", str(len(cpus)), node=node, annotations=notes, requests=requests
            )
        )

    def reserve(self, node):
        notes = {
            names.RESOURCE_STATUS: '{"cpuset":"12-15"}',
            names.DEVICE_ALLOCATED: json.dumps(
                {"gpu": [{"minor": 0, "resources": gpu_amounts(10)}]}
            ),
        }
        raw = a_reservation(
            f"r-{node}", cpu="4", memory="1Gi", requests={names.GPU: "10"}, owner_labels=OWNER,
            allocate_once=False, annotations=notes,
        )  # fmt: skip
        allocatable = {"cpu": "4", "memory": "1Gi", **gpu_amounts(10)}
        status = {"phase": "Available", "nodeName": node, "allocatable": allocatable}
        self.put(raw | {"status": status})

    def change(self):
        node = f"n{self.random.randrange(NODES)}"
        if self.random.random() < 0.7:
            self.use(node)
        elif self.random.random() < 0.5:
            self.world.delete(typed(a_bound_pod(f"on-{node}", "1", node=node)))
        else:
            self.reserve(node)

    def pod(self, kind, name="p"):
        more = {"memory": "1Gi", "labels": {"app": "web"}} | PODS[kind]
        return self.world.pod_info(typed(a_bound_pod(name, **more)))


def scores(world, pod):
    """The feasible rows and their total scores."""
    found = feasible(PROFILE, PROFILE.view(pod, world, NOW))
    assert isinstance(found, Feasible), found.message()
    rows, totals = scored_rows(PROFILE, found)
    rows = np.arange(world.nodes.size)[rows]
    return dict(zip(rows.tolist(), totals.tolist(), strict=True))


def schedule(world, pod):
    placement = schedule_pod(PROFILE, PROFILE.view(pod, world, NOW), np.random.default_rng(1))
    assert isinstance(placement, Placement), placement
    return placement.node, placement.annotations, placement.reservation


@pytest.mark.parametrize("kind", PODS)
def test_after_the_steps_the_cycle_searches_only_for_the_chosen_node(monkeypatch, kind):
    cluster = BusyCluster(Random(1))
    pod = cluster.pod(kind)
    expected = schedule(cluster.world.fork(), pod)
    assert len([*prepare_in_steps(PROFILE, pod, cluster.world, NOW)]) > 4
    searched = 0

    def count(function):
        def counted(*arguments):
            nonlocal searched
            searched += 1
            return function(*arguments)

        return counted

    monkeypatch.setattr(pod_trials, "try_allocation", count(pod_trials.try_allocation))
    monkeypatch.setattr(searches, "choose_devices", count(searches.choose_devices))
    assert schedule(cluster.world, pod) == expected
    assert searched <= 2


@pytest.mark.parametrize("seed", range(SEED, SEED + 2 * TIMES))
@pytest.mark.parametrize("kind", PODS)
def test_what_changes_between_the_steps_is_considered(kind, seed):
    random = Random(seed)
    cluster = BusyCluster(random)
    for round_ in range(3):
        pod = cluster.pod(kind, f"p{round_}")
        for _ in prepare_in_steps(PROFILE, pod, cluster.world, NOW):
            for _ in range(random.randrange(3)):
                cluster.change()
            if random.random() < 0.05:
                # The table grows: states get new numbers.
                for i in range(NODES):
                    cluster.put(a_node(f"m{round_}-{i}", cpu="1"))
        assert scores(cluster.world, pod) == scores(cluster.world.fork(), pod)
        schedule(cluster.world, pod)


def test_the_next_pods_of_a_class_and_other_pods_have_no_steps():
    cluster = BusyCluster(Random(1))
    for kind in PODS.keys() - {"both, of a reservation"}:  # a placement changes what they match
        first = cluster.pod(kind, f"first of {kind}")
        assert [*prepare_in_steps(PROFILE, first, cluster.world, NOW)]
        schedule(cluster.world, first)
        pod = cluster.pod(kind, "next")
        assert not [*prepare_in_steps(PROFILE, pod, cluster.world, NOW)], kind
    ordinary = cluster.world.pod_info(typed(a_pod("ordinary", cpu="1")))
    assert not [*prepare_in_steps(PROFILE, ordinary, cluster.world, NOW)]


@pytest.mark.parametrize("kind", PODS)
def test_pods_are_scheduled_after_the_table_of_nodes_has_grown(kind):
    """States that are equal in both tables may not keep the results of the smaller one."""
    cluster = BusyCluster(Random(1))
    schedule(cluster.world, cluster.pod(kind, "first"))
    capacity = cluster.world.nodes.capacity
    for i in range(capacity):
        cluster.put(a_node(f"m{i}", cpu="1"))
    assert cluster.world.nodes.capacity > capacity
    pod = cluster.pod(kind, "next")
    assert scores(cluster.world, pod) == scores(cluster.world.fork(), pod)
