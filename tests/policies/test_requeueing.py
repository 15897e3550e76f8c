"""Which events requeue a pod that a policy rejected; none of these tests waits for a flush."""

import pytest

from holdfast.api.scheme import NODES, PODS, RESOURCE_POLICIES
from holdfast.testing import a_namespace
from policies.objects import (
    PLUGIN,
    WEB,
    create_each,
    delay_binds,
    delete_gone,
    edit_policy,
    fail_binds,
    node,
    node_of,
    od,
    place,
    pod,
    policy,
    relabel,
    relabel_node,
    spot,
    terminate,
)
from scheduler.scheduler_network import SchedulerNetwork

BACKOFF = 1.5
"""Longer than the first backoff of a pod, much shorter than the flush after 5 minutes; seconds."""


@pytest.fixture
async def waiting(required):
    """Pod w5 waits: od 2/2, spot 3/3."""
    assert await place(required, 6) == ["a", "a", "b", "b", "b", ""]
    await required.advance(BACKOFF)
    return required


def attempts(cluster):
    of = {"result": "unschedulable", "profile": "default-scheduler"}
    return cluster.metric("schedule_attempts_total", **of)


async def test_P007_a_pod_that_leaves_a_full_unit_requeues_the_waiting_one(waiting):
    blamed = {"plugin": PLUGIN, "profile": "default-scheduler"}
    assert waiting.metric("unschedulable_pods", **blamed) == 1
    began = waiting.clock.now()
    await delete_gone(waiting, "w0")
    await waiting.advance(BACKOFF)
    assert (await node_of(waiting, "w5"))[0] == "a"
    assert waiting.clock.now() - began < 5


async def test_P007_so_does_one_that_finishes(waiting):
    ended = {"status": {"phase": "Succeeded"}}
    await waiting.client.patch(PODS, "w0", ended, WEB, subresource="status")
    await waiting.advance(BACKOFF)
    assert (await node_of(waiting, "w5"))[0] == "a"


async def test_P007_a_terminating_pod_requeues_it_if_terminating_pods_are_ignored(required):
    await place(required, 6, stops_after=100)
    await terminate(required, "w0")
    await required.advance(BACKOFF)
    assert (await node_of(required, "w5"))[0] == "a"


async def test_P007_if_they_count_it_waits_until_the_pod_is_gone(cluster):
    await cluster.create(policy(strategy="required", match_policy=None))
    await place(cluster, 6, stops_after=100)
    await terminate(cluster, "w0")
    await cluster.advance(50)
    assert await node_of(cluster, "w5") == ""
    await cluster.advance(55)
    assert (await node_of(cluster, "w5"))[0] == "a"


async def test_P007_a_bind_that_fails_requeues_it(start, network):
    """Its backoff is over when the bind fails, so it comes before the pod that is not bound."""
    slow = SchedulerNetwork()
    cluster = await start(wrap=lambda inner, clock: slow.wrap(network.wrap(inner, clock), clock))
    await cluster.create(policy(strategy="required"))
    delay_binds(slow, 5, name="w4")
    fail_binds(network, name="w4")
    assert await place(cluster, 6) == ["a", "a", "b", "b", "", ""]
    await cluster.advance(5.5)
    assert (await node_of(cluster, "w5"))[:1] == "b"
    await cluster.advance(30)
    assert await node_of(cluster, "w4") == ""


async def test_P007_a_pod_that_is_relabelled_and_no_longer_selected_requeues_it(waiting):
    await relabel(waiting, "w0", app="other")
    await waiting.advance(BACKOFF)
    assert (await node_of(waiting, "w5"))[0] == "a"


async def test_P007_a_deleted_node_requeues_it_with_the_places_of_its_pods(waiting):
    """The node's pods are still stored, but count in no unit."""
    there = {await node_of(waiting, name) for name in ("w0", "w1")}
    gone = there.pop()
    await waiting.delete(NODES, gone)
    await waiting.advance(BACKOFF)
    assert (await node_of(waiting, "w5"))[0] == "a"


async def test_P026_a_raised_cap_requeues_it(waiting):
    await edit_policy(waiting, units=[od(max_count=3), spot()])
    await waiting.advance(BACKOFF)
    assert (await node_of(waiting, "w5"))[0] == "a"


async def test_P026_so_does_a_changed_strategy(waiting):
    await edit_policy(waiting, strategy="prefer")
    await waiting.advance(BACKOFF)
    assert await node_of(waiting, "w5") == "c1"


async def test_P026_and_the_deletion_of_the_policy(waiting):
    await waiting.delete(RESOURCE_POLICIES, "p", WEB)
    await waiting.advance(BACKOFF)
    assert await node_of(waiting, "w5") != ""


async def test_P026_a_policy_of_another_namespace_does_not(waiting):
    await waiting.create(a_namespace("db"))
    before = attempts(waiting)
    await waiting.create(policy("other", namespace="db"))
    await waiting.advance(30)
    assert attempts(waiting) == before


async def test_P027_a_relabelled_node_requeues_it(waiting):
    on = await node_of(waiting, "w0")
    other = "a2" if on == "a1" else "a1"
    await relabel_node(waiting, on, tier="gone")
    await waiting.advance(BACKOFF)
    assert await node_of(waiting, "w5") == other


async def test_P028_a_new_node_of_a_unit_below_its_cap_requeues_it(required):
    fillers = [pod(f"f-{n}", app="other", cpu="7", node=n) for n in ("a1", "a2")]
    more = [pod(f"s-{n}", app="other", cpu="8", node=n) for n in ("b1", "b2")]
    await create_each(required, *fillers, *more)
    assert await place(required, 1) == ["a"]
    [other] = {"a1", "a2"} - {await node_of(required, "w0")}
    await required.create(pod("last", app="other", node=other))
    await required.create(pod("w"))
    assert await node_of(required) == ""
    await required.create(node("a3"))
    await required.advance(BACKOFF)
    assert await node_of(required) == "a3"


async def test_P028_a_new_node_of_a_full_unit_does_not_help(waiting):
    await waiting.create(node("a3"))
    await waiting.advance(BACKOFF)
    assert await node_of(waiting, "w5") == ""


async def test_pods_of_a_node_that_comes_back_may_fill_a_unit_that_others_wait_for(cluster):
    """With ExceedMax, spot is used only when od is full."""
    rule = {"policy": "ExceedMax"}
    units = [od(max_count=1), spot()]
    await cluster.create(policy(strategy="required", when_try_next_units=rule, units=units))
    filler = pod("f-a1", app="other", cpu="8", node="a1")
    await create_each(cluster, filler, pod("there", cpu=None, node="a2"))
    a2 = node("a2")
    await cluster.client.delete(NODES, "a2")
    await cluster.create(pod("w"))
    assert await node_of(cluster) == ""
    await cluster.create(a2)
    await cluster.advance(BACKOFF)
    assert (await node_of(cluster))[0] == "b"
