"""The score of a node for an owner: what is reserved for it counts as free, its CPUs once."""

import json

import numpy as np
import pytest

from holdfast.api import koordinator_names as names
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.node_numa_resource import NodeNUMAResource
from holdfast.testing import a_node, a_reservation, typed
from holdfast.testing.numa_builders import a_bound_pod, a_topology
from reservations.objects import WEB

RATIO = {names.AMPLIFICATION_RATIO: '{"cpu": 1.5}'}


@pytest.fixture
def world():
    """Two equal nodes with amplified cpu; half of the CPUs of the first are reserved."""
    made = World()
    for name in ("reserved", "empty"):
        made.upsert(typed(a_topology(name)))
        made.upsert(typed(a_node(name, cpu="24", memory="32Gi", annotations=RATIO)))
    notes = {names.RESOURCE_STATUS: json.dumps({"cpuset": "0-7"})}
    status = {"phase": "Available", "nodeName": "reserved", "allocatable": {"cpu": "8"}}
    held = a_reservation("r", cpu="8", owner_labels=WEB, annotations=notes, status=status)
    made.upsert(typed(held))
    return made


@pytest.mark.parametrize(("labels", "equal"), [(WEB, True), ({}, False)])
@pytest.mark.parametrize("qos", ["LSR", "LS"])
def test_reserved_CPUs_are_free_for_owners_only(world, labels, equal, qos):
    plugin = NodeNUMAResource()
    pod = world.pod_info(typed(a_bound_pod("p", "4", qos=qos, labels=labels)))
    plan = plugin.pre_filter(pod, View(world, pod, 0.0))
    rows = [world.nodes.row_of[name] for name in ("reserved", "empty")]
    reserved, empty = plan.score(np.array(rows, np.intp)).tolist()
    assert (reserved == empty) is equal
    assert [plan.score_row(row) for row in rows] == [reserved, empty]
