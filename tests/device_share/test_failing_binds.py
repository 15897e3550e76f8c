"""Binds of pods and reservations with devices that fail, or only seem to fail."""

import pytest

from device_share.objects import (
    a_device_object,
    a_gpu,
    a_gpu_node,
    a_gpu_pod,
    a_gpu_reservation,
    an_owner,
    devices_of,
    from_reservation,
    reserved,
)
from holdfast.api.scheme import PODS, RESERVATIONS
from holdfast.testing import Fault, FaultyTransport
from holdfast.testing.harness import Harness


@pytest.fixture
async def faulty(tmp_path):
    """A cluster with one GPU; ``spoil`` adds faults to the transport of its components."""
    transports = []

    def wrap(transport, clock):
        transports.append(FaultyTransport(transport, (), clock=clock))
        return transports[-1]

    async with Harness(tmp_path, wrap=wrap) as cluster:
        cluster.spoil = lambda *faults: [t.add(f) for t in transports for f in faults]
        await cluster.create(a_gpu_node(), a_device_object("n", a_gpu(0)))
        yield cluster


@pytest.mark.parametrize(("method", "path"), [("PATCH", "/r"), ("PUT", "/r/status")])
@pytest.mark.parametrize("trouble", ["unavailable", "lost"])
async def test_a_reservation_that_could_not_be_bound_holds_nothing(faulty, method, path, trouble):
    faulty.spoil(Fault(trouble, method=method, path=f"reservations{path}", times=3))
    await faulty.create(a_gpu_reservation("r", 100))
    await faulty.advance(120)
    assert await reserved(faulty, "r") == [("gpu", 0, 100)]
    await faulty.create(a_gpu_pod("other", 50), an_owner("p", 100))
    assert await faulty.node_of("other") == ""
    assert await devices_of(faulty, "p") == [("gpu", 0, 100)]


async def test_a_reservation_that_is_deleted_before_it_is_bound_holds_nothing(faulty):
    faulty.spoil(Fault("unavailable", method="PUT", path="reservations/r/status", times=10_000))
    await faulty.create(a_gpu_reservation("r", 100))
    assert (await faulty.reservation("r")).phase in ("", "Pending")
    await faulty.delete(RESERVATIONS, "r")
    await faulty.create(a_gpu_pod("other", 100))
    await faulty.advance(120)
    assert await devices_of(faulty, "other") == [("gpu", 0, 100)]


async def test_a_restart_before_the_status_is_written_starts_again(faulty):
    """The annotation of a reservation that is not active means nothing."""
    faulty.spoil(Fault("unavailable", method="PUT", path="reservations/r/status", times=10_000))
    await faulty.create(a_gpu_reservation("r", 60))
    assert await reserved(faulty, "r") == [("gpu", 0, 60)]
    async with faulty.components_stopped():
        await faulty.client.delete(RESERVATIONS, "r")
    await faulty.create(a_gpu_pod("other", 100))
    assert await devices_of(faulty, "other") == [("gpu", 0, 100)]


@pytest.mark.parametrize("trouble", ["unavailable", "lost"])
async def test_an_owner_whose_bind_failed_gives_back_to_the_reservation(faulty, trouble):
    await faulty.create(a_gpu_reservation("r", 100, allocate_once=False))
    faulty.spoil(Fault(trouble, method="POST", path="/a/binding", times=2))
    await faulty.create(an_owner("a", 60), a_gpu_pod("stranger", 40))
    await faulty.advance(120)
    assert await devices_of(faulty, "a") == [("gpu", 0, 60)]
    assert await from_reservation(faulty, "a") == "r"
    await faulty.delete(PODS, "stranger", "default")
    await faulty.create(an_owner("b", 40))
    assert await devices_of(faulty, "b") == [("gpu", 0, 40)]
