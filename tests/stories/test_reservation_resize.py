"""A reservation that holds room is edited: what it holds, who keeps what, and what is said."""

import asyncio
import json

import pytest

from holdfast.api.scheme import PODS, RESERVATIONS
from holdfast.apiserver.kinds import scheduling_koordinator_sh
from holdfast.errors import Forbidden, Invalid
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
    """Give the template of ``r`` other requests."""
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
async def room(cluster):
    """A node of 16 CPUs, 4 of them reserved."""
    await cluster.create(a_node("n1", cpu="16", memory="32Gi"), held())
    assert used(cluster) == 4000
    return cluster


async def test_a_larger_template_grows_the_reservation_where_it_is(room):
    await edit(room, cpu="10", memory="8Gi")
    assert await size(room) == {"cpu": "10", "memory": "8Gi"}
    assert used(room) == 10000
    assert await resized(room) == ("True", "Resized", "")
    assert ("Resized", "holds cpu 10, memory 8Gi now") in await room.events("r")
    await room.create(a_pod("stranger", cpu="7"), owner(cpu="10"))
    assert await room.node_of("stranger") == ""
    assert await room.node_of("owner") == "n1"


async def test_the_annotation_resizes_too_and_wins_over_the_template(room):
    await annotate(room, cpu="12")
    assert await size(room) == {"cpu": "12"}
    await edit(room, cpu="6")
    assert await size(room) == {"cpu": "12"}
    await annotate(room)
    assert await size(room) == {"cpu": "6"}
    assert used(room) == 6000


async def test_a_smaller_one_gives_room_back_to_whoever_waits(room):
    await room.create(a_pod("waits", cpu="14"))
    assert await room.node_of("waits") == ""
    await edit(room, cpu="2")
    await room.advance(12)
    assert await room.node_of("waits") == "n1"
    assert await size(room) == {"cpu": "2"}


async def test_owners_keep_what_they_have_of_one_that_shrinks(room):
    await room.create(owner("a", cpu="3"))
    await edit(room, cpu="1")
    status = (await room.reservation("r")).status
    assert (status.allocatable, status.allocated) == ({"cpu": "1"}, {"cpu": "3"})
    assert used(room) == 3000, "the hold is what is used, never less"
    await room.delete(PODS, "a", "default")
    assert used(room) == 1000


async def test_without_room_it_keeps_its_size_and_says_so_until_there_is(room):
    await room.create(a_pod("stranger", cpu="10", node="n1"))
    await edit(room, cpu="8")
    assert await size(room) == {"cpu": "4"}
    words = "node n1 has no room for it to grow: Insufficient cpu"
    assert await resized(room) == ("False", "Insufficient", words)
    assert ("FailedResize", words) in await room.events("r")
    version = (await room.reservation("r")).metadata.resource_version
    await room.advance(30)
    assert (await room.reservation("r")).metadata.resource_version == version, "said once"
    await room.delete(PODS, "stranger", "default")
    await room.advance(2)
    assert await size(room) == {"cpu": "8"}
    assert (await resized(room))[:2] == ("True", "Resized")


async def test_taken_back_the_edit_leaves_no_complaint(room):
    await edit(room, cpu="99")
    assert (await resized(room))[:2] == ("False", "Insufficient")
    await edit(room, cpu="4")
    assert await resized(room) is None
    assert await size(room) == {"cpu": "4"}


async def test_an_extended_resource_goes_only_when_told_to(cluster):
    extra = "example.com/x"
    await cluster.create(a_node("n1", cpu="16", allocatable={extra: 8}))
    await cluster.create(held(requests={extra: 2}))
    await edit(cluster, cpu="5")
    assert await size(cluster) == {"cpu": "5", extra: "2"}
    await edit(cluster, cpu="5", requests={extra: 0})
    assert await size(cluster) == {"cpu": "5"}


async def test_it_never_moves(room):
    await room.create(a_node("n2", cpu="64"))
    await edit(room, cpu="40", template={"node": "n2"})
    reservation = await room.reservation("r")
    assert (reservation.status.node_name, reservation.status.allocatable) == ("n1", {"cpu": "4"})


async def test_who_may_use_it_and_how_long_changes_at_once(room):
    await room.create(owner("a", cpu="1"))
    spec = {"owners": [{"labelSelector": {"matchLabels": {"app": "db"}}}]}
    await room.client.patch(RESERVATIONS, "r", {"spec": spec})
    await room.settle()
    await room.create(owner("b", cpu="1"), a_pod("c", cpu="1", labels={"app": "db"}))
    owners = [o.name for o in (await room.reservation("r")).status.current_owners]
    assert sorted(owners) == ["a", "c"], "who is in stays in"
    await room.client.patch(RESERVATIONS, "r", {"spec": {"ttl": "1s"}})
    await room.advance(5)
    assert (await room.reservation("r")).status.phase == "Failed"


async def test_the_end_is_not_edited(room):
    await room.client.patch(RESERVATIONS, "r", {"spec": {"ttl": "1s"}})
    await room.advance(5)
    await edit(room, cpu="8")
    await room.advance(5)
    assert await size(room) == {"cpu": "4"}
    assert used(room) == 0


async def test_growth_and_a_pod_never_get_the_same_room(room):
    for round_ in range(5):
        await asyncio.gather(
            edit(room, settle=False, cpu="16"),
            room.create(a_pod("rival", cpu="12"), settle=False),
        )
        await room.settle()  # checks every promise
        placed, grown = await room.node_of("rival") == "n1", await size(room) == {"cpu": "16"}
        assert placed != grown, round_
        await room.client.delete(PODS, "rival", "default", uid=(await room.pod("rival")).uid)
        await edit(room, cpu="4")
        await room.advance(12)
        assert used(room) == 4000


async def test_what_was_edited_while_nobody_ran_is_made_true(room):
    await room._stop_components()
    await room.client.patch(
        RESERVATIONS, "r", {"spec": {"template": held("9")["spec"]["template"]}}
    )
    await room._start_components()
    await room.settle()
    assert (await size(room), used(room)) == ({"cpu": "9"}, 9000)


async def test_a_malformed_size_is_refused_by_the_server(room):
    with pytest.raises(Invalid, match="reservation-resize-allocatable"):
        await annotate(room, cpu="-1")
    with pytest.raises(Invalid, match="requests\\[cpu\\]"):
        await edit(room, cpu="-1")


async def test_a_malformed_size_that_got_in_is_said_and_changes_nothing(room, monkeypatch):
    monkeypatch.setattr(scheduling_koordinator_sh, "check_content", lambda reservation: ())
    await edit(room, cpu="many")
    status, reason, message = await resized(room)
    assert (status, reason) == ("False", "Invalid")
    assert "quantities must match" in message
    assert (await size(room), used(room)) == ({"cpu": "4"}, 4000)


@pytest.mark.parametrize("trouble", ["conflict", "unavailable", "unavailable_after", "lost"])
async def test_the_new_size_outlives_trouble(tmp_path, trouble):
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
        assert any(wire.told for wire in wires)
        assert (await size(cluster), used(cluster)) == ({"cpu": "10"}, 10000)
        await edit(cluster, cpu="3")
        await cluster.advance(5)
        assert (await size(cluster), used(cluster)) == ({"cpu": "3"}, 3000)


@pytest.mark.parametrize("kind", ["pods", "reservations"])
async def test_after_a_restart_it_grows_into_nothing_that_was_not_read_yet(tmp_path, kind):
    """Lists arrive one after the other: until the last one the node looks emptier than it is."""
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
    """Pass requests on, but refuse to write the size of a reservation."""

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


async def test_a_size_that_the_server_refuses_is_written_once_an_edit(tmp_path):
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
            ("FailedResize", "its size is not written: may not write the status of reservations")
        ]
        await edit(cluster, cpu="8")
        await cluster.advance(30)
        assert sum(transport.refused for transport in transports) == 2
