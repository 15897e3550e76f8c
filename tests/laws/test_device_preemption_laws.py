"""Preemption for devices on random clusters: sufficient, necessary, and found if there is one."""

import random

import msgspec
import pytest

from holdfast.scheduling.engine.decision import feasible
from holdfast.scheduling.engine.post_filter import run_post_filter_plugins
from holdfast.scheduling.framework.plugin import Code
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing import a_claim, a_device_class, a_node, a_pod, a_slice, typed

NOW = 1.9e9
PROFILE = default_profiles()["default-scheduler"]
GPU = "gpu.example.com"


def uses(*names):
    return [{"name": name, "resourceClaimName": name} for name in names]


def on_node(node):
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}


def a_random_cluster(dice):
    """Nodes with devices, of which most are allocated to claims of one or two pods each."""
    world = World()
    world.upsert(typed(a_device_class("gpu")))
    for node in (f"n{i}" for i in range(dice.randint(1, 4))):
        world.upsert(typed(a_node(node, cpu=str(dice.randint(2, 5)))))
        count = dice.randint(1, 4)
        world.upsert(typed(a_slice(f"{node}-gpus", node=node, devices=count)))
        for number in range(count):
            if dice.random() < 0.15:
                continue
            claim, users = f"{node}-{number}", []
            for user in range(dice.choice((1, 1, 1, 2))):
                pod = a_pod(
                    f"{claim}-{user}", node=node, cpu=dice.choice(("100m", "1")),
                    priority=dice.randint(0, 6), claims=uses(claim),
                )  # fmt: skip
                users.append({"resource": "pods", "name": pod["metadata"]["name"]})
                users[-1]["uid"] = typed(pod).uid
                world.upsert(typed(pod))
            result = {
                "request": "req-0", "driver": GPU, "pool": node, "device": f"gpu-{number}",
            }  # fmt: skip
            allocation = {"devices": {"results": [result]}, "nodeSelector": on_node(node)}
            status = {"allocation": allocation, "reservedFor": users}
            world.upsert(typed(a_claim(claim, status=status)))
    return world


def without(world, pods):
    """Return the cluster when these pods are gone and their claims deallocated."""
    left, gone = world.fork(), {pod.uid for pod in pods}
    for pod in pods:
        left.delete(pod.pod)
    for claim in world.devices.claims.all():
        users = {user.uid for user in claim.status.reserved_for}
        if users and users <= gone:
            meta = msgspec.structs.replace(claim.metadata, resource_version="9999999")
            left.upsert(msgspec.structs.replace(claim, metadata=meta, status=type(claim.status)()))
    return left


def fits(world, raw, node=None):
    found = feasible(PROFILE, PROFILE.view(world.pod_info(typed(raw)), world, NOW))
    if isinstance(found, Rejection):
        return False
    return node is None or world.nodes.row_of[node] in set(found.rows.tolist())


@pytest.mark.parametrize("seed", range(60))
def test_victims_are_sufficient_and_each_is_necessary(seed):
    dice = random.Random(seed)
    world = a_random_cluster(dice)
    world.upsert(typed(a_claim("wanted", count=dice.randint(1, 3))))
    raw = a_pod("x", cpu=dice.choice(("100m", "2")), priority=4, claims=uses("wanted"))
    found = feasible(PROFILE, PROFILE.view(world.pod_info(typed(raw)), world, NOW))
    if not isinstance(found, Rejection):
        return
    result = run_post_filter_plugins(PROFILE, found, world, NOW)
    if result.code is not Code.PASS:
        pods = [pod for pod, _ in world.nodes.pods() if pod.priority < 4]
        assert not fits(without(world, pods), raw)
        return
    victims = result.victims
    assert victims
    assert all(pod.priority < 4 for pod in victims)
    assert fits(without(world, victims), raw, result.nominated_node)
    for kept in victims:
        others = [pod for pod in victims if pod is not kept]
        assert not fits(without(world, others), raw, result.nominated_node)


def test_pods_may_come_and_go_between_two_preemptions():
    """Cached columns of different sizes are compared: more pods, then another device class."""
    world = a_random_cluster(random.Random(3))
    world.upsert(typed(a_claim("wanted", count=4)))
    raw = a_pod("x", priority=7, claims=uses("wanted"))
    for round_ in range(4):
        found = feasible(PROFILE, PROFILE.view(world.pod_info(typed(raw)), world, NOW))
        assert isinstance(found, Rejection)
        run_post_filter_plugins(PROFILE, found, world, NOW)
        world.upsert(typed(a_device_class(f"other{round_}")))
        for number in range(3):
            world.upsert(typed(a_pod(f"more{round_}-{number}", node="n0", cpu="1m")))
