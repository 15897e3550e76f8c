"""What changes between the preparation of a pod and its cycle counts in the cycle."""

import numpy as np
import pytest

from holdfast.scheduling.engine.audit import Auditor
from holdfast.scheduling.engine.decision import feasible
from holdfast.scheduling.engine.feasible_rows import Feasible
from holdfast.scheduling.engine.preparation import prepare_in_steps
from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.scheduler.cycle import schedule_pod, unreserve_and_forget
from holdfast.testing import a_claim, a_device_class, a_node, a_pod, a_slice, typed

PROFILE = default_profiles()["default-scheduler"]
NOW = 1.8e9
GPU = "example.com/gpu"
NODES = ("n0", "n1", "n2")


def using(name):
    return [{"name": name, "resourceClaimName": name}]


def a_gpu_class(name="gpu", resource=GPU):
    return a_device_class(name, extendedResourceName=resource)


def gpus(node, count, **fields):
    return a_slice(f"{node}-gpus", node=node, devices=count, **fields)


class Cluster:
    """Objects, and a world that has seen all their changes."""

    def __init__(self):
        self.objects, self.world = {}, World(auditor=Auditor)
        self.put(a_gpu_class())
        for node, count in zip(NODES, (0, 1, 2), strict=True):
            self.put(a_node(node))
            self.put(gpus(node, count))

    def put(self, raw):
        self.objects[raw["kind"], raw["metadata"]["name"]] = raw
        self.world.upsert(typed(raw))

    def remove(self, kind, name):
        self.world.delete(typed(self.objects.pop((kind, name))))

    def prepare(self, raw):
        self.prepared = raw
        pod = self.world.pod_info(typed(raw))
        for _ in prepare_in_steps(PROFILE, pod, self.world, NOW):
            pass
        return pod


def feasible_nodes(world, pod):
    found = feasible(PROFILE, PROFILE.view(pod, world, NOW))
    names = world.nodes.names
    return sorted(names[row] for row in found.rows) if isinstance(found, Feasible) else []


def nodes_in_a_new_world(cluster, raw):
    world = World()
    for each in cluster.objects.values():
        world.upsert(typed(each))
    return feasible_nodes(world, world.pod_info(typed(raw)))


def take(cluster, *nodes):
    """Allocate the first device of each of these nodes to another claim."""
    results = [
        {"request": "r", "driver": "gpu.example.com", "pool": node, "device": "gpu-0"}
        for node in nodes
    ]
    cluster.put(a_claim("other", status={"allocation": {"devices": {"results": results}}}))


def schedule_other(cluster, node):
    """Let another pod take a device of a node, not stored yet."""
    cluster.put(a_claim("other"))
    other = a_pod(
        "other", node_selector={"kubernetes.io/hostname": node}, resourceClaims=using("other")
    )
    pod = cluster.world.pod_info(typed(other))
    placement = schedule_pod(
        PROFILE, PROFILE.view(pod, cluster.world, NOW), np.random.default_rng(0)
    )
    assert isinstance(placement, Placement)
    return placement


def schedule_other_and_undo(cluster):
    for node in ("n1", "n2"):
        placement = schedule_other(cluster, node)
        cluster.prepare(cluster.prepared)  # reads the state in between
        unreserve_and_forget(PROFILE, cluster.world, placement)


def free_again(cluster):
    take(cluster, "n1", "n2")
    cluster.prepare(cluster.prepared)
    cluster.remove("ResourceClaim", "other")


def recreate_node(cluster):
    cluster.remove("Node", "n2")
    cluster.put(a_node("n2"))
    cluster.put(gpus("n2", 0))


def publish_for_all(cluster):
    cluster.put(a_slice("shared", node=None, devices=1, allNodes=True, pool="shared"))


CHANGES = {
    "nothing": lambda cluster: None,
    "devices are allocated": lambda cluster: take(cluster, "n1", "n2"),
    "devices are allocated and free again": free_again,
    "another pod is scheduled and undone": schedule_other_and_undo,
    "a slice grows": lambda cluster: cluster.put(gpus("n0", 2, generation=2)),
    "a slice is deleted": lambda cluster: cluster.remove("ResourceSlice", "n2-gpus"),
    "a slice for all nodes is published": publish_for_all,
    "a node is deleted": lambda cluster: cluster.remove("Node", "n2"),
    "a node is created again": recreate_node,
    "the class is deleted": lambda cluster: cluster.remove("DeviceClass", "gpu"),
    "the claim is deleted": lambda cluster: cluster.remove("ResourceClaim", "c"),
    "a node is added": lambda cluster: (cluster.put(a_node("n3")), cluster.put(gpus("n3", 2))),
}
TWO_REQUESTS = [
    {"name": name, "exactly": {"deviceClassName": "gpu", "count": 1}} for name in ("a", "b")
]
CLAIMS = {"counted": a_claim("c"), "searched": a_claim("c", requests=TWO_REQUESTS)}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", [*CLAIMS, "extended resource"])
def test_a_change_after_the_preparation_counts(kind, change):
    cluster = Cluster()
    cluster.put(CLAIMS.get(kind, CLAIMS["counted"]))
    raw = a_pod("p", resourceClaims=using("c"))
    if kind == "extended resource":
        raw = a_pod("p", requests={GPU: "1"})
    cluster.prepare(raw)
    pod = cluster.prepare(raw)  # finds what the first preparation has cached
    CHANGES[change](cluster)
    assert feasible_nodes(cluster.world, pod) == nodes_in_a_new_world(cluster, raw)


@pytest.mark.parametrize("kind,node,left", [("counted", "n1", ["n2"]), ("searched", "n2", [])])
def test_a_device_in_flight_after_the_preparation_is_not_free(kind, node, left):
    cluster = Cluster()
    cluster.put(CLAIMS[kind])
    pod = cluster.prepare(a_pod("p", resourceClaims=using("c")))
    schedule_other(cluster, node)
    assert feasible_nodes(cluster.world, pod) == left


def test_a_pod_of_the_same_spec_requests_the_class_that_serves_its_resource_now():
    cluster = Cluster()
    assert schedule(cluster, a_pod("p", requests={GPU: "1"})) == "gpu"
    cluster.put(a_device_class("gpu"))
    cluster.put(a_gpu_class("other"))
    assert schedule(cluster, a_pod("q", requests={GPU: "1"})) == "other"


def schedule(cluster, raw):
    """Schedule a pod; return the class that its extended resource claim requests."""
    pod = cluster.prepare(raw)
    placement = schedule_pod(
        PROFILE, PROFILE.view(pod, cluster.world, NOW), np.random.default_rng(0)
    )
    assert isinstance(placement, Placement)
    claim = placement.plans["DynamicResources"].writes.unallocated.extended_claim
    return claim.spec.devices.requests[0].exactly.device_class_name
