import asyncio
import random

import pytest

from holdfast.api.scheme import LEASES, PODS
from holdfast.api.timestamps import parse_rfc3339
from holdfast.client.client import Client
from holdfast.client.leader import RAW_LEASES, LeaderElection, LeadershipLost, LeaseTimes
from holdfast.client.transport import LeaseGuardedTransport
from holdfast.runtime.errors import BadConfiguration
from holdfast.testing import Fault, FaultyTransport, a_pod

NS = "kube-system"


class Replica:
    """One candidate with its own faulty transport; ``log`` records when it leads."""

    def __init__(self, name, wire, clock, log):
        self.name, self.clock, self.log = name, clock, log
        self.wire = FaultyTransport(wire, clock=clock)
        self.election = LeaderElection(
            Client(self.wire), clock=clock, identity=name, name="holdfast", namespace=NS,
            rng=random.Random(name),
        )  # fmt: skip
        self.finish = asyncio.Event()
        self.task = None

    def start(self):
        self.task = asyncio.create_task(self.election.run(self.lead))
        return self

    async def lead(self):
        self.log.append(("starts", self.name))
        try:
            await self.finish.wait()
        finally:
            self.log.append(("ends", self.name))

    async def kill(self):
        """Stop without releasing the lease, as in a power failure."""
        self.wire.add(Fault("unavailable", times=10**6))
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture
def log():
    return []


@pytest.fixture
async def pair(wire, clock, log):
    replicas = [Replica(name, wire, clock, log) for name in ("one", "two")]
    yield replicas
    for replica in replicas:
        if replica.task is not None:
            replica.task.cancel()
            await asyncio.gather(replica.task, return_exceptions=True)


async def lease(wire):
    return await Client(wire).get(LEASES, "holdfast", NS)


async def test_the_first_replica_leads_and_renews_and_the_second_waits(pair, wire, clock, log):
    one, two = pair
    one.start()
    await clock.settle()
    two.start()
    await clock.advance(60)
    assert log == [("starts", "one")]
    assert one.election.is_leader and not two.election.is_leader
    assert two.election.leader == "one"
    held = (await lease(wire)).spec
    assert (held.holder_identity, held.lease_duration_seconds) == ("one", 15)
    assert held.lease_transitions == 0
    assert clock.now() - parse_rfc3339(held.renew_time) <= 2.0
    assert len(held.renew_time.partition(".")[2]) == len("000000Z")
    assert parse_rfc3339(held.acquire_time) == clock.now() - 60


async def test_a_released_lease_is_acquired_at_the_next_attempt(pair, wire, clock, log):
    one, two = pair
    one.start()
    await clock.settle()
    two.start()
    await clock.advance(10)
    one.finish.set()
    await clock.settle()
    assert one.task.done() and one.task.exception() is None
    assert (await lease(wire)).spec.holder_identity in ("", None)
    await clock.advance(5)
    assert log == [("starts", "one"), ("ends", "one"), ("starts", "two")]
    assert (await lease(wire)).spec.lease_transitions == 1


async def test_a_lease_that_changed_meanwhile_is_released(pair, wire, clock):
    """A renewal whose response was not awaited may have been stored."""
    one, _ = pair
    one.start()
    await clock.advance(1)
    note = {"metadata": {"annotations": {"a": "b"}}}
    await Client(wire).patch(RAW_LEASES, "holdfast", note, NS)
    one.finish.set()
    await clock.settle()
    assert (await lease(wire)).spec.holder_identity in ("", None)


async def test_the_lease_of_a_dead_leader_is_acquired_when_it_expires(pair, wire, clock, log):
    one, two = pair
    one.start()
    await clock.settle()
    two.start()
    await clock.advance(20)
    await one.kill()
    log.clear()
    await clock.advance(10)
    assert log == []
    await clock.advance(12)
    assert log == [("starts", "two")]
    assert two.election.leader == "two"


async def test_a_disconnected_leader_stops_before_another_starts(pair, clock, log):
    one, two = pair
    one.start()
    await clock.settle()
    two.start()
    await clock.advance(20)
    one.wire.add(Fault("unavailable", times=10**6))
    await clock.advance(60)
    assert log == [("starts", "one"), ("ends", "one"), ("starts", "two")]
    with pytest.raises(LeadershipLost, match="could not be renewed for 10 s"):
        await one.task


async def test_the_lease_is_lost_if_the_server_does_not_respond(pair, clock, log):
    one, two = pair
    one.start()
    await clock.settle()
    two.start()
    await clock.advance(20)
    one.wire.add(Fault("delay", seconds=10**6, times=10**6))
    await clock.advance(60)
    assert log == [("starts", "one"), ("ends", "one"), ("starts", "two")]


async def test_the_lease_survives_a_few_failed_requests(pair, wire, clock, log):
    one, _ = pair
    one.start()
    await clock.advance(5)
    one.wire.add(
        Fault("unavailable", method="PUT", times=2),
        Fault("unavailable_after", method="PUT"),
        Fault("conflict", method="PUT"),
    )
    await clock.advance(30)
    assert log == [("starts", "one")] and one.election.is_leader
    assert (await lease(wire)).spec.lease_transitions == 0


async def test_a_deleted_lease_is_created_again_by_its_holder(pair, wire, clock, log):
    one, _ = pair
    one.start()
    await clock.advance(5)
    await Client(wire).delete(LEASES, "holdfast", NS)
    await clock.advance(10)
    assert log == [("starts", "one")] and one.election.is_leader
    assert (await lease(wire)).spec.holder_identity == "one"


async def test_a_lease_taken_by_another_ends_the_work_at_the_next_renewal(pair, wire, clock, log):
    one, _ = pair
    one.start()
    await clock.advance(5)
    await Client(wire).patch(LEASES, "holdfast", {"spec": {"holderIdentity": "thief"}}, NS)
    await clock.advance(5)
    assert log == [("starts", "one"), ("ends", "one")]
    with pytest.raises(LeadershipLost, match="holder: thief"):
        await one.task


async def test_fields_of_other_clients_in_the_lease_are_kept(pair, wire, clock):
    one, _ = pair
    body = {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "holdfast", "namespace": NS, "labels": {"kept": "yes"}},
        "spec": {},
    }  # fmt: skip
    await Client(wire).create(RAW_LEASES, body, NS)
    one.start()
    await clock.advance(1)
    found = await lease(wire)
    assert found.metadata.labels == {"kept": "yes"} and found.spec.holder_identity == "one"


async def test_failing_work_releases_the_lease_and_raises(wire, clock, log):
    replica = Replica("one", wire, clock, log)

    async def fail():
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        await replica.election.run(fail)
    assert not (await lease(wire)).spec.holder_identity


async def test_a_disconnected_leader_stops_at_the_renew_deadline(pair, clock, log):
    """The ten seconds start when the last successful renewal was sent."""
    one, _ = pair
    one.start()
    await clock.settle()
    await clock.advance(20)  # renewed at 20
    one.wire.add(Fault("unavailable", times=10**6))
    await clock.advance(9.9)
    one.election.check_leadership()
    assert log == [("starts", "one")]
    await clock.advance(0.1)
    with pytest.raises(LeadershipLost):
        one.election.check_leadership()
    assert log == [("starts", "one"), ("ends", "one")]


async def test_check_leadership_passes_only_for_the_holder(pair, clock):
    one, two = pair
    one.start()
    await clock.settle()
    two.start()
    await clock.advance(5)
    one.election.check_leadership()
    with pytest.raises(LeadershipLost, match="holder: one"):
        two.election.check_leadership()
    one.finish.set()
    await clock.settle()
    with pytest.raises(LeadershipLost, match="holder: none"):
        one.election.check_leadership()


async def test_a_write_that_waited_until_the_lease_was_lost_is_not_sent(pair, wire, clock):
    one, _ = pair
    one.start()
    await clock.advance(20)
    client = Client(LeaseGuardedTransport(one.wire, one.election.check_leadership))
    await client.create(PODS, a_pod("in-time"), "default")
    one.wire.add(
        Fault("delay", seconds=14, method="POST", path="pods"),
        Fault("unavailable", path="leases", times=10**6),
    )
    late = asyncio.create_task(client.create(PODS, a_pod("late"), "default"))
    await clock.advance(12)
    refused = asyncio.create_task(client.create(PODS, a_pod("too-late"), "default"))
    await clock.advance(5)
    for task in (late, refused):
        with pytest.raises(LeadershipLost, match="writes are refused"):
            await task
    found = await client.list(PODS, "default")
    assert [pod.name for pod in found.items] == ["in-time"]


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ((10, 10, 2), "leaseDuration must be greater than renewDeadline"),
        ((15, 2, 2), "renewDeadline must be greater than 1.2 times retryPeriod"),
        ((15, 10, 0), "retryPeriod greater than 0"),
    ],
)
def test_inconsistent_times_are_refused(times, words):
    with pytest.raises(BadConfiguration, match=words):
        LeaseTimes(*times)
