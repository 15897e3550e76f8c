import asyncio
import random

import pytest

from holdfast.api.meta import ObjectReference
from holdfast.api.scheme import EVENTS, NODES, PODS
from holdfast.client.client import Client
from holdfast.client.events import MAX_ATTEMPTS, EventRecorder, object_reference
from holdfast.testing import Chances, Fault, FaultyTransport, a_node, a_pod, typed

POD = typed(a_pod("web"))


@pytest.fixture
def faulty(wire, clock):
    return FaultyTransport(wire, clock=clock, rng=random.Random(3))


@pytest.fixture
async def recorder(faulty, clock):
    made = EventRecorder(Client(faulty), clock, component="default-scheduler", instance="host-1")
    made.start()
    yield made
    await made.stop()


async def stored(wire, namespace="default"):
    return list((await Client(wire).list(EVENTS, namespace)).items)


async def test_an_event_has_all_fields(recorder, wire, clock):
    recorder.record(POD, "Normal", "Scheduled", "Successfully assigned", action="Binding")
    await clock.settle()
    (event,) = await stored(wire)
    about = event.involved_object
    assert (about.kind, about.api_version, about.name, about.uid) == ("Pod", "v1", "web", POD.uid)
    assert (event.type, event.reason, event.action) == ("Normal", "Scheduled", "Binding")
    assert event.message == "Successfully assigned" and event.count == 1
    assert event.source.component == event.reporting_component == "default-scheduler"
    assert event.reporting_instance == "host-1"
    assert event.first_timestamp == event.last_timestamp == "2023-11-14T22:13:20Z"
    assert event.name.startswith("web.")


async def test_invalid_characters_of_a_message_are_replaced(recorder, wire, clock):
    recorder.record(POD, "Warning", "FailedScheduling", 'half \ud83d "quoted" \x00 é')
    await clock.settle()
    assert [e.message for e in await stored(wire)] == ['half ? "quoted" \x00 é']


async def test_repetitions_increase_the_count_of_the_stored_event(recorder, wire, clock):
    for _ in range(3):
        recorder.record(POD, "Warning", "FailedScheduling", "0/1 nodes are available")
        await clock.advance(60)
    recorder.record(POD, "Warning", "FailedScheduling", "0/2 nodes are available")
    await clock.settle()
    first, other = sorted(await stored(wire), key=lambda e: e.message)
    assert (first.count, other.count) == (3, 1)
    assert first.first_timestamp == "2023-11-14T22:13:20Z"
    assert first.last_timestamp == "2023-11-14T22:15:20Z"


async def test_repetitions_in_a_burst_are_one_write(recorder, wire, clock, faulty):
    calls = []
    send = faulty.inner.send

    async def counted(request):
        calls.append(request.method)
        return await send(request)

    faulty.inner.send = counted
    for _ in range(50):
        recorder.record(POD, "Warning", "FailedScheduling", "no")
    await clock.settle()
    assert [e.count for e in await stored(wire)] == [50]
    assert calls.count("POST") == 1 and calls.count("PATCH") <= 1


async def test_after_many_repetitions_the_count_is_written_once_a_minute(
    recorder, wire, clock, faulty
):
    async def told():
        return [e.count for e in await stored(wire)]

    for n in range(1, 31):
        recorder.record(POD, "Warning", "FailedScheduling", "no")
        await clock.advance(1)
        assert await told() == [min(n, 10)]
    await clock.advance(50)
    assert await told() == [30]
    recorder.record(POD, "Warning", "FailedScheduling", "no")
    await clock.settle()
    assert await told() == [30]
    await recorder.stop()
    assert await told() == [31]


async def test_an_event_about_a_cluster_scoped_object_is_in_the_default_namespace(
    recorder, wire, clock
):
    related = ObjectReference(kind="Pod", name="web", namespace="default")
    recorder.record(typed(a_node("n")), "Normal", "RegisteredNode", "hello", related=related)
    await clock.settle()
    (event,) = await stored(wire)
    assert event.involved_object.kind == "Node" and event.related.name == "web"


async def test_failed_writes_are_retried_and_nothing_is_stored_twice(recorder, wire, clock, faulty):
    faulty.add(
        Fault("unavailable", method="POST"),
        Fault("unavailable_after", method="POST"),
        Fault("lost", method="PATCH"),
    )
    recorder.record(POD, "Normal", "Scheduled", "ok")
    await clock.advance(10)
    recorder.record(POD, "Normal", "Scheduled", "ok")
    await clock.advance(10)
    assert [e.count for e in await stored(wire)] == [2]
    assert len(faulty.injected_faults) == 3


async def test_an_event_that_cannot_be_written_is_dropped_with_a_log_line(
    recorder, wire, clock, faulty, caplog
):
    faulty.add(Fault("unavailable", method="POST", times=MAX_ATTEMPTS))
    recorder.record(POD, "Normal", "Scheduled", "ok")
    await clock.advance(60)
    assert await stored(wire) == []
    assert "event Scheduled about Pod web dropped" in caplog.text
    assert len(faulty.injected_faults) == MAX_ATTEMPTS


async def test_a_refused_event_is_not_retried(recorder, wire, clock, faulty, caplog):
    nowhere = typed(a_pod("web", namespace="no-such-namespace"))
    recorder.record(nowhere, "Normal", "Scheduled", "ok")
    await clock.settle()
    assert "dropped" in caplog.text


async def test_an_expired_event_is_created_again(recorder, wire, clock):
    recorder.record(POD, "Normal", "Pulled", "again")
    await clock.settle()
    (event,) = await stored(wire)
    await Client(wire).delete(EVENTS, event.name, "default")
    recorder.record(POD, "Normal", "Pulled", "again")
    await clock.settle()
    assert [e.count for e in await stored(wire)] == [2]


async def test_stopping_writes_pending_events(wire, clock):
    recorder = EventRecorder(Client(wire), clock)
    for n in range(30):
        recorder.record(POD, "Normal", "Scheduled", f"message {n}")
    recorder.start()
    await recorder.stop()
    assert len(await stored(wire)) == 30


async def test_stopping_gives_up_on_a_server_that_does_not_respond(wire, clock, faulty, caplog):
    recorder = EventRecorder(Client(faulty), clock)
    recorder.start()
    faulty.add(Fault("delay", seconds=10**6, times=10**6))
    for n in range(3):
        recorder.record(POD, "Normal", "Scheduled", f"message {n}")
    stopping = asyncio.create_task(recorder.stop())
    await clock.advance(5)
    assert stopping.done()


async def test_under_random_faults_every_event_is_counted_once(wire, clock):
    chances = Chances(unavailable=0.05, unavailable_after=0.05, lost=0.05, conflict=0.05)
    faulty = FaultyTransport(wire, chances=chances, rng=random.Random(11), clock=clock)
    recorder = EventRecorder(Client(faulty), clock)
    recorder.start()
    rng = random.Random(5)
    expected = {}
    for _ in range(200):
        message = f"m{rng.randrange(20)}"
        expected[message] = expected.get(message, 0) + 1
        recorder.record(POD, "Normal", "Pulled", message)
        if rng.random() < 0.3:
            await clock.advance(0.1)
    faulty.enabled = False
    await clock.advance(60)
    assert {e.message: e.count for e in await stored(wire)} == expected
    await recorder.stop()


def test_a_reference_takes_the_kind_from_the_type_if_a_list_omits_it():
    raw = a_pod("p", metadata={"uid": "u"})
    pod = typed({**raw, "metadata": raw["metadata"]})
    bare = PODS.type(metadata=pod.metadata)
    assert (object_reference(bare).kind, object_reference(bare).api_version) == ("Pod", "v1")
    assert object_reference(NODES.type(metadata=pod.metadata)).kind == "Node"
