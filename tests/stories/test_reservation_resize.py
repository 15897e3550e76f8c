"""Resizing a reservation on its node: what it holds, what owners keep, and what is reported."""

import asyncio
import json

import pytest

from holdfast.api.scheme import PODS, RESERVATIONS
from holdfast.runtime.errors import Forbidden, Invalid
from holdfast.server.kinds import scheduling_koordinator_sh
from holdfast.testing import a_node, a_pod, a_reservation
from holdfast.testing.faults import Fault, FaultyTransport
from holdfast.testing.harness import Harness

WEB = {"app": "web"}
RESIZE = "scheduling.koordinator.sh/reservation-resize-allocatable"


def held(cpu="4", name="r", **more):
    return a_reservation(name, cpu=cpu, owner_labels=WEB, allocate_once=False, **more)


def owner(name="owner", **more):
    return a_pod(name, labels=WEB, **more)


def used(cluster, resource=0, node="n1"):
    nodes = cluster.world.nodes
    return int(nodes.requested[resource, nodes.row_of[node]])


async def edit(cluster, settle=True, **template):
    """Change the requests in the template of ``r``."""
    spec = {"template": held(**template)["spec"]["template"]}
    await cluster.client.patch(RESERVATIONS, "r", {"spec": spec})
    if settle:
        await cluster.settle()


async def annotate(cluster, **amounts):
    text = json.dumps({"resources": amounts}) if amounts else None
    await cluster.client.patch(RESERVATIONS, "r", {"metadata": {"annotations": {RESIZE: text}}})
    await cluster.settle()


async def size(cluster):
    return (await cluster.reservation("r")).status.allocatable


async def resized(cluster):
    found = (await cluster.reservation("r")).condition("Resized")
    return found and (found.status, found.reason, found.message)


@pytest.fixture
async def reserved_cluster(cluster):
    """A cluster with a node of 16 CPUs, 4 of them reserved."""
    await cluster.create(a_node("n1", cpu="16", memory="32Gi"), held())
    assert used(cluster) == 4000
    return cluster


async def test_a_larger_template_grows_the_reservation_on_its_node(reserved_cluster):
    await edit(reserved_cluster, cpu="10", memory="8Gi")
    assert await size(reserved_cluster) == {"cpu": "10", "memory": "8Gi"}
    assert used(reserved_cluster) == 10000
    assert await resized(reserved_cluster) == ("True", "Resized", "")
    assert ("Resized", "holds cpu 10, memory 8Gi now") in await reserved_cluster.events("r")
    await reserved_cluster.create(a_pod("stranger", cpu="7"), owner(cpu="10"))
    assert await reserved_cluster.node_of("stranger") == ""
    assert await reserved_cluster.node_of("owner") == "n1"


async def test_the_resize_annotation_takes_precedence_over_the_template(reserved_cluster):
    await annotate(reserved_cluster, cpu="12")
    assert await size(reserved_cluster) == {"cpu": "12"}
    await edit(reserved_cluster, cpu="6")
    assert await size(reserved_cluster) == {"cpu": "12"}
    await annotate(reserved_cluster)
    assert await size(reserved_cluster) == {"cpu": "6"}
    assert used(reserved_cluster) == 6000


async def test_a_smaller_reservation_frees_resources_for_pending_pods(reserved_cluster):
    await reserved_cluster.create(a_pod("waits", cpu="14"))
    assert await reserved_cluster.node_of("waits") == ""
    await edit(reserved_cluster, cpu="2")
    await reserved_cluster.advance(12)
    assert await reserved_cluster.node_of("waits") == "n1"
    assert await size(reserved_cluster) == {"cpu": "2"}


async def test_owners_keep_their_resources_when_a_reservation_shrinks(reserved_cluster):
    await reserved_cluster.create(owner("a", cpu="3"))
    await edit(reserved_cluster, cpu="1")
    status = (await reserved_cluster.reservation("r")).status
    assert (status.allocatable, status.allocated) == ({"cpu": "1"}, {"cpu": "3"})
    assert used(reserved_cluster) == 3000, "the hold is what is used, never less"
    await reserved_cluster.delete(PODS, "a", "default")
    assert used(reserved_cluster) == 1000


async def test_a_reservation_that_cannot_grow_says_so_until_it_can(reserved_cluster):
    await reserved_cluster.create(a_pod("stranger", cpu="10", node="n1"))
    await edit(reserved_cluster, cpu="8")
    assert await size(reserved_cluster) == {"cpu": "4"}
    words = "node n1 cannot hold the new size: Insufficient cpu"
    assert await resized(reserved_cluster) == ("False", "Insufficient", words)
    assert ("FailedResize", words) in await reserved_cluster.events("r")
    version = (await reserved_cluster.reservation("r")).metadata.resource_version
    await reserved_cluster.advance(30)
    assert (await reserved_cluster.reservation("r")).metadata.resource_version == version, (
        "said once"
    )
    await reserved_cluster.delete(PODS, "stranger", "default")
    await reserved_cluster.advance(2)
    assert await size(reserved_cluster) == {"cpu": "8"}
    assert (await resized(reserved_cluster))[:2] == ("True", "Resized")


async def test_reverting_the_edit_removes_the_condition(reserved_cluster):
    await edit(reserved_cluster, cpu="99")
    assert (await resized(reserved_cluster))[:2] == ("False", "Insufficient")
    await edit(reserved_cluster, cpu="4")
    assert await resized(reserved_cluster) is None
    assert await size(reserved_cluster) == {"cpu": "4"}


async def test_an_extended_resource_is_removed_only_by_an_amount_of_0(cluster):
    extra = "example.com/x"
    await cluster.create(a_node("n1", cpu="16", allocatable={extra: 8}))
    await cluster.create(held(requests={extra: 2}))
    await edit(cluster, cpu="5")
    assert await size(cluster) == {"cpu": "5", extra: "2"}
    await edit(cluster, cpu="5", requests={extra: 0})
    assert await size(cluster) == {"cpu": "5"}


async def test_an_edited_reservation_never_moves(reserved_cluster):
    await reserved_cluster.create(a_node("n2", cpu="64"))
    await edit(reserved_cluster, cpu="40", template={"node": "n2"})
    reservation = await reserved_cluster.reservation("r")
    assert (reservation.status.node_name, reservation.status.allocatable) == ("n1", {"cpu": "4"})


async def test_edits_of_owners_and_lifetime_have_effect_at_once(reserved_cluster):
    await reserved_cluster.create(owner("a", cpu="1"))
    spec = {"owners": [{"labelSelector": {"matchLabels": {"app": "db"}}}]}
    await reserved_cluster.client.patch(RESERVATIONS, "r", {"spec": spec})
    await reserved_cluster.settle()
    await reserved_cluster.create(owner("b", cpu="1"), a_pod("c", cpu="1", labels={"app": "db"}))
    owners = [o.name for o in (await reserved_cluster.reservation("r")).status.current_owners]
    assert sorted(owners) == ["a", "c"], "who is in stays in"
    await reserved_cluster.client.patch(RESERVATIONS, "r", {"spec": {"ttl": "1s"}})
    await reserved_cluster.advance(5)
    assert (await reserved_cluster.reservation("r")).status.phase == "Failed"


async def test_an_ended_reservation_is_not_resized(reserved_cluster):
    await reserved_cluster.client.patch(RESERVATIONS, "r", {"spec": {"ttl": "1s"}})
    await reserved_cluster.advance(5)
    await edit(reserved_cluster, cpu="8")
    await reserved_cluster.advance(5)
    assert await size(reserved_cluster) == {"cpu": "4"}
    assert used(reserved_cluster) == 0


async def test_growth_and_a_pod_never_get_the_same_resources(reserved_cluster):
    for round_ in range(5):
        await asyncio.gather(
            edit(reserved_cluster, settle=False, cpu="16"),
            reserved_cluster.create(a_pod("rival", cpu="12"), settle=False),
        )
        await reserved_cluster.settle()  # checks the invariants
        placed, grown = (
            await reserved_cluster.node_of("rival") == "n1",
            await size(reserved_cluster) == {"cpu": "16"},
        )
        assert placed != grown, round_
        await reserved_cluster.client.delete(
            PODS, "rival", "default", uid=(await reserved_cluster.pod("rival")).uid
        )
        await edit(reserved_cluster, cpu="4")
        await reserved_cluster.advance(12)
        assert used(reserved_cluster) == 4000


async def test_edits_made_while_the_scheduler_was_down_have_effect(reserved_cluster):
    async with reserved_cluster.components_stopped():
        await reserved_cluster.client.patch(
            RESERVATIONS, "r", {"spec": {"template": held("9")["spec"]["template"]}}
        )
    assert (await size(reserved_cluster), used(reserved_cluster)) == ({"cpu": "9"}, 9000)


async def test_a_malformed_size_is_rejected_by_the_server(reserved_cluster):
    with pytest.raises(Invalid, match="reservation-resize-allocatable"):
        await annotate(reserved_cluster, cpu="-1")
    with pytest.raises(Invalid, match="requests\\[cpu\\]"):
        await edit(reserved_cluster, cpu="-1")


async def test_a_malformed_size_that_was_stored_is_reported_and_changes_nothing(
    reserved_cluster, monkeypatch
):
    monkeypatch.setattr(scheduling_koordinator_sh, "check_content", lambda reservation: ())
    await edit(reserved_cluster, cpu="many")
    status, reason, message = await resized(reserved_cluster)
    assert (status, reason) == ("False", "Invalid")
    assert "quantities must match" in message
    assert (await size(reserved_cluster), used(reserved_cluster)) == ({"cpu": "4"}, 4000)


@pytest.mark.parametrize("trouble", ["conflict", "unavailable", "unavailable_after", "lost"])
async def test_the_new_size_is_written_despite_faults(tmp_path, trouble):
    wires = []

    def wrap(transport, clock):
        wires.append(FaultyTransport(transport, clock=clock))
        return wires[-1]

    async with Harness(tmp_path / "store", wrap=wrap) as cluster:
        await cluster.create(a_node("n1", cpu="16"), held())
        for wire in wires:
            wire.add(Fault(trouble, "PATCH", "/reservations/r/status", times=2))
        await edit(cluster, cpu="10")
        await cluster.advance(5)
        assert any(wire.injected_faults for wire in wires)
        assert (await size(cluster), used(cluster)) == ({"cpu": "10"}, 10000)
        await edit(cluster, cpu="3")
        await cluster.advance(5)
        assert (await size(cluster), used(cluster)) == ({"cpu": "3"}, 3000)


@pytest.mark.parametrize("kind", ["pods", "reservations"])
async def test_after_a_restart_it_does_not_grow_before_all_objects_are_read(tmp_path, kind):
    """Lists are read one after the other: until the last one the node seems to have fewer pods."""
    late = []

    def spoiled(transport, clock):
        faults = [Fault("delay", method="GET", path=f"/{kind}", seconds=5)] if late else []
        return FaultyTransport(transport, faults, clock=clock)

    async with Harness(tmp_path / "store", wrap=spoiled) as cluster:
        await cluster.create(a_node("n1", cpu="8"), a_pod("p", cpu="4", node="n1"), held("4"))
        await edit(cluster, cpu="8")
        assert (await cluster.reservation("r")).status.allocatable["cpu"] == "4"
        late.append(True)
        await cluster.restart_components()
        await cluster.advance(10)
        assert (await cluster.reservation("r")).status.allocatable["cpu"] == "4"
        assert used(cluster) == 8000


class RefusingTransport:
    """A transport that rejects writes of a reservation's size."""

    def __init__(self, inner):
        self._inner = inner
        self.refusing = False
        self.refused = 0

    def __getattr__(self, name):
        return getattr(self._inner, name)

    async def send(self, request):
        sized = request.path.endswith("/reservations/r/status") and b'"allocatable"' in request.body
        if self.refusing and sized:
            self.refused += 1
            raise Forbidden("may not write the status of reservations")
        return await self._inner.send(request)


async def test_a_size_that_the_server_rejects_is_written_once_per_edit(tmp_path):
    transports = []

    def wrap(inner, _clock):
        transports.append(RefusingTransport(inner))
        return transports[-1]

    async with Harness(tmp_path, wrap=wrap) as cluster:
        await cluster.create(a_node("n1", cpu="16", memory="32Gi"), held())
        for transport in transports:
            transport.refusing = True
        await edit(cluster, cpu="6")
        await cluster.advance(30)
        assert sum(transport.refused for transport in transports) == 1
        assert used(cluster) == 4000
        told = [event for event in await cluster.events("r") if event[0] == "FailedResize"]
        assert told == [
            (
                "FailedResize",
                "the new size was not written: may not write the status of reservations",
            )
        ]
        await edit(cluster, cpu="8")
        await cluster.advance(30)
        assert sum(transport.refused for transport in transports) == 2
