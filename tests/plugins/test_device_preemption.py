"""Which rows device preemption tries first, and which pods it spares."""

from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

from holdfast.scheduling.framework.view import View
from holdfast.scheduling.plugins.dynamic_resources import DynamicResources
from holdfast.scheduling.plugins.dynamic_resources.device_preemption import _reprieve
from holdfast.scheduling.plugins.dynamic_resources.freeable_claims import (
    FreeableClaims,
    rank_users_in_steps,
)
from holdfast.state.columns.ranked_pods import NO_POD_PRIORITY
from holdfast.testing import a_claim, a_device_class, a_node, a_pod, a_slice, typed
from plugins.deciding import a_world
from soak_size import SEED, TIMES

NODES = 6
DRIVER = "gpu.example.com"


def zone(name):
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [name]}]}
    return {"nodeSelector": {"nodeSelectorTerms": [term]}}


def using(claim):
    return [{"name": "d", "resourceClaimName": claim}]


def a_user(world, name, node, pool, device, priority):
    """Add a pod with an allocated claim."""
    pod = typed(a_pod(name, node=node, priority=priority, claims=using(f"c{name}")))
    result = {"driver": DRIVER, "pool": pool, "device": device, "request": "r"}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": pod.uid}],
    }
    world.upsert(typed(a_claim(f"c{name}", status=status)))
    world.upsert(pod)


def random_world(random):
    pools = {f"n{i}": {"node": f"n{i}"} for i in range(NODES)}
    pools |= {"za": zone("a"), "zb": zone("b"), "every": {"allNodes": True}}
    world = a_world(a_device_class("gpu"), a_claim("wanted"))
    for i in range(NODES):
        world.upsert(typed(a_node(f"n{i}", labels={"zone": random.choice("abc")})))
    number = 0
    for pool, spec in pools.items():
        if random.random() < 0.3:
            continue
        world.upsert(typed(a_slice(f"s-{pool}", devices=2, pool=pool, **{"node": None} | spec)))
        for device in ("gpu-0", "gpu-1"):
            node = spec.get("node", f"n{random.randrange(NODES)}")
            if random.random() < 0.6:
                a_user(world, f"p{number}", node, pool, device, random.randrange(9))
                number += 1
    return world


@pytest.mark.parametrize("seed", range(SEED, SEED + 10 * TIMES))
def test_the_lowest_priority_of_a_row_is_that_of_the_users_of_its_devices(seed):
    """A lower bound, exact if pods use only devices of their own node or of shared pools."""
    random = Random(seed)
    world = random_world(random)
    pod = world.pod_info(typed(a_pod("preemptor", priority=5, claims=using("wanted"))))
    view = View(world, pod, 0.0)
    if random.random() < 0.5:
        assert list(rank_users_in_steps(pod, world.nodes, world.devices))
    freeable = FreeableClaims(DynamicResources().pre_filter(pod, view), view, None)
    rows = world.nodes.rows[random.randrange(2) :]
    lowest = freeable.lowest_priorities(rows)
    for row, bound in zip(rows.tolist(), lowest.tolist(), strict=True):
        users = [user.priority for one in freeable.of_row(row) for user in one.users]
        # A pod on the row may use a device that the row cannot reach, or not be evictable.
        there = [p.priority for p in world.nodes.pods_on(row).values()]
        assert bound == min([*users, *there], default=NO_POD_PRIORITY)
    assert lowest.dtype == np.int64


def spared_one_by_one(order, fits_without):
    victims = {pod.uid: pod for pod in order}
    for pod in order:
        left = {uid: other for uid, other in victims.items() if uid != pod.uid}
        victims = left if fits_without(left) else victims
    return victims


@pytest.mark.parametrize("seed", range(SEED, SEED + 40 * TIMES))
def test_pods_are_spared_in_order_however_many_at_once(seed):
    random = Random(seed)
    order = [SimpleNamespace(uid=str(i)) for i in range(random.randrange(1, 40))]
    uids = [pod.uid for pod in order]
    sufficient = [set(random.sample(uids, random.randint(1, len(uids)))) for _ in range(3)]
    fits = lambda left: any(some <= left.keys() for some in sufficient)  # noqa: E731
    assert _reprieve(order, fits) == spared_one_by_one(order, fits)


def test_few_searches_find_the_few_least_important_of_many_pods():
    order = [SimpleNamespace(uid=str(i)) for i in range(1000)]
    tried = []

    def fits(left):
        tried.append(len(left))
        return {"997", "999"} <= left.keys()

    assert [*_reprieve(order, fits)] == ["997", "999"]
    assert len(tried) < 10
