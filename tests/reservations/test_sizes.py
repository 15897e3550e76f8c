"""How much a reservation holds when it is edited at an awkward moment, or says it unclearly."""

from holdfast.api.scheme import PODS, RESERVATIONS
from holdfast.plugins import default_profiles
from holdfast.testing import FaultyTransport
from holdfast.testing.harness import Harness
from reservations.rooms import (
    PREFIX,
    drawn_from,
    filler,
    given,
    held,
    node,
    owner,
    requested,
    status,
    stranger,
)

RESIZE = f"{PREFIX}/reservation-resize-allocatable"
X = "example.com/x"


def sized(cpu):
    return {"metadata": {"annotations": {RESIZE: f'{{"resources":{{"cpu":"{cpu}"}}}}'}}}


async def edit(cluster, patch):
    await cluster.client.patch(RESERVATIONS, "r", patch)
    await cluster.settle()


async def allocatable(cluster):
    return dict((await cluster.reservation("r")).status.allocatable)


async def test_a_restart_does_not_let_it_grow_into_room_that_pods_have(cluster):
    await given(cluster, node(), held(cpu="4"), filler("12"))
    await edit(cluster, sized("8"))
    assert await allocatable(cluster) == {"cpu": "4"}
    await cluster.restart_components()
    await cluster.advance(5)
    assert (await allocatable(cluster), requested(cluster)) == ({"cpu": "4"}, 16_000)
    await cluster.delete(PODS, "used", "default")
    await cluster.advance(5)
    assert await allocatable(cluster) == {"cpu": "8"}


class Edited(FaultyTransport):
    """Edits the reservation in the moment in which the scheduler reads it to bind it."""

    edit = None

    async def send(self, request):
        if self.edit and request.method == "GET" and request.path.endswith("/reservations/r"):
            act, Edited.edit = self.edit, None
            await act()
        return await super().send(request)


async def test_edited_while_it_is_bound_it_holds_what_room_was_found_for(tmp_path):
    def wrap(transport, clock):
        return Edited(transport, [], clock=clock)

    async with Harness(tmp_path / "store", wrap=wrap) as cluster:
        Edited.edit = staticmethod(lambda: cluster.client.patch(RESERVATIONS, "r", sized("8")))
        await given(cluster, node(), filler("12"), held(cpu="4"))
        assert Edited.edit is None, "it was edited"
        await cluster.advance(5)
        assert (await allocatable(cluster), requested(cluster)) == ({"cpu": "4"}, 16_000)


async def test_an_edit_is_not_lost_on_one_whose_owner_gave_it_back(cluster):
    await given(cluster, node(), held(cpu="4"))
    [offer] = cluster.world.offers
    cluster.world.offers.assign("being-bound", {offer.uid: {0: 4000}})
    await edit(cluster, sized("8"))
    assert await allocatable(cluster) == {"cpu": "4"}
    cluster.world.offers.withdraw("being-bound")
    await cluster.advance(5)
    assert await allocatable(cluster) == {"cpu": "8"}


async def test_made_allocate_once_while_several_use_it_has_served_them(cluster):
    await given(cluster, node(), held(cpu="8", allocate_once=False), owner("a"), owner("b"))
    await edit(cluster, {"spec": {"allocateOnce": True}})
    await given(cluster, owner("c"))
    assert await drawn_from(cluster, "c") is None
    assert await status(cluster) == ("Succeeded", {"cpu": "2"}, ["a", "b"])


async def test_a_template_with_limits_alone_holds_as_much(cluster):
    limits = {"containers": [{"name": "main", "resources": {"limits": {"cpu": "4"}}}]}
    await given(cluster, node(), held(template=limits))
    assert (await allocatable(cluster), requested(cluster)) == ({"cpu": "4"}, 4000)
    await given(cluster, owner(cpu=None, limits={"cpu": "4"}))
    assert await status(cluster) == ("Succeeded", {"cpu": "4"}, ["owner"])


async def test_a_resource_that_somebody_else_counts_keeps_no_owner_from_its_room(tmp_path):
    profiles = default_profiles({"NodeResourcesFit": {"ignoredResources": [X]}})
    asks = {"requests": {X: "1"}, "limits": {X: "1"}}
    async with Harness(tmp_path / "store", profiles=profiles) as cluster:
        await given(cluster, node(), held(cpu="4"), stranger(**asks), owner(cpu="4", **asks))
        assert await cluster.node_of("stranger") == "n1"
        assert await drawn_from(cluster, "owner") == "r"


async def test_made_allocate_once_while_in_use_it_has_served(cluster):
    await given(cluster, node(), held(cpu="4", allocate_once=False), owner(cpu="1"))
    assert await status(cluster) == ("Available", {"cpu": "1"}, ["owner"])
    await edit(cluster, {"spec": {"allocateOnce": True}})
    assert await status(cluster) == ("Succeeded", {"cpu": "1"}, ["owner"])
    assert requested(cluster) == 1_000, "the rest is free"


async def test_made_allocate_once_while_nobody_uses_it_it_waits_for_its_owner(cluster):
    await given(cluster, node(), held(cpu="4", allocate_once=False), owner(cpu="1"))
    await cluster.delete(PODS, "owner", "default")
    await edit(cluster, {"spec": {"allocateOnce": True}})
    assert await status(cluster) == ("Available", {}, [])
