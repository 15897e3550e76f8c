"""A binding that fails gives the reservation back; one that only seemed to fail keeps it."""

import pytest

from holdfast.api.scheme import PODS, RESERVATIONS
from holdfast.testing import Fault, FaultyTransport
from holdfast.testing.harness import Harness
from reservations.rooms import drawn_from, filler, given, held, node, owner, requested, status

A_LARGE_ONE = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "16"}}}


class Line:
    """What the components speak through: faults may be put in its way."""

    def __init__(self):
        self.transports = []
        self.deaf_to = ()

    def wrap(self, transport, clock):
        made = FaultyTransport(transport, self.at_first, clock=clock)
        self.transports.append(made)
        return made

    @property
    def at_first(self):
        """What is spoiled from the start of a component."""
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
async def test_R068_an_owner_that_is_not_bound_gives_everything_back(faulty, allocate_once):
    await given(faulty, node(), held(cpu="4", allocate_once=allocate_once), filler("12"))
    faulty.line.spoil(trouble="unavailable", times=1000)
    await given(faulty, owner("unlucky", cpu="4"))
    assert await faulty.node_of("unlucky") == ""
    assert await drawn_from(faulty, "unlucky") is None
    assert await status(faulty) == ("Available", {}, [])
    [offer] = faulty.world.offers
    assert (offer.draws, requested(faulty)) == ({}, 16_000)
    await faulty.delete(PODS, "unlucky", "default")
    for transport in faulty.line.transports:
        transport.enabled = False
    await given(faulty, owner("next", cpu="4"))
    assert await drawn_from(faulty, "next") == "r"


async def test_R068_an_owner_whose_binding_was_written_keeps_its_reservation(faulty):
    await given(faulty, node(), held(cpu="4"), filler("12"))
    faulty.line.spoil(trouble="lost")
    await given(faulty, owner(cpu="4"))
    await faulty.advance(5)
    assert await drawn_from(faulty, "owner") == "r"
    assert await status(faulty) == ("Succeeded", {"cpu": "4"}, ["owner"])


async def test_a_reservation_does_not_grow_before_it_is_known_who_stands_there(faulty):
    await given(faulty, node(), held(cpu="4"), filler("12"))
    grown = {"spec": {"template": {"spec": {"containers": [A_LARGE_ONE]}}}}
    await faulty.client.patch(RESERVATIONS, "r", grown)
    await faulty.settle()
    faulty.line.deaf_to = ("/api/v1/pods",)
    await faulty.restart_components()
    await faulty.advance(5)
    assert (await faulty.reservation("r")).status.allocatable == {"cpu": "4"}
    assert requested(faulty) == 16_000
