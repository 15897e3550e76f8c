"""The calls of event handlers under broken watches, failing servers and invalid objects."""

import asyncio
import itertools
import logging
import random

import msgspec
import pytest

from client.recording_handler import RecordingHandler
from client.transport_suite import CONFIG_MAPS, NUMBERED, a_config, a_lease
from holdfast.api.node import LeaseSpec
from holdfast.api.scheme import LEASES
from holdfast.client.client import Client
from holdfast.client.informer import Informer
from holdfast.client.informer_set import InformerSet
from holdfast.runtime.errors import Unavailable
from holdfast.testing import Fault, FaultyTransport

NS = "default"


class Scene:
    """An informer over a faulty transport, and a client that writes without faults."""

    def __init__(self, wire, clock, resource=LEASES, **scope):
        self.clock = clock
        self.wire = FaultyTransport(wire, clock=clock)
        self.writer = Client(wire)
        self.record = RecordingHandler()
        self.informer = Informer(
            Client(self.wire), resource, clock=clock, namespace=NS, rng=random.Random(7),
            on_event=self.record, **scope,
        )  # fmt: skip

    async def put(self, name, holder="me"):
        await self.writer.create(LEASES, a_lease(name, NS, holder), NS)

    async def change(self, name, holder):
        await self.writer.patch(LEASES, name, {"spec": {"holderIdentity": holder}}, NS)

    async def drop(self, name):
        await self.writer.delete(LEASES, name, NS)

    async def reported(self):
        await self.clock.settle()
        assert dict(self.informer.cache) == self.record.replayed
        return self.record.take()


@pytest.fixture
async def scene(wire, clock):
    made = Scene(wire, clock)
    yield made
    await made.informer.stop()


async def test_existing_objects_are_reported_before_sync_and_changes_after(scene):
    await scene.put("a")
    await scene.put("b")
    scene.informer.start()
    await scene.informer.wait_for_sync()
    assert scene.record.take() == [("added", "a"), ("added", "b")]
    await scene.change("a", "you")
    await scene.put("c")
    await scene.drop("b")
    assert await scene.reported() == [("modified", "a"), ("added", "c"), ("deleted", "b")]
    assert sorted(scene.informer.cache) == ["default/a", "default/c"]
    assert scene.informer.cache["default/a"].spec.holder_identity == "you"


async def test_an_empty_collection_syncs(scene):
    scene.informer.start()
    await scene.informer.wait_for_sync()
    assert await scene.reported() == [] and scene.informer.has_synced


@pytest.mark.parametrize("fault", ["cut", "torn", "ended"])
async def test_a_broken_watch_resumes_without_missing_or_repeated_events(scene, fault):
    await scene.put("a")
    # The initial object and its bookmark, one live event, then the fault.
    scene.wire.add(Fault(fault, lines=3, watch=True))
    scene.informer.start()
    await scene.informer.wait_for_sync()
    for name in ("b", "c", "d"):
        await scene.put(name)
    await scene.change("b", "you")
    await scene.clock.advance(5)
    assert await scene.reported() == [
        ("added", "a"), ("added", "b"), ("added", "c"), ("added", "d"), ("modified", "b"),
    ]  # fmt: skip
    assert [kind for kind, *_ in scene.wire.injected_faults] == [fault]


async def test_a_watch_broken_during_the_initial_events_starts_again(scene):
    for name in ("a", "b", "c"):
        await scene.put(name)
    scene.wire.add(Fault("cut", lines=2, watch=True))
    scene.informer.start()
    await scene.clock.settle()
    assert not scene.informer.has_synced and scene.record.events == []
    await scene.clock.advance(5)
    assert await scene.reported() == [("added", "a"), ("added", "b"), ("added", "c")]


async def test_after_410_only_the_differences_are_reported(scene, embedded):
    for name in ("stays", "changes", "goes", "reborn"):
        await scene.put(name)
    scene.informer.start()
    await scene.informer.wait_for_sync()
    scene.record.take()
    # The watch breaks; objects change while it is down, and the history is compacted.
    scene.wire.add(Fault("unavailable", watch=True, times=3))
    for watching in tuple(embedded.server.context.watches):
        watching.close()
    await scene.clock.settle()
    await scene.change("changes", "you")
    await scene.change("changes", "them")
    await scene.drop("goes")
    await scene.drop("reborn")
    await scene.put("reborn", "another")
    await scene.put("new")
    await scene.put("briefly")
    await scene.drop("briefly")
    assert await scene.reported() == []
    await embedded.store.compact(scene.clock.now() + 1000)
    await scene.clock.advance(10)
    assert await scene.reported() == [
        ("deleted", "goes"), ("modified", "changes"), ("added", "new"),
        ("deleted", "reborn"), ("added", "reborn"),
    ]  # fmt: skip
    assert scene.informer.cache["default/reborn"].spec.holder_identity == "another"
    await scene.put("live")
    assert await scene.reported() == [("added", "live")]


async def test_an_expected_object_that_no_list_shows_is_reported_as_deleted(scene, embedded):
    """Its events are compacted; what a response gave to the handlers must not stay there."""
    await scene.put("reborn")
    scene.informer.start()
    await scene.informer.wait_for_sync()
    scene.record.take()
    scene.wire.add(Fault("unavailable", watch=True, times=3))
    for watching in tuple(embedded.server.context.watches):
        watching.close()
    await scene.clock.settle()
    await scene.drop("reborn")
    for name in ("briefly", "stays", "reborn"):
        stored = await scene.writer.create(LEASES, a_lease(name, NS, "me"), NS)
        assert scene.informer.expect(stored)
    for name in ("briefly", "reborn"):
        await scene.drop(name)
    await embedded.store.compact(scene.clock.now() + 1000)
    await scene.clock.advance(10)
    deleted = [("deleted", "reborn"), ("deleted", "briefly"), ("deleted", "reborn")]
    assert await scene.reported() == [*deleted, ("added", "stays")]


@pytest.mark.parametrize("more", [10, 40])
async def test_many_expected_objects_are_forgotten_only_when_their_events_have_come(
    scene, embedded, monkeypatch, more
):
    """Those whose events have come must not be reported as deleted again, the others must."""
    monkeypatch.setattr("holdfast.client.informer.FEW_EXPECTED", 2)
    scene.informer.start()
    await scene.informer.wait_for_sync()

    async def expect_and_drop_without_watch(names):
        scene.wire.add(Fault("unavailable", watch=True, times=3))
        for watching in tuple(embedded.server.context.watches):
            watching.close()
        await scene.clock.settle()
        for name in names:
            stored = await scene.writer.create(LEASES, a_lease(name, NS, "me"), NS)
            assert scene.informer.expect(stored)
        for name in names:
            await scene.drop(name)

    seen, unseen = [f"seen-{i}" for i in range(40)], [f"unseen-{i}" for i in range(more)]
    await expect_and_drop_without_watch(seen)
    await scene.clock.advance(10)
    assert len(await scene.reported()) == 2 * len(seen)
    await expect_and_drop_without_watch(unseen)
    await embedded.store.compact(scene.clock.now() + 1000)
    await scene.clock.advance(10)
    assert await scene.reported() == [("deleted", name) for name in unseen]


async def test_a_response_of_a_deleted_object_is_not_expected(scene):
    scene.informer.start()
    await scene.informer.wait_for_sync()
    stored = await scene.writer.create(LEASES, a_lease("briefly", NS, "me"), NS)
    await scene.drop("briefly")
    assert await scene.reported() == [("added", "briefly"), ("deleted", "briefly")]
    assert not scene.informer.expect(stored)


async def test_an_error_event_410_causes_a_relist_at_once(scene):
    await scene.put("a")
    scene.wire.add(Fault("expired", lines=3, watch=True))
    scene.informer.start()
    await scene.informer.wait_for_sync()
    await scene.put("b")
    await scene.put("c")
    assert await scene.reported() == [("added", "a"), ("added", "b"), ("added", "c")]
    assert scene.clock.monotonic() == 0


async def test_a_recreated_object_is_reported_as_deleted_and_added(scene):
    await scene.put("a")
    scene.informer.start()
    await scene.informer.wait_for_sync()
    await scene.drop("a")
    await scene.put("a", "another")
    assert await scene.reported() == [("added", "a"), ("deleted", "a"), ("added", "a")]


async def test_the_watch_continues_after_a_server_restart(scene, embedded):
    await scene.put("a")
    scene.informer.start()
    await scene.informer.wait_for_sync()
    await embedded.stop()
    await scene.clock.advance(20)
    assert await scene.reported() == [("added", "a")]
    await embedded.start()
    await scene.put("b")
    await scene.clock.advance(60)
    assert await scene.reported() == [("added", "b")]


async def test_a_server_restarted_with_an_empty_store_is_listed_again(scene, embedded, tmp_path):
    for name in ("a", "b", "c"):
        await scene.put(name)
    scene.informer.start()
    await scene.informer.wait_for_sync()
    await embedded.stop()
    embedded.directory = tmp_path / "elsewhere"
    await embedded.start()
    await scene.put("b")
    await scene.clock.advance(120)
    assert sorted(await scene.reported()) == [
        ("added", "a"), ("added", "b"), ("added", "b"), ("added", "c"),
        ("deleted", "a"), ("deleted", "b"), ("deleted", "c"),
    ]  # fmt: skip


async def test_the_delay_between_attempts_grows(scene):
    scene.wire.add(Fault("unavailable", watch=True, times=6))
    scene.informer.start()
    times = []
    for _ in range(6):
        await scene.clock.settle()
        times.append(scene.clock.monotonic())
        attempts = len(scene.wire.injected_faults)
        await scene.clock.advance_until(
            lambda n=attempts: len(scene.wire.injected_faults) > n or scene.informer.has_synced
        )
    waits = [later - earlier for earlier, later in itertools.pairwise(times)]
    bounds = [0.25, 0.5, 1.0, 2.0, 4.0]
    assert all(low <= wait <= 2 * low for wait, low in zip(waits, bounds, strict=True)), waits
    assert scene.informer.has_synced


async def test_a_server_without_streaming_lists_is_listed_in_pages(scene, monkeypatch):
    monkeypatch.setattr("holdfast.client.informer.PAGE_SIZE", 2)
    refuse_streaming_lists(scene)
    for name in ("a", "b", "c", "d", "e"):
        await scene.put(name)
    scene.informer.start()
    await scene.clock.advance(1)
    assert [name for _, name in await scene.reported()] == ["a", "b", "c", "d", "e"]
    await scene.drop("c")
    assert await scene.reported() == [("deleted", "c")]


@pytest.mark.parametrize("streams", [True, False])
async def test_the_transformed_object_is_cached_and_passed_to_handlers(scene, streams):
    def unheld(lease):
        return msgspec.structs.replace(lease, spec=LeaseSpec())

    if not streams:
        refuse_streaming_lists(scene)
    scene.informer.transform = unheld
    await scene.put("a")
    scene.informer.start()
    await scene.clock.advance(1)
    await scene.put("b")
    await scene.change("a", "you")
    assert await scene.reported() == [("added", "a"), ("added", "b"), ("modified", "a")]
    assert [lease.spec for lease in scene.informer.cache.values()] == [LeaseSpec(), LeaseSpec()]


async def test_a_selector_limits_the_reported_objects(wire, clock):
    scene = Scene(wire, clock, CONFIG_MAPS, labels="on=yes")
    changes = []
    scene.informer._dispatcher._handlers = [lambda kind, old, new: changes.append(kind)]
    scene.informer.start()
    await scene.informer.wait_for_sync()
    await scene.writer.create(CONFIG_MAPS, a_config("c", NS, labels={"on": "yes"}), NS)
    for on in ("no", "yes"):
        await scene.writer.patch(CONFIG_MAPS, "c", {"metadata": {"labels": {"on": on}}}, NS)
    await clock.settle()
    assert changes == ["added", "deleted", "added"]
    assert list(scene.informer.cache) == ["default/c"]
    await scene.informer.stop()


async def test_an_unreadable_object_is_logged_once_and_skipped(wire, clock, caplog):
    scene = Scene(wire, clock, NUMBERED)
    writer = scene.writer

    async def put(name, value):
        await writer.create(CONFIG_MAPS, a_config(name, NS, n=value), NS)

    async def change(name, value):
        await writer.patch(CONFIG_MAPS, name, {"data": {"n": value}}, NS)

    await put("bad", "many")
    await put("good", "1")
    caplog.set_level(logging.ERROR)
    scene.informer.start()
    await scene.informer.wait_for_sync()
    assert await scene.reported() == [("added", "good")]
    await change("bad", "more")
    await change("good", "2")
    assert await scene.reported() == [("modified", "good")]
    errors = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert len(errors) == 1 and '"default/bad"' in errors[0] and "data" in errors[0]
    await change("bad", "3")
    assert await scene.reported() == [("added", "bad")]
    # The last readable version stays cached until the object is deleted.
    await change("good", "none")
    assert await scene.reported() == [] and scene.informer.cache["default/good"].data == {"n": 2}
    await writer.delete(CONFIG_MAPS, "good", NS)
    assert await scene.reported() == [("deleted", "good")]
    await scene.informer.stop()


async def test_the_last_readable_version_survives_a_relist_if_the_uid_is_the_same(
    wire, clock, embedded
):
    scene = Scene(wire, clock, NUMBERED)
    for name in ("same", "other"):
        await scene.writer.create(CONFIG_MAPS, a_config(name, NS, n="1"), NS)
    scene.informer.start()
    await scene.informer.wait_for_sync()
    scene.record.take()
    scene.wire.add(Fault("unavailable", watch=True, times=3))
    for watching in tuple(embedded.server.context.watches):
        watching.close()
    await clock.settle()
    await scene.writer.patch(CONFIG_MAPS, "same", {"data": {"n": "many"}}, NS)
    await scene.writer.delete(CONFIG_MAPS, "other", NS)
    await scene.writer.create(CONFIG_MAPS, a_config("other", NS, n="many"), NS)
    await embedded.store.compact(clock.now() + 1000)
    await clock.advance(10)
    assert await scene.reported() == [("deleted", "other")]
    assert list(scene.informer.cache) == ["default/same"]
    await scene.informer.stop()


async def test_a_handler_added_late_is_called_for_cached_objects(scene):
    await scene.put("a")
    scene.informer.start()
    await scene.informer.wait_for_sync()
    late = RecordingHandler()
    scene.informer.add_handler(late)
    await scene.put("b")
    await scene.clock.settle()
    assert late.events == [("added", "a"), ("added", "b")]


@pytest.mark.parametrize(
    ("bug", "category", "message"),
    [
        (ValueError("a bug"), "failed", "an event handler failed"),
        (AssertionError("a broken invariant"), "failed", "an event handler failed"),
        (Unavailable("not the server's fault"), "refused", "not the server's fault"),
    ],
)
async def test_a_handler_that_raises_is_called_for_the_next_object(
    scene, bug, category, message, caplog
):
    """The other objects and the other handlers are not affected."""
    told = []

    def broken(_kind, _old, new):
        if new.name == "odd":
            raise bug
        told.append(new.name)

    scene.informer.add_handler(broken)
    for name in ("a", "odd", "b"):
        await scene.put(name)
    scene.informer.start()
    await scene.informer.wait_for_sync()
    await scene.change("odd", "you")
    await scene.put("c")
    await scene.clock.settle()
    assert told == ["a", "b", "c"]
    assert scene.record.replayed == dict(scene.informer.cache)
    assert scene.informer.error_counts == {category: 2}
    assert f"leases {NS}/odd: {message}" in caplog.text
    late = []
    scene.informer.add_handler(lambda _kind, _old, new: late.append(1 / (new.name != "odd")))
    assert (late, scene.informer.error_counts["failed"]) == (
        [1.0] * 3,
        1 + 2 * (category == "failed"),
    )


async def test_an_exception_of_on_unreadable_is_counted(scene, caplog):
    def broken(_unreadable):
        raise ValueError("a bug")

    numbers = Scene(scene.wire.inner, scene.clock, resource=NUMBERED)
    numbers.informer.on_unreadable = broken
    await numbers.writer.create(CONFIG_MAPS, a_config("odd", NS, n="one"), NS)
    numbers.informer.start()
    await numbers.informer.wait_for_sync()
    assert numbers.informer.error_counts == {"unreadable": 1, "failed": 1}
    assert f"configmaps {NS}/odd: an event handler failed" in caplog.text
    await numbers.informer.stop()


async def test_an_informer_that_fails_logs_and_raises(scene, monkeypatch, caplog):
    await scene.put("a")
    monkeypatch.setattr(scene.informer._objects, "replace", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        await scene.informer.run()
    with pytest.raises(ZeroDivisionError):
        await scene.informer.wait_for_sync()
    assert "leases: the informer has failed" in caplog.text


async def test_stopping_ends_run_and_cancelling_run_cancels_it(scene, wire, clock):
    running = asyncio.create_task(scene.informer.run())
    await scene.informer.wait_for_sync()
    await scene.informer.stop()
    await running
    other = Scene(wire, clock).informer
    running = asyncio.create_task(other.run())
    await other.wait_for_sync()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_stopping_before_the_sync_is_an_error(scene):
    scene.wire.add(Fault("unavailable", times=100))
    scene.informer.start()
    waiting = asyncio.create_task(scene.informer.wait_for_sync())
    await scene.clock.settle()
    await scene.informer.stop()
    with pytest.raises(Unavailable, match="leases was stopped"):
        await waiting


async def test_many_events_do_not_block_the_event_loop(scene):
    """The informer yields to the event loop after a few milliseconds of events."""
    await asyncio.gather(*(scene.put(f"l{n}") for n in range(300)))
    gaps, seen = [], 0

    async def neighbour():
        nonlocal seen
        while not scene.informer.has_synced:
            await asyncio.sleep(0)
            gaps.append(len(scene.record.events) - seen)
            seen = len(scene.record.events)

    beside = asyncio.create_task(neighbour())
    slow = scene.informer._dispatcher._handlers[0]
    scene.informer._dispatcher._handlers = [lambda *change: (busy(0.0005), slow(*change))]
    scene.informer.start()
    await beside
    assert sum(gaps) == 300 and max(gaps) < 50


def busy(seconds):
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while loop.time() < until:
        pass


async def test_a_set_shares_starts_and_stops_its_informers(wire, clock):
    informers = InformerSet(Client(wire), clock=clock)
    leases = informers.get(LEASES, namespace=NS)
    assert informers.get(LEASES, namespace=NS) is leases
    assert informers.get(LEASES, namespace="kube-system") is not leases
    record = RecordingHandler()
    leases.add_handler(record)
    await Client(wire).create(LEASES, a_lease("a", NS), NS)
    async with informers:
        assert record.events == [("added", "a")] and leases.has_synced
    await Client(wire).create(LEASES, a_lease("b", NS), NS)
    await clock.settle()
    assert record.events == [("added", "a")]


async def test_a_set_counts_errors_and_fails_with_its_informers(wire, clock, monkeypatch):
    informers = InformerSet(Client(wire), clock=clock)
    assert not informers.has_synced
    informers.get(CONFIG_MAPS, namespace=NS)
    leases = informers.get(LEASES, namespace=NS)
    leases.add_handler(lambda *change: 1 / 0)
    running = asyncio.create_task(informers.run())
    await clock.settle()
    assert informers.has_synced
    await Client(wire).create(LEASES, a_lease("a", NS), NS)
    await clock.settle()
    assert informers.error_counts() == {("leases", "failed"): 1}
    monkeypatch.setattr(leases._objects, "put", lambda *_: 1 / 0)
    await Client(wire).create(LEASES, a_lease("b", NS), NS)
    with pytest.raises(ZeroDivisionError):
        await running


def refuse_streaming_lists(scene):
    """Respond to sendInitialEvents like a server with that feature disabled."""
    inner = scene.wire.inner

    class Old:
        send, close = inner.send, inner.close

        @staticmethod
        def stream(request):
            if "sendInitialEvents" in request.query:
                query = dict(request.query)
                del query["resourceVersionMatch"]
                request = type(request)(
                    request.method, request.path, query, request.headers, request.body
                )
            return inner.stream(request)

    scene.wire.inner = Old()
