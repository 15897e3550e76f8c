"""Pods that ask for gangs or elastic quotas are scheduled one by one, and an event says so."""

import pytest

from holdfast.api.group_scheduling import NO_GANGS, NO_QUOTAS
from holdfast.api.scheme import EVENTS, PODS
from holdfast.testing.builders import a_node, a_pod, a_reservation
from holdfast.testing.harness import Harness

GANG, QUOTA = (f"{{}} is not read: {sentence}" for sentence in (NO_GANGS, NO_QUOTAS))
KEYS = {
    "gang.scheduling.koordinator.sh/name": GANG,
    "gang.scheduling.koordinator.sh/min-available": GANG,
    "pod-group.scheduling.sigs.k8s.io": GANG,
    "pod-group.scheduling.sigs.k8s.io/name": GANG,
    "scheduling.x-k8s.io/pod-group": GANG,
    "scheduling.k8s.io/group-name": GANG,
    "scheduling.volcano.sh/group-min-member": GANG,
    "volcano.sh/task-spec": GANG,
    "quota.scheduling.koordinator.sh/name": QUOTA,
    "quota.scheduling.koordinator.sh/tree-id": QUOTA,
}


def warnings(events):
    return [message for reason, message in events if reason == "NotImplemented"]


@pytest.fixture
async def cluster(tmp_path):
    async with Harness(tmp_path) as harness:
        await harness.create(a_node("n", cpu=4))
        yield harness


@pytest.mark.parametrize("part", ["labels", "annotations"])
@pytest.mark.parametrize("key", KEYS)
async def test_a_pod_with_a_key_of_a_gang_or_a_quota_gets_one_event(cluster, key, part):
    pod = a_pod("p", cpu=1)
    pod["metadata"].setdefault(part, {})[key] = "group"
    await cluster.create(pod)
    assert await cluster.node_of("p") == "n"
    assert warnings(await cluster.events("p")) == [KEYS[key].format(key)]


async def test_a_pod_of_a_scheduling_group_gets_one_event(cluster):
    pod = a_pod("p", cpu=1)
    pod["spec"]["schedulingGroup"] = {"podGroupName": "group"}
    await cluster.create(pod)
    assert warnings(await cluster.events("p")) == [GANG.format("schedulingGroup")]


async def test_a_pod_that_is_tried_again_gets_no_second_event(cluster):
    pod = a_pod("big", cpu=8)
    pod["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "g", "volcano.sh/queue-name": "q"}
    await cluster.create(pod)
    await cluster.create(a_node("m", cpu=2))
    await cluster.create(a_node("large", cpu=16))
    await cluster.advance(60)
    assert await cluster.node_of("big") == "large"
    [message] = warnings(await cluster.events("big"))
    assert message.count("is not read") == 2


async def test_other_keys_and_empty_values_get_no_event(cluster):
    pod = a_pod("p", cpu=1)
    pod["metadata"]["labels"] = {
        "app": "web", "scheduling.x-k8s.io/pod-group": "", "example.com/pod-group": "g",
    }  # fmt: skip
    await cluster.create(pod)
    assert await cluster.node_of("p") == "n"
    assert warnings(await cluster.events("p")) == []


async def test_pods_of_different_groups_are_of_one_class(cluster):
    for name in ("a", "b"):
        pod = a_pod(name, cpu=1)
        pod["spec"]["schedulingGroup"] = {"podGroupName": name}
        await cluster.create(pod)
    found = [cluster.world.pod_info(await cluster.client.get(PODS, n, "default")) for n in "ab"]
    assert found[0].spec_key == found[1].spec_key


async def test_a_reservation_of_a_gang_gets_an_event(cluster):
    reservation = a_reservation("r", cpu=1)
    key = "gang.scheduling.koordinator.sh/name"
    reservation["spec"]["template"].setdefault("metadata", {})["annotations"] = {key: "g"}
    await cluster.create(reservation)
    assert (await cluster.reservation("r")).phase == "Available"
    listing = await cluster.client.list(EVENTS)
    found = [e.message for e in listing.items if e.reason == "NotImplemented"]
    assert found == [GANG.format(key)]
