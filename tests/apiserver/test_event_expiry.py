"""Events are deleted an hour after their last write."""

from apiserver.sample_objects import pod
from apiserver.server_fixture import start_server
from holdfast.testing.clock import VirtualClock

EVENTS = "/api/v1/namespaces/default/events"


def event(name, **more):
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    return {"metadata": {"name": name}, "involvedObject": about, "reason": "Tested", **more}


async def names(api):
    return [e["metadata"]["name"] for e in (await api.call("GET", EVENTS)).json["items"]]


async def test_an_event_is_deleted_after_an_hour_and_a_renewed_one_is_kept(tmp_path):
    clock = VirtualClock()
    async with start_server(tmp_path, clock=clock) as api:
        clock.busy.append(lambda: api.store.busy)
        await api.create(EVENTS, event("old"))
        await api.create(EVENTS, event("renewed"))
        await api.create("/api/v1/namespaces/default/pods", pod("p"))
        await clock.advance(1800)
        again = event("renewed", count=2)
        assert (await api.call("PUT", f"{EVENTS}/renewed", again)).status == 200
        async with api.watch(EVENTS, resourceVersion=str(api.store.revision)) as watching:
            await clock.advance(1860)
            gone = await watching.next()
            assert (gone["type"], gone["object"]["metadata"]["name"]) == ("DELETED", "old")
        assert await names(api) == ["renewed"]
        await clock.advance(1920)
        assert await names(api) == []
        assert (await api.call("GET", "/api/v1/namespaces/default/pods/p")).status == 200


async def test_events_that_expired_while_the_server_was_down_are_deleted_at_the_start(tmp_path):
    clock = VirtualClock()
    async with start_server(tmp_path, clock=clock) as api:
        await api.create(EVENTS, event("old"))
        await clock.advance(1800)
        await api.create(EVENTS, event("young"))
    await clock.advance(1900)
    async with start_server(tmp_path, clock=clock) as api:
        clock.busy.append(lambda: api.store.busy)
        await clock.advance(1)
        assert await names(api) == ["young"]
