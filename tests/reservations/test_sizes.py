"""What a reservation holds after an edit at an unusual moment, or with an unusual template."""

import pytest

from holdfast.api.scheme import PODS, RESERVATIONS
from holdfast.runtime.errors import Invalid
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing import FaultyTransport
from holdfast.testing.harness import Harness
from reservations.objects import (
    PREFIX,
    allocated_from,
    create_each,
    held,
    node,
    non_owner,
    owner,
    requested,
    running,
    status,
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


async def test_after_a_restart_it_does_not_grow_into_used_resources(cluster):
    await create_each(cluster, node(), held(cpu="4"), running("12"))
    await edit(cluster, sized("8"))
    assert await allocatable(cluster) == {"cpu": "4"}
    await cluster.restart_components()
    await cluster.advance(5)
    assert (await allocatable(cluster), requested(cluster)) == ({"cpu": "4"}, 16_000)
    await cluster.delete(PODS, "used", "default")
    await cluster.advance(5)
    assert await allocatable(cluster) == {"cpu": "8"}


class Edited(FaultyTransport):
    """Edits the reservation at the moment when the scheduler reads it to bind it."""

    edit = None

    async def send(self, request):
        if self.edit and request.method == "GET" and request.path.endswith("/reservations/r"):
            act, Edited.edit = self.edit, None
            await act()
        return await super().send(request)


async def test_a_reservation_edited_while_it_is_bound_holds_what_was_scheduled(tmp_path):
    def wrap(transport, clock):
        return Edited(transport, [], clock=clock)

    async with Harness(tmp_path / "store", wrap=wrap) as cluster:
        Edited.edit = staticmethod(lambda: cluster.client.patch(RESERVATIONS, "r", sized("8")))
        await create_each(cluster, node(), running("12"), held(cpu="4"))
        assert Edited.edit is None, "it was edited"
        await cluster.advance(5)
        assert (await allocatable(cluster), requested(cluster)) == ({"cpu": "4"}, 16_000)


async def test_an_edit_is_not_lost_when_the_owner_is_undone(cluster):
    await create_each(cluster, node(), held(cpu="4"))
    [info] = cluster.world.reservations
    cluster.world.reservations.allocate("being-bound", {info.uid: {0: 4000}})
    await edit(cluster, sized("8"))
    assert await allocatable(cluster) == {"cpu": "4"}
    cluster.world.reservations.deallocate("being-bound")
    await cluster.advance(5)
    assert await allocatable(cluster) == {"cpu": "8"}


async def test_edited_to_allocate_once_with_several_owners_it_succeeds(cluster):
    await create_each(cluster, node(), held(cpu="8", allocate_once=False), owner("a"), owner("b"))
    await edit(cluster, {"spec": {"allocateOnce": True}})
    await create_each(cluster, owner("c"))
    assert await allocated_from(cluster, "c") is None
    assert await status(cluster) == ("Succeeded", {"cpu": "2"}, ["a", "b"])


async def test_limits_of_a_template_count_as_requests(cluster):
    limits = {"containers": [{"name": "main", "resources": {"limits": {"cpu": "4"}}}]}
    await create_each(cluster, node(), held(template=limits))
    assert (await allocatable(cluster), requested(cluster)) == ({"cpu": "4"}, 4000)
    await create_each(cluster, owner(cpu=None, limits={"cpu": "4"}))
    assert await status(cluster) == ("Succeeded", {"cpu": "4"}, ["owner"])


async def test_an_ignored_resource_does_not_reject_owners(tmp_path):
    profiles = default_profiles({"NodeResourcesFit": {"ignoredResources": [X]}})
    asks = {"requests": {X: "1"}, "limits": {X: "1"}}
    async with Harness(tmp_path / "store", profiles=profiles) as cluster:
        await create_each(cluster, node(), held(cpu="4"), non_owner(**asks), owner(cpu="4", **asks))
        assert await cluster.node_of("stranger") == "n1"
        assert await allocated_from(cluster, "owner") == "r"


async def test_edited_to_allocate_once_in_use_it_succeeds(cluster):
    await create_each(cluster, node(), held(cpu="4", allocate_once=False), owner(cpu="1"))
    assert await status(cluster) == ("Available", {"cpu": "1"}, ["owner"])
    await edit(cluster, {"spec": {"allocateOnce": True}})
    assert await status(cluster) == ("Succeeded", {"cpu": "1"}, ["owner"])
    assert requested(cluster) == 1_000, "the rest is free"


async def test_edited_to_allocate_once_without_owners_it_stays_available(cluster):
    await create_each(cluster, node(), held(cpu="4", allocate_once=False), owner(cpu="1"))
    await cluster.delete(PODS, "owner", "default")
    await edit(cluster, {"spec": {"allocateOnce": True}})
    assert await status(cluster) == ("Available", {}, [])


async def set_status(cluster, **fields):
    await cluster.client.patch(RESERVATIONS, "r", {"status": fields}, subresource="status")
    await cluster.settle()


async def resized(cluster):
    found = (await cluster.reservation("r")).condition("Resized")
    return found and (found.status, found.reason)


async def test_a_changed_status_is_restored_and_is_no_resize(cluster):
    await create_each(cluster, node(), held(cpu="4", memory="4Gi"))
    for changed in ({"cpu": "2"}, {"cpu": "8", "memory": "1Gi"}):
        await set_status(cluster, allocatable=changed)
        assert await allocatable(cluster) == {"cpu": "4", "memory": "4Gi"}
        assert requested(cluster) == 4000
        assert await resized(cluster) is None
    reasons = [reason for reason, _ in await cluster.events("r")]
    assert ("Restored" in reasons, "Resized" in reasons) == (True, False)
    await edit(cluster, sized("6"))
    assert await resized(cluster) == ("True", "Resized")
    before = (await cluster.reservation("r")).condition("Resized")
    await cluster.advance(5)
    await set_status(cluster, allocatable={"cpu": "5"})
    assert await allocatable(cluster) == {"cpu": "6", "memory": "4Gi"}
    assert (await cluster.reservation("r")).condition("Resized") == before


async def test_a_status_changed_while_the_scheduler_is_away_is_restored(cluster):
    await create_each(cluster, node(), held(cpu="4"))
    async with cluster.components_stopped():
        await set_status(cluster, allocatable={"cpu": "2"})
    await cluster.advance(5)
    assert (await allocatable(cluster), await resized(cluster)) == ({"cpu": "4"}, None)


async def test_a_resource_that_cannot_exist_is_refused(cluster):
    with pytest.raises(Invalid, match="memmory"):
        await cluster.create(held(cpu="1", requests={"memmory": "1Gi"}))
    await create_each(cluster, node(), held(cpu="1"))
    with pytest.raises(Invalid, match="memmory"):
        await edit(cluster, {"metadata": {"annotations": {RESIZE: '{"resources":{"memmory":1}}'}}})
