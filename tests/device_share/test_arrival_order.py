"""Scores do not depend on the order in which the scheduler sees reservations."""

import json
from itertools import permutations

import pytest

from device_share.objects import a_device_object, a_gpu, a_gpu_node, an_owner
from holdfast.api.koordinator_names import (
    DEVICE_ALLOCATED,
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    RESOURCE_STATUS,
)
from holdfast.api.reservation_names import ORDER
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.device_share import DeviceShare
from holdfast.scheduling.plugins.node_numa_resource import NodeNUMAResource
from holdfast.testing import a_reservation, typed
from holdfast.testing.numa_builders import a_topology
from holdfast.testing.plugin_laws import prepare_case

WHOLE = {GPU_CORE: "100", GPU_MEMORY_RATIO: "100", GPU_MEMORY: "16Gi"}
HOLDING = {
    DEVICE_ALLOCATED: json.dumps({"gpu": [{"minor": 0, "resources": WHOLE}]}),
    RESOURCE_STATUS: json.dumps(
        {"numaNodeResources": [{"node": node, "resources": {"cpu": "2"}} for node in range(2)]}
    ),
}
EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def a_gpu_reservation(name, annotations, created=EARLY, order=None, app="web"):
    """An Available reservation with the annotations of what it holds."""
    status = {"phase": "Available", "nodeName": "n", "allocatable": {"cpu": "4", GPU: "100"}}
    metadata = {
        "creationTimestamp": created,
        "labels": {} if order is None else {ORDER: str(order)},
        "annotations": annotations,
    }
    return a_reservation(name, owner_labels={"app": app}, metadata=metadata, status=status)


def score(plugin, reservations):
    """Score the node for a pod with the label ``app: web``."""
    world = World()
    devices = a_device_object("n", *(a_gpu(minor) for minor in range(2)))
    for obj in (a_gpu_node(), a_topology(policy="BestEffort"), devices, *reservations):
        world.upsert(typed(obj))
    case = prepare_case(plugin, world, typed(an_owner("p", 100)))
    return case.scores(case.rows).tolist()


@pytest.mark.parametrize("plugin", [DeviceShare({}), NodeNUMAResource({})], ids=lambda p: p.name)
def test_of_several_reservations_the_first_in_order_of_nomination_decides(plugin):
    """By order label, then age, then name; ``z`` has a GPU and amounts of NUMA nodes."""
    of_a = score(plugin, [a_gpu_reservation("a", {}), a_gpu_reservation("z", HOLDING, app="other")])
    of_z = score(plugin, [a_gpu_reservation("a", {}, app="other"), a_gpu_reservation("z", HOLDING)])
    assert of_a != of_z
    for a, z, expected in (
        ({}, {}, of_a),
        ({"created": LATE}, {}, of_z),
        ({}, {"created": LATE}, of_a),
        ({}, {"created": LATE, "order": 1}, of_z),
        ({"order": 1}, {"created": LATE, "order": 2}, of_a),
        ({"order": 2}, {"created": LATE, "order": 1}, of_z),
    ):
        both = a_gpu_reservation("a", {}, **a), a_gpu_reservation("z", HOLDING, **z)
        found = [score(plugin, order) for order in permutations(both)]
        assert found == [expected] * 2, (a, z)
