"""After any writes and faults the cache equals the server, and the handler calls reproduce it."""

import random
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from client.embedded_server import Embedded, Wire
from client.recording_handler import RecordingHandler
from client.transport_suite import a_lease
from holdfast.api.scheme import LEASES
from holdfast.client.client import Client
from holdfast.client.informer import Informer
from holdfast.testing import Chances, FaultyTransport, VirtualClock
from soak_size import law

NAMES = "abcde"
FAULTS = Chances(
    unavailable=0.1, expired=0.1, cut=0.2, torn=0.1, ended=0.1, delay=0.1, lines=4, seconds=0.5
)


async def step(rng, embedded, writer):
    """Restart, compact or disconnect the server, let time pass, or write an object."""
    name, choice = rng.choice(NAMES), rng.random()
    match choice:
        case _ if choice < 0.04:
            await embedded.stop()
            await embedded.clock.advance(rng.choice((0.1, 5)))
            await embedded.start()
        case _ if choice < 0.10:
            await embedded.store.compact(embedded.clock.now() + 1000)
        case _ if choice < 0.16:
            for watching in tuple(embedded.server.context.watches):
                watching.close()
        case _ if choice < 0.36:
            await embedded.clock.advance(rng.random())
        case _:
            await write(rng, writer, name)


async def write(rng, writer, name):
    listing = await writer.list(LEASES, "default")
    if name not in {lease.name for lease in listing.items}:
        await writer.create(LEASES, a_lease(name, "default"), "default")
    elif rng.random() < 0.4:
        await writer.delete(LEASES, name, "default")
        if rng.random() < 0.5:
            await writer.create(LEASES, a_lease(name, "default", "reborn"), "default")
    else:
        holder = {"spec": {"holderIdentity": str(rng.random())}}
        await writer.patch(LEASES, name, holder, "default")


@law(12)
@given(seed=st.integers(0, 2**32 - 1))
async def test_the_cache_converges_after_any_writes_and_faults(seed):
    rng, clock, record = random.Random(seed), VirtualClock(), RecordingHandler()
    with tempfile.TemporaryDirectory() as directory:
        embedded = Embedded(Path(directory), clock)
        clock.busy.append(lambda: embedded.busy)
        await embedded.start()
        wire = Wire(embedded)
        faulty = FaultyTransport(wire, chances=FAULTS, rng=rng, clock=clock)
        informer = Informer(
            Client(faulty), LEASES, clock=clock, namespace="default", rng=rng, on_event=record
        )
        informer.start()
        for _ in range(60):
            await step(rng, embedded, Client(wire))
            assert dict(informer.cache) == record.replayed
        faulty.enabled = False
        await clock.advance(120)
        truth = (await Client(wire).list(LEASES, "default")).items
        assert dict(informer.cache) == {lease.key: lease for lease in truth}
        assert record.replayed == dict(informer.cache)
        await informer.stop()
        await embedded.stop()
