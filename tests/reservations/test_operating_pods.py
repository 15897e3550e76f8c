"""Pods in operating mode Reservation: a running pod that acts as a reservation."""

import json
import sys

import msgspec
import pytest

from holdfast.api.scheme import PODS
from holdfast.testing import a_namespace, a_priority_class
from holdfast.testing.faults import Fault, FaultyTransport
from holdfast.testing.harness import Harness
from reservations.objects import (
    AFFINITY,
    PREFIX,
    WEB,
    allocated_from,
    create_each,
    held,
    is_pending,
    node,
    non_owner,
    owner,
    requested,
    running,
)
from reservations.operating_pods import BY_LABEL, CURRENT, OWNERS, acting

MERGE = "application/merge-patch+json"


async def current_owner(cluster, name="acting"):
    notes = (await cluster.pod(name)).metadata.annotations
    return msgspec.json.decode(notes[CURRENT]) if CURRENT in notes else None


async def test_an_owner_uses_the_resources_of_a_running_pod(cluster):
    await create_each(cluster, node(), acting(), running("12"), non_owner("other", cpu="1"))
    assert await is_pending(cluster, "other"), "they are held from other pods"
    await create_each(cluster, owner(cpu="4"))
    assert await cluster.node_of("owner") == "n1"
    assert await allocated_from(cluster, "owner") == "acting"
    uid = (await cluster.pod("owner")).uid
    assert await current_owner(cluster) == {"namespace": "default", "name": "owner", "uid": uid}
    assert requested(cluster) == 16000, "what both have in common counts once"
    assert (await cluster.pod("acting")).status.phase == "Running", "it runs on"


ELSEWHERE = {"name": "owner", "namespace": "other"}


@pytest.mark.parametrize(
    ("owners", "notes"),
    [
        (BY_LABEL, {}),
        (({"object": ELSEWHERE},), {}),
        (BY_LABEL, {CURRENT: json.dumps(ELSEWHERE)}),
    ],
)
async def test_pods_of_other_namespaces_are_no_owners(cluster, owners, notes):
    """Else a user of one namespace draws the pods of another to a node that is full."""
    pod = acting(owners=owners, annotations=notes)
    await create_each(cluster, a_namespace("other"), node(), pod, running("12"))
    await create_each(cluster, owner(cpu="4", namespace="other"))
    assert not (await cluster.pod("owner", "other")).spec.node_name
    assert await allocated_from(cluster, "owner", "other") is None
    await create_each(cluster, node("n2"))
    await cluster.advance(30)
    assert await cluster.node_of("owner", "other") == "n2"


async def test_it_allocates_once(cluster):
    await create_each(cluster, node(), acting(), running("12"), owner("a", cpu="1"))
    assert await allocated_from(cluster, "a") == "acting"
    await create_each(cluster, owner("b", cpu="1"))
    assert await is_pending(cluster, "b")
    await cluster.delete(PODS, "a", "default")
    await cluster.advance(400)
    assert await is_pending(cluster, "b"), "its current owner was another pod, for good"
    assert requested(cluster) == 16000
    await cluster.delete(PODS, "acting", "default")
    await cluster.advance(30)
    assert await cluster.node_of("b") == "n1" and await allocated_from(cluster, "b") is None


async def test_a_larger_owner_takes_the_rest_from_the_node(cluster):
    await create_each(cluster, node(), acting(), running("10"), owner(cpu="6"))
    assert await allocated_from(cluster, "owner") == "acting"
    assert requested(cluster) == 16000
    await cluster.delete(PODS, "acting", "default")
    assert requested(cluster) == 16000, "the owner counts itself now"


async def test_a_smaller_owner_leaves_the_rest_held(cluster):
    await create_each(cluster, node(), acting(), running("12"), owner(cpu="1"))
    assert requested(cluster) == 16000
    await cluster.delete(PODS, "acting", "default")
    assert requested(cluster) == 13000


async def test_only_a_ready_pod_accepts_owners(cluster):
    standalone = node(labels={"holdfast.dev/agent": "standalone"})
    await create_each(cluster, standalone, acting(), running("12"))
    await create_each(cluster, owner(cpu="4", reservation_affinity={"name": "acting"}))
    assert await is_pending(cluster, "owner")
    await set_status(cluster, "Running", "False")
    assert await is_pending(cluster, "owner")
    await set_status(cluster, "Running", "True")
    await cluster.advance(15)
    assert await allocated_from(cluster, "owner") == "acting"
    await set_status(cluster, "Running", "False")
    assert requested(cluster) == 16000, "its owner keeps what it has"


async def set_status(cluster, phase, ready):
    body = {"status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}}
    await cluster.client.patch(PODS, "acting", body, "default", subresource="status")
    await cluster.settle()


@pytest.mark.parametrize(
    ("owners", "says"),
    [
        ("", "required"),
        ("[{", "truncated"),
        ("[]", "required"),
        ("[{}]", "one of object, controller and labelSelector"),
        ('{"labelSelector": {}}', "Expected"),
        ("[" * 500, "Expected"),
        ('[{"x":' * 5000, "recursion" if sys.version_info < (3, 14) else "truncated"),
        ('[{"labelSelector": {"matchLabels": 7}}]', "Expected"),
        ('[{"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Foo"}]}}]', "Foo"),
        (json.dumps([{"object": {"name": f"n{i}"}} for i in range(300)]), "256"),
    ],
    ids=range(10),
)
async def test_with_malformed_owners_it_is_an_ordinary_pod_and_says_so(cluster, owners, says):
    await create_each(cluster, node(), acting(owners=owners), running("8"), owner(cpu="4"))
    assert await cluster.node_of("owner") == "n1" and await allocated_from(cluster, "owner") is None
    assert requested(cluster) == 16000
    warning = [m for reason, m in await cluster.events("acting") if "Owners" in reason]
    assert len(warning) == 1 and says in warning[0] and "is an ordinary pod" in warning[0]


async def test_owners_that_are_corrected_count(cluster):
    await create_each(cluster, node(), acting(owners="{"), running("12"))
    await create_each(cluster, owner(cpu="4"))
    assert await is_pending(cluster, "owner")
    await annotate(cluster, "acting", {OWNERS: json.dumps(BY_LABEL)})
    await cluster.advance(15)
    assert await allocated_from(cluster, "owner") == "acting"
    await annotate(cluster, "acting", {OWNERS: "{"})
    assert requested(cluster) == 20000, "two ordinary pods count beside each other"
    await annotate(cluster, "acting", {OWNERS: json.dumps(BY_LABEL)})
    assert requested(cluster) == 16000


async def annotate(cluster, name, annotations):
    body = {"metadata": {"annotations": annotations}}
    await cluster.client.patch(PODS, name, body, "default")
    await cluster.clock.settle()


async def test_a_restart_knows_the_owner(cluster):
    await create_each(cluster, node(), acting(), running("12"), owner("a", cpu="2"))
    await cluster.restart()
    assert requested(cluster) == 16000
    await create_each(cluster, owner("b", cpu="1"))
    assert await is_pending(cluster, "b")
    await cluster.delete(PODS, "a", "default")
    await cluster.restart()
    assert await is_pending(cluster, "b") and requested(cluster) == 16000


async def test_an_owner_whose_binding_was_interrupted_by_a_crash_gets_it_nevertheless(cluster):
    await create_each(cluster, node(), acting(), running("12"))
    async with cluster.components_stopped():
        await cluster.client.create(PODS, owner("a", cpu="4"), "default")
        await cluster.client.create(PODS, owner("b", cpu="4"), "default")
        uid = (await cluster.pod("b")).uid
        written = json.dumps({"namespace": "default", "name": "b", "uid": uid})
        body = {"metadata": {"annotations": {CURRENT: written}}}
        await cluster.client.patch(PODS, "acting", body, "default")
    assert await is_pending(cluster, "a")
    assert await allocated_from(cluster, "b") == "acting"


async def test_the_owner_is_removed_again_if_it_cannot_be_bound(tmp_path):
    fault = Fault("conflict", method="POST", path="/pods/owner/binding", times=9)

    def spoiled(transport, clock):
        return FaultyTransport(transport, [fault], clock=clock)

    async with Harness(tmp_path / "store", wrap=spoiled) as cluster:
        await create_each(cluster, node(), acting(), running("12"), owner(cpu="4"))
        assert await is_pending(cluster, "owner")
        assert await current_owner(cluster) is None
        await cluster.delete(PODS, "owner", "default")
        await create_each(cluster, owner("next", cpu="4"))
        assert await allocated_from(cluster, "next") == "acting"


async def test_two_owners_at_once(cluster):
    await create_each(cluster, node(), acting(), running("12"))
    await cluster.create(owner("a", cpu="4"), owner("b", cpu="4"))
    placed = [name for name in ("a", "b") if not await is_pending(cluster, name)]
    assert len(placed) == 1
    assert (await current_owner(cluster))["name"] == placed[0]


async def test_a_reservation_of_the_default_policy_on_the_node_is_a_conflict(cluster):
    await create_each(cluster, node(), held(cpu="1"), acting())
    assert "node(s) reservation allocate policy conflict" in await cluster.why("acting")
    await create_each(cluster, node("n2"))
    await cluster.advance(15)
    assert await cluster.node_of("acting") == "n2"


async def test_another_reservation_is_not_overcommitted_by_owner_and_acting_pod(cluster):
    await create_each(cluster, node(), acting(), running("8"), owner(cpu="4"))
    await create_each(cluster, held(cpu="4", allocate_policy="Aligned", owner_labels={"a": "b"}))
    assert (await cluster.reservation("r")).status.phase == "Available"
    await cluster.advance(700)
    conditions = (await cluster.reservation("r")).status.conditions
    assert ("Ready", "True") in {(c.type, c.status) for c in conditions}


async def test_it_is_a_victim_like_any_pod(cluster):
    """A label must not protect a pod; the owner that took its resources stays."""
    await create_each(cluster, a_priority_class(), node(), acting(), running("8"))
    await create_each(cluster, owner(cpu="4", priority_class_name="high"))
    assert await allocated_from(cluster, "owner") == "acting"
    await create_each(cluster, non_owner("big", cpu="8", priority_class_name="high"))
    await cluster.advance(60)
    assert await cluster.node_of("big") == "n1" and await cluster.node_of("owner") == "n1"
    assert requested(cluster) <= 16000


async def test_ports_of_the_acting_pod_are_free_for_its_owner(cluster):
    await create_each(cluster, node(), with_port(acting()), with_port(non_owner("other")))
    assert await is_pending(cluster, "other")
    await create_each(cluster, with_port(owner(cpu="4")))
    assert await allocated_from(cluster, "owner") == "acting"


def with_port(pod):
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": 7777, "hostPort": 7777}]
    return pod


async def test_it_does_not_use_a_reservation_itself(cluster):
    """What is reserved for it would otherwise be lent to pods that are no owners of that."""
    batch = {"batch": "yes"}
    await create_each(cluster, node(), held(cpu="6", owner_labels=batch, allocate_policy="Aligned"))
    await create_each(cluster, acting(labels=batch))
    assert await allocated_from(cluster, "acting") is None
    assert requested(cluster) == 10000
    needing = {AFFINITY: "{}"}
    await create_each(cluster, acting("needs", labels=batch, annotations=needing))
    assert "no reservations match reservation affinity" in await cluster.why("needs")


async def test_a_pod_that_uses_a_reservation_does_not_act_as_one(cluster):
    await create_each(
        cluster, node(), held(cpu="6", allocate_once=False, allocate_policy="Aligned")
    )
    await create_each(cluster, owner("a", cpu="4"))
    assert await allocated_from(cluster, "a") == "r"
    body = {"metadata": {"labels": {f"{PREFIX}/operating-mode": "Reservation"}}}
    await cluster.client.patch(PODS, "a", body, "default")
    await annotate(cluster, "a", {OWNERS: json.dumps(BY_LABEL)})
    await create_each(cluster, running("10"), owner("b", cpu="4"))
    assert await is_pending(cluster, "b") and requested(cluster) == 16000


async def test_it_is_not_pre_allocated(cluster):
    await create_each(cluster, node(), acting(labels=WEB), running("12"))
    await create_each(cluster, held(cpu="4", pre_allocation=True, allocate_policy="Aligned"))
    assert (await cluster.reservation("r")).status.phase == "Waiting"
    assert await allocated_from(cluster, "acting") is None
