"""A failed bind releases the allocation; a bind that only seemed to fail keeps it."""

import pytest

from holdfast.api.scheme import PODS, RESERVATIONS
from holdfast.testing import Fault, FaultyTransport
from holdfast.testing.harness import Harness
from reservations.objects import (
    allocated_from,
    create_each,
    held,
    node,
    owner,
    requested,
    running,
    status,
)

A_LARGE_ONE = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "16"}}}


class Line:
    """The transport of all components, with faults."""

    def __init__(self):
        self.transports = []
        self.deaf_to = ()

    def wrap(self, transport, clock):
        made = FaultyTransport(transport, self.at_first, clock=clock)
        self.transports.append(made)
        return made

    @property
    def at_first(self):
        """The faults that a component has from its start."""
        return [Fault("unavailable", method="GET", path=path) for path in self.deaf_to]

    def spoil(self, **fault):
        for transport in self.transports:
            transport.add(Fault(method="POST", path="/binding", **fault))


@pytest.fixture
async def faulty(tmp_path):
    line = Line()
    async with Harness(tmp_path / "store", wrap=line.wrap) as cluster:
        cluster.line = line
        yield cluster


@pytest.mark.parametrize("allocate_once", [True, False])
async def test_R068_a_failed_bind_releases_the_allocation(faulty, allocate_once):
    await create_each(faulty, node(), held(cpu="4", allocate_once=allocate_once), running("12"))
    faulty.line.spoil(trouble="unavailable", times=1000)
    await create_each(faulty, owner("unlucky", cpu="4"))
    assert await faulty.node_of("unlucky") == ""
    assert await allocated_from(faulty, "unlucky") is None
    assert await status(faulty) == ("Available", {}, [])
    [info] = faulty.world.reservations
    assert (info.allocated_by_pod, requested(faulty)) == ({}, 16_000)
    await faulty.delete(PODS, "unlucky", "default")
    for transport in faulty.line.transports:
        transport.enabled = False
    await create_each(faulty, owner("next", cpu="4"))
    assert await allocated_from(faulty, "next") == "r"


async def test_R068_a_bind_that_was_stored_keeps_the_allocation(faulty):
    await create_each(faulty, node(), held(cpu="4"), running("12"))
    faulty.line.spoil(trouble="lost")
    await create_each(faulty, owner(cpu="4"))
    await faulty.advance(5)
    assert await allocated_from(faulty, "owner") == "r"
    assert await status(faulty) == ("Succeeded", {"cpu": "4"}, ["owner"])


async def test_a_reservation_does_not_grow_before_all_pods_are_read(faulty):
    await create_each(faulty, node(), held(cpu="4"), running("12"))
    grown = {"spec": {"template": {"spec": {"containers": [A_LARGE_ONE]}}}}
    await faulty.client.patch(RESERVATIONS, "r", grown)
    await faulty.settle()
    faulty.line.deaf_to = ("/api/v1/pods",)
    await faulty.restart_components()
    await faulty.advance(5)
    assert (await faulty.reservation("r")).status.allocatable == {"cpu": "4"}
    assert requested(faulty) == 16_000


async def test_an_owner_that_is_being_bound_at_the_end_of_the_ttl_is_recorded(tmp_path):
    fault = Fault("delay", method="POST", path="/pods/owner/binding", seconds=20)

    def spoiled(transport, clock):
        return FaultyTransport(transport, [fault], clock=clock)

    async with Harness(tmp_path / "store", wrap=spoiled) as cluster:
        await create_each(cluster, node(), held(cpu="4", ttl="10s"), owner(cpu="2"))
        await cluster.advance(15)
        assert await status(cluster) == ("Failed", {}, [])
        await cluster.advance(15)
        assert (await allocated_from(cluster, "owner"), await cluster.node_of("owner")) == (
            "r",
            "n1",
        )
        assert await status(cluster) == ("Failed", {"cpu": "2"}, ["owner"])
