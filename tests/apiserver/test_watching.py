import asyncio
from contextlib import AsyncExitStack

import pytest

from apiserver.sample_objects import CONFIGMAPS, PODS, configmap, labelled, pod
from apiserver.server_fixture import start_server
from holdfast.client.transport import Request
from holdfast.server.store import Retention
from holdfast.server.user import ADMIN
from holdfast.server.verbs.watch import BATCH_BYTES
from holdfast.testing.clock import VirtualClock


async def version(api):
    return (await api.call("GET", PODS)).json["metadata"]["resourceVersion"]


def brief(events):
    return [(e["type"], e["object"]["metadata"]["name"]) for e in events]


async def test_A026_a_watch_replays_exactly_the_events_after_its_version_also_after_a_restart(
    tmp_path,
):
    async with start_server(tmp_path) as api:
        await api.create(PODS, pod("before"))
        start = await version(api)
        await api.create(PODS, pod("one"))
        await api.create(CONFIGMAPS, configmap("other"))
        await api.call("DELETE", f"{PODS}/before")
        async with api.watch(PODS, resourceVersion=start) as w:
            first = await w.take(2)
    assert brief(first) == [("ADDED", "one"), ("DELETED", "before")]
    async with start_server(tmp_path) as api, api.watch(PODS, resourceVersion=start) as w:
        assert await w.take(2) == first
        await api.create(PODS, pod("two"))
        assert brief(await w.take(1)) == [("ADDED", "two")]


async def test_A028_a_streaming_list_sends_the_initial_events_a_bookmark_then_new_events(api):
    for name in ("a", "b"):
        await api.create(PODS, pod(name))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan",
             "allowWatchBookmarks": "true"}  # fmt: skip
    async with api.watch(PODS, **query) as w:
        assert brief(await w.take(2)) == [("ADDED", "a"), ("ADDED", "b")]
        mark = await w.next()
        assert mark["type"] == "BOOKMARK"
        assert mark["object"] == {
            "kind": "Pod", "apiVersion": "v1",
            "metadata": {
                "resourceVersion": await version(api),
                "annotations": {"k8s.io/initial-events-end": "true"},
            },
        }  # fmt: skip
        await api.create(PODS, pod("c"))
        assert brief(await w.take(1)) == [("ADDED", "c")]


async def test_A028_a_streaming_list_without_resource_version_match_is_rejected(api):
    answer = await api.call("GET", PODS, watch="true", sendInitialEvents="true")
    assert answer.status == 422
    assert answer.json["message"] == (
        'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
        "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    )


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"resourceVersionMatch": "NotOlderThan"}, 422),
        ({"resourceVersion": "x"}, 400),
        ({"resourceVersion": "999999"}, 504),
        ({"fieldSelector": "spec.foo=1"}, 400),
        ({"labelSelector": "a in"}, 400),
    ],
)
async def test_a_watch_with_invalid_options_is_rejected(api, query, status):
    assert (await api.call("GET", PODS, watch="true", **query)).status == status


async def test_without_a_version_the_initial_events_come_first(api):
    await api.create(PODS, pod("a"))
    async with api.watch(PODS) as w:
        assert brief(await w.take(1)) == [("ADDED", "a")]
        await api.call("DELETE", f"{PODS}/a")
        assert brief(await w.take(1)) == [("DELETED", "a")]


async def test_an_object_that_stops_matching_is_deleted_and_one_that_starts_is_added(api):
    await api.create(PODS, labelled("a", app="x"))
    merge = {"content-type": "application/merge-patch+json"}
    async with api.watch(PODS, labelSelector="app=x", resourceVersion=await version(api)) as w:
        for label in ("y", "x", "x2"):
            change = {"metadata": {"labels": {"app": label}}}
            await api.call("PATCH", f"{PODS}/a", change, headers=merge)
        await api.create(PODS, labelled("other", app="y"))
        await api.create(PODS, labelled("last", app="x"))
        assert brief(await w.take(4)) == [
            ("DELETED", "a"), ("ADDED", "a"), ("DELETED", "a"), ("ADDED", "last"),
        ]  # fmt: skip


async def test_a_watch_by_node_name_gets_pods_when_they_are_bound(api):
    await api.create(PODS, pod("a"))
    start = await version(api)
    async with api.watch(
        "/api/v1/pods", fieldSelector="spec.nodeName=n1", resourceVersion=start
    ) as w:
        target = {"metadata": {"name": "a"}, "target": {"name": "n1"}}
        assert (await api.call("POST", f"{PODS}/a/binding", target)).status == 201
        assert brief(await w.take(1)) == [("ADDED", "a")]


async def test_compacted_history_is_a_410(tmp_path):
    async with start_server(tmp_path, retention=Retention(seconds=0, min_events=1)) as api:
        await api.create(PODS, pod("a"))
        for name in ("b", "c", "d"):
            await api.create(PODS, pod(name))
        await api.store.compact()
        answer = await api.call("GET", PODS, watch="true", resourceVersion="1")
        assert (answer.status, answer.json["reason"]) == (410, "Expired")


async def test_A031_an_idle_watch_gets_bookmarks_and_ends_at_its_timeout(tmp_path):
    clock = VirtualClock()
    async with (
        start_server(tmp_path, clock=clock) as api,
        api.watch(PODS, resourceVersion="0", allowWatchBookmarks="true", timeoutSeconds="90") as w,
    ):
        reading = asyncio.create_task(w.next())
        await clock.advance(60)
        event = await reading
        assert event["type"] == "BOOKMARK"
        assert event["object"]["metadata"]["resourceVersion"] == str(api.store.revision)
        reading = asyncio.create_task(w.next())
        await clock.advance(30)
        assert (await reading)["type"] == "BOOKMARK"
        assert await w.next() is None
        async with api.watch(
            PODS, resourceVersion=str(api.store.revision), timeoutSeconds="2"
        ) as w:
            reading = asyncio.create_task(w.next())
            await clock.advance(2)
            assert await reading is None


async def test_a_closed_connection_ends_its_watch(api):
    async with api.watch(PODS, resourceVersion="0"):
        assert len(api.server.context.watches) == 1
    while api.server.context.watches:
        await asyncio.sleep(0.01)


async def test_metadata_watchers_see_metadata_only(api):
    form = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    async with api.watch(PODS, headers={"accept": form}) as w:
        await api.create(PODS, labelled("a", app="x"))
        event = await w.next()
    assert set(event["object"]) == {"kind", "apiVersion", "metadata"}
    assert event["object"]["kind"] == "PartialObjectMetadata"
    assert event["object"]["metadata"]["labels"] == {"app": "x"}


async def test_table_watchers_see_columns_once(api):
    form = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    async with api.watch(PODS, headers={"accept": form}) as w:
        await api.create(PODS, pod("a"))
        await api.create(PODS, pod("b"))
        first, second = await w.take(2)
    assert first["object"]["kind"] == "Table"
    assert first["object"]["columnDefinitions"]
    assert not second["object"].get("columnDefinitions")
    assert second["object"]["rows"][0]["cells"][0] == "b"


@pytest.mark.long
async def test_A050_fifty_watchers_get_all_of_1500_creations(api):
    """Check that each watcher gets every object once, in the order of revisions."""
    async with AsyncExitStack() as open_watches:
        watching = [
            await open_watches.enter_async_context(api.watch(CONFIGMAPS, resourceVersion="0"))
            for _ in range(50)
        ]
        seen = [asyncio.create_task(one.take(1500)) for one in watching]
        for start in range(0, 1500, 100):
            names = [f"c-{i:04}" for i in range(start, start + 100)]
            await asyncio.gather(*(api.create(CONFIGMAPS, configmap(name)) for name in names))
        expected = {f"c-{i:04}" for i in range(1500)}
        for events in await asyncio.gather(*seen):
            versions = [int(e["object"]["metadata"]["resourceVersion"]) for e in events]
            assert versions == sorted(set(versions))
            assert {e["object"]["metadata"]["name"] for e in events} == expected


async def test_a_watch_by_HEAD_has_no_body_and_keeps_the_connection_usable(api):
    await api.create(PODS, pod("a"))
    for _ in range(2):
        answer = await asyncio.wait_for(api.call("HEAD", PODS, watch="true"), 30)
        assert (answer.status, answer.body) == (200, b"")
    assert (await api.call("GET", f"{PODS}/a")).status == 200
    assert not api.server.context.watches


@pytest.mark.parametrize("start", ["0", "1"])
async def test_large_objects_are_written_one_at_a_time(api, start):
    large = {"a": "x" * (BATCH_BYTES * 3 // 4)}
    for name in ("a", "b", "c"):
        await api.create(CONFIGMAPS, configmap(name) | {"data": large})
    query = {"watch": "true", "resourceVersion": start}
    stream = await api.server.handle(Request("GET", CONFIGMAPS, query, {}), ADMIN)
    for _ in range(3):
        assert len(await anext(stream.batches)) == 1
    await stream.close()
