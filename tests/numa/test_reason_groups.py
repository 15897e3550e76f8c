"""Reasons of many nodes: counted once for nodes of equal states, the same as node by node."""

import json
from collections import Counter

import numpy as np
import pytest

from holdfast.api import koordinator_names as names
from holdfast.api.reservation_names import IGNORED
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.node_numa_resource import NodeNUMAResource
from holdfast.testing import a_node, a_pod, a_reservation, typed
from holdfast.testing.numa_builders import a_bound_pod, a_topology
from reservations.objects import WEB

RATIO = {names.AMPLIFICATION_RATIO: '{"cpu": 1.5}'}
ALIGNED = {names.NUMA_TOPOLOGY_POLICY: "SingleNUMANode"}


def status(cpus):
    return {names.RESOURCE_STATUS: json.dumps({"cpuset": cpus})}


@pytest.fixture
def world():
    """Nodes with few free CPUs, amplified CPUs, a NUMA policy, reservations or no topology."""
    made = World()
    kinds = {"full": {}, "amplified": {"annotations": RATIO}, "aligned": {"labels": ALIGNED},
             "reserved": {}, "unknown": {}, "empty": {}}  # fmt: skip
    for kind, more in kinds.items():
        for number in range(4):
            name = f"{kind}-{number}"
            made.upsert(typed(a_node(name, cpu="24", memory="32Gi", **more)))
            if kind != "unknown":
                made.upsert(typed(a_topology(name)))
            if kind in ("full", "amplified"):
                held = f"0-{9 + 2 * (number // 2)}"
                pod = a_pod(f"p-{name}", cpu="1", node=name, annotations=status(held))
                made.upsert(typed(pod))
            if kind == "amplified" and number % 2:
                made.upsert(typed(a_pod(f"q-{name}", cpu="15", node=name)))
            if kind == "reserved":
                at = {"phase": "Available", "nodeName": name, "allocatable": {"cpu": "12"}}
                reserved = status(f"0-{10 + number % 2}")
                made.upsert(
                    typed(a_reservation(f"r-{name}", cpu="12", owner_labels=WEB,
                                        annotations=reserved, status=at))
                )  # fmt: skip
    return made


@pytest.mark.parametrize("labels", [{}, WEB, {IGNORED: "true"}])
@pytest.mark.parametrize("cpu", ["8", "12", "16", "20"])
def test_counted_reasons_are_those_of_each_node(world, cpu, labels):
    plugin = NodeNUMAResource()
    pod = world.pod_info(typed(a_bound_pod("p", cpu, labels=labels)))
    plan = plugin.pre_filter(pod, View(world, pod, 0.0))
    every = world.nodes.rows
    rows = every[plan.filter_without_reservation(every) != 0]
    assert len(rows)
    one_by_one = Counter(reason for row in rows.tolist() for reason in plan.reasons(row))
    assert plan.count_reasons(rows) == one_by_one
    groups = plan.reason_groups(rows)
    for group in set(groups.tolist()):
        alike = rows[groups == group].tolist()
        assert len({plan.reasons(row) for row in alike}) == 1


def test_nodes_of_equal_states_are_one_group(world):
    plugin = NodeNUMAResource()
    pod = world.pod_info(typed(a_bound_pod("p", "20")))
    plan = plugin.pre_filter(pod, View(world, pod, 0.0))
    rows = [world.nodes.row_of[f"{kind}-{n}"] for kind in ("empty", "unknown") for n in range(4)]
    groups = plan.reason_groups(np.array(rows, np.intp))
    assert len(set(groups.tolist())) == 2
