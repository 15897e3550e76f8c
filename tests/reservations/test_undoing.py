"""A binding that fails gives the reservation back; one that only seemed to fail keeps it."""

import pytest

from holdfast.api.scheme import PODS
from holdfast.testing import Fault, FaultyTransport
from holdfast.testing.harness import Harness
from reservations.rooms import drawn_from, filler, given, held, node, owner, requested, status


class Line:
    """What the components speak through: faults may be put in its way."""

    def __init__(self):
        self.transports = []

    def wrap(self, transport, clock):
        made = FaultyTransport(transport, [], clock=clock)
        self.transports.append(made)
        return made

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
