import pytest

from apiserver.sample_objects import CONFIGMAPS, PODS, binding, configmap, labelled, pod
from apiserver.server_fixture import start_server
from holdfast.server.store import Retention

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def names(answer):
    return [item["metadata"]["name"] for item in answer.json["items"]]


async def pages(api, limit, **query):
    token, seen, versions, left = "", [], set(), []
    while True:
        more = {"continue": token} if token else {}
        answer = await api.call("GET", CONFIGMAPS, limit=str(limit), **more, **query)
        assert answer.status == 200, answer.body
        meta = answer.json["metadata"]
        seen += names(answer)
        versions.add(meta["resourceVersion"])
        left.append(meta.get("remainingItemCount"))
        token = meta.get("continue", "")
        yield seen, versions, left
        if not token:
            return


async def test_all_pages_of_a_list_are_of_one_revision(api):
    for i in range(25):
        await api.create(CONFIGMAPS, configmap(f"c{i:02}"))
    turn = 0
    async for seen, versions, left in pages(api, 10):  # noqa: B007
        turn += 1
        await api.create(CONFIGMAPS, configmap(f"a{turn}"))
        await api.call("DELETE", f"{CONFIGMAPS}/c{20 + turn}")
    assert seen == [f"c{i:02}" for i in range(25)]
    assert len(versions) == 1
    assert left == [15, 5, None]


async def test_A023_an_expired_token_returns_a_token_that_continues(tmp_path):
    async with start_server(tmp_path, retention=Retention(seconds=0, min_events=1)) as api:
        for i in range(6):
            await api.create(CONFIGMAPS, configmap(f"c{i}"))
        first = await api.call("GET", CONFIGMAPS, limit="2")
        for i in range(6, 10):
            await api.create(CONFIGMAPS, configmap(f"c{i}"))
        await api.store.compact()
        token = first.json["metadata"]["continue"]
        answer = await api.call("GET", CONFIGMAPS, limit="2", **{"continue": token})
        assert (answer.status, answer.json["reason"]) == (410, "Expired")
        fresh = answer.json["metadata"]["continue"]
        rest = await api.call("GET", CONFIGMAPS, **{"continue": fresh})
        assert names(rest) == [f"c{i}" for i in range(2, 10)]


async def test_an_invalid_token_is_rejected(api):
    assert (await api.call("GET", CONFIGMAPS, **{"continue": "!!"})).status == 400


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("app=x", ["a", "b"]),
        ("app=x,tier!=1", ["b"]),
        ("app in (x,y),!tier", ["c"]),
        ("tier", ["a", "b"]),
        ("app notin (x)", ["c", "d"]),
    ],
)
async def test_label_selectors(api, selector, found):
    for name, labels in (
        ("a", {"app": "x", "tier": "1"}), ("b", {"app": "x", "tier": "2"}), ("c", {"app": "y"}),
        ("d", {}),
    ):  # fmt: skip
        await api.create(PODS, labelled(name, **labels))
    assert names(await api.call("GET", PODS, labelSelector=selector)) == found


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("metadata.name=a", ["a"]),
        ("spec.nodeName=n1", ["a"]),
        ("spec.nodeName=", ["b"]),
        ("spec.nodeName!=n1", ["b"]),
        ("spec.nodeName=n1,status.phase!=Succeeded,status.phase!=Failed", ["a"]),
        ("status.phase=Pending,spec.schedulerName=other", ["b"]),
    ],
)
async def test_field_selectors(api, selector, found):
    await api.create(PODS, pod("a"))
    await api.create(PODS, pod("b", schedulerName="other"))
    await api.call("POST", f"{PODS}/a/binding", binding("a", "n1"))
    assert names(await api.call("GET", "/api/v1/pods", fieldSelector=selector)) == found


async def test_an_unsupported_field_is_in_the_error(api):
    answer = await api.call("GET", PODS, fieldSelector="spec.foo=1")
    assert answer.status == 400
    assert answer.json["message"] == "field label not supported: spec.foo"


async def test_events_are_found_by_their_involved_object(api):
    events = "/api/v1/namespaces/default/events"
    for name in ("a", "b"):
        about = {"kind": "Pod", "namespace": "default", "name": name, "uid": f"u-{name}"}
        await api.create(events, {"metadata": {"name": name}, "involvedObject": about,
                                  "reason": "Seen", "type": "Normal"})  # fmt: skip
    selector = (
        "involvedObject.name=a,involvedObject.namespace=default,involvedObject.uid=u-a,reason=Seen"
    )
    assert names(await api.call("GET", events, fieldSelector=selector)) == ["a"]


async def test_lists_with_resource_versions(api):
    await api.create(PODS, pod("a"))
    version = (await api.call("GET", PODS)).json["metadata"]["resourceVersion"]
    await api.create(PODS, pod("b"))
    exact = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    assert names(await api.call("GET", PODS, **exact)) == ["a"]
    newer = {"resourceVersion": version, "resourceVersionMatch": "NotOlderThan"}
    assert names(await api.call("GET", PODS, **newer)) == ["a", "b"]
    assert names(await api.call("GET", PODS, resourceVersion="0")) == ["a", "b"]
    ahead = await api.call("GET", PODS, resourceVersion="9999")
    assert ahead.status == 504
    assert ahead.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    for wrong in (
        {"resourceVersionMatch": "Exact"},
        {"resourceVersion": "0", "resourceVersionMatch": "Exact"},
        {"resourceVersion": version, "resourceVersionMatch": "Nearly"},
        {"sendInitialEvents": "true"},
    ):
        assert (await api.call("GET", PODS, **wrong)).status == 422


async def test_one_object_and_lists_as_tables(api):
    await api.create(PODS, pod("a"))
    listed = (await api.call("GET", PODS, headers={"accept": TABLE})).json
    assert [c["name"] for c in listed["columnDefinitions"]][:5] == [
        "Name", "Ready", "Status", "Restarts", "Age",
    ]  # fmt: skip
    assert listed["rows"][0]["cells"][:3] == ["a", "0/1", "Pending"]
    assert listed["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert listed["metadata"]["resourceVersion"] == str(api.store.revision)
    one = (await api.call("GET", f"{PODS}/a", headers={"accept": TABLE})).json
    assert one["rows"] == listed["rows"]
    with_object = await api.call("GET", PODS, headers={"accept": TABLE}, includeObject="Object")
    assert with_object.json["rows"][0]["object"]["spec"]["containers"]


async def test_an_unknown_includeObject_is_rejected_before_anything_is_stored(api):
    odd = {"headers": {"accept": TABLE}, "includeObject": "x"}
    for query in ({}, {"watch": "true"}):
        assert (await api.call("GET", PODS, **odd, **query)).status == 400
    assert (await api.call("POST", PODS, pod("a"), **odd)).status == 400
    assert (await api.call("GET", f"{PODS}/a")).status == 404


async def test_partial_object_metadata(api):
    await api.create(PODS, labelled("a", app="x"))
    form = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    listed = (await api.call("GET", PODS, headers={"accept": form})).json
    assert listed["kind"] == "PartialObjectMetadataList"
    assert set(listed["items"][0]) == {"kind", "apiVersion", "metadata"}


async def test_large_responses_are_compressed_if_accepted(api):
    for i in range(3):
        await api.create(CONFIGMAPS, configmap(f"c{i}", x="y" * 100_000))
    packed = await api.call("GET", CONFIGMAPS, headers={"accept-encoding": "gzip"})
    plain = await api.call("GET", CONFIGMAPS, headers={"accept-encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.body == plain.body  # the session decompresses


async def test_scale_is_read_and_set(api):
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
    await api.create(deployments, {"metadata": {"name": "d"}, "spec": {
        "replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}})  # fmt: skip
    path = f"{deployments}/d/scale"
    shown = (await api.call("GET", path)).json
    assert (shown["kind"], shown["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (shown["spec"], shown["status"]) == ({"replicas": 1}, {"replicas": 0, "selector": "a=b"})
    merge = {"content-type": "application/merge-patch+json"}
    more = await api.call("PATCH", path, {"spec": {"replicas": 3}}, headers=merge)
    assert more.json["spec"] == {"replicas": 3}
    stale = await api.call("PUT", path, {**shown, "spec": {"replicas": 4}})
    assert stale.status == 409
    right = await api.call("PUT", path, {**more.json, "spec": {"replicas": 4}})
    assert right.json["spec"] == {"replicas": 4}
    stored = (await api.call("GET", f"{deployments}/d")).json
    assert (stored["spec"]["replicas"], stored["metadata"]["generation"]) == (4, 3)
    wrong = await api.call("PATCH", path, {"spec": {"replicas": -1}}, headers=merge)
    assert wrong.status == 422


async def test_a_subresource_that_is_not_implemented_returns_501(api):
    await api.create(PODS, pod("a"))
    answer = await api.call("GET", f"{PODS}/a/resize")
    assert (answer.status, answer.json["reason"]) == (501, "NotImplemented")
    assert "not built" in answer.json["message"]


async def test_an_event_is_one_object_under_two_groups(api):
    new = "/apis/events.k8s.io/v1/namespaces/default/events"
    old = "/api/v1/namespaces/default/events"
    made = await api.create(new, {
        "metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "a"}, "note": "seen",
        "reason": "Seen", "type": "Normal", "action": "See", "reportingController": "me",
        "reportingInstance": "me-1", "eventTime": "2026-01-01T00:00:00.000000Z",
    })  # fmt: skip
    assert (made["apiVersion"], made["note"]) == ("events.k8s.io/v1", "seen")
    kept = (await api.call("GET", f"{old}/e")).json
    assert (kept["apiVersion"], kept["message"]) == ("v1", "seen")
    assert kept["involvedObject"] == {"kind": "Pod", "name": "a"}
    merge = {"content-type": "application/merge-patch+json"}
    await api.call("PATCH", f"{new}/e", {"note": "again"}, headers=merge)
    assert (await api.call("GET", f"{old}/e")).json["message"] == "again"
    listed = (await api.call("GET", new)).json
    assert (listed["kind"], listed["items"][0]["note"]) == ("EventList", "again")
    async with api.watch(new) as w:
        assert (await w.next())["object"]["regarding"] == {"kind": "Pod", "name": "a"}
    chosen = await api.call("GET", new, fieldSelector="regarding.name=a")
    assert names(chosen) == ["e"]
    assert names(await api.call("GET", new, fieldSelector="regarding.name=b")) == []
