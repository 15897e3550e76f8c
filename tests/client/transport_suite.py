"""The behaviour that a Client requires of every transport and API server.

Subclass ``TransportSuite`` and define three fixtures. ``transport``: a Transport to an API server,
authorized for everything. ``let_pass(seconds)``: advance the server's clock. ``compact()``: compact
the server's history. Every test uses its own namespace, so that the tests can share a server.
"""

import asyncio
import itertools
from contextlib import aclosing

import msgspec
import pytest

from holdfast.api.meta import Object
from holdfast.api.resource import Resource
from holdfast.api.scheme import LEASES, NAMESPACES, NODES, PODS
from holdfast.client.client import Client, PatchType, UnreadableObject
from holdfast.client.transport import Request
from holdfast.runtime.errors import AlreadyExists, Conflict, Expired, Invalid, NotFound, Unavailable
from holdfast.testing import a_namespace, a_node, a_pod

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", dict)
_numbers = itertools.count(1)


class NumberedConfig(Object, frozen=True):
    """A config map whose values must be numbers."""

    data: dict[str, int] = {}  # noqa: RUF012


NUMBERED = Resource("", "v1", "configmaps", "ConfigMap", NumberedConfig)


def a_config(name, namespace, labels=None, **data):
    meta = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def a_lease(name, namespace, holder="me"):
    return {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
    }  # fmt: skip


class TransportSuite:
    """Every verb, the errors, lists and watches."""

    @pytest.fixture
    async def client(self, transport):
        return Client(transport)

    @pytest.fixture
    async def namespace(self, client):
        name = f"suite-{next(_numbers)}"
        await client.create(NAMESPACES, a_namespace(name))
        return name

    # Objects

    async def test_a_created_object_can_be_read_typed(self, client, namespace):
        made = await client.create(LEASES, a_lease("l", namespace), namespace)
        found = await client.get(LEASES, "l", namespace)
        assert found == made
        assert found.spec.holder_identity == "me"
        assert found.metadata.uid and found.metadata.resource_version

    async def test_unknown_fields_are_preserved_when_read_raw(self, client, namespace):
        config = a_config("c", namespace, text="ü\n" * 3)
        await client.create(CONFIG_MAPS, config | {"immutable": False}, namespace)
        found = await client.get(CONFIG_MAPS, "c", namespace)
        assert found["data"] == {"text": "ü\nü\nü\n"} and found["immutable"] is False

    async def test_a_missing_object_is_not_found(self, client, namespace):
        with pytest.raises(NotFound) as caught:
            await client.get(CONFIG_MAPS, "missing", namespace)
        assert caught.value.message == 'configmaps "missing" not found'
        assert (caught.value.details.name, caught.value.details.kind) == ("missing", "configmaps")

    async def test_a_resource_that_does_not_exist_is_not_found(self, client):
        with pytest.raises(NotFound):
            await client.list(Resource("missing.example", "v1", "things", "Thing", dict))

    async def test_a_name_can_be_used_once(self, client, namespace):
        await client.create(CONFIG_MAPS, a_config("c", namespace), namespace)
        with pytest.raises(AlreadyExists, match=r'^configmaps "c" already exists$'):
            await client.create(CONFIG_MAPS, a_config("c", namespace), namespace)

    async def test_an_invalid_field_is_named(self, client, namespace):
        with pytest.raises(Invalid) as caught:
            await client.create(CONFIG_MAPS, a_config("No Good", namespace), namespace)
        assert [cause.field for cause in caught.value.details.causes] == ["metadata.name"]

    async def test_an_update_replaces_and_a_stale_update_conflicts(self, client, namespace):
        first = await client.create(CONFIG_MAPS, a_config("c", namespace, a="1"), namespace)
        second = await client.update(CONFIG_MAPS, first | {"data": {"b": "2"}})
        assert second["data"] == {"b": "2"}
        with pytest.raises(Conflict):
            await client.update(CONFIG_MAPS, first | {"data": {"c": "3"}})
        assert (await client.get(CONFIG_MAPS, "c", namespace))["data"] == {"b": "2"}

    async def test_patches_of_three_types(self, client, namespace):
        await client.create(CONFIG_MAPS, a_config("c", namespace, a="1", b="2"), namespace)
        merged = await client.patch(CONFIG_MAPS, "c", {"data": {"a": None, "c": "3"}}, namespace)
        assert merged["data"] == {"b": "2", "c": "3"}
        steps = [{"op": "replace", "path": "/data/b", "value": "two"}]
        stepped = await client.patch(CONFIG_MAPS, "c", steps, namespace, type=PatchType.JSON)
        assert stepped["data"] == {"b": "two", "c": "3"}
        strategic = {"metadata": {"labels": {"x": "y"}}, "data": {"$patch": "replace", "z": "1"}}
        replaced = await client.patch(
            CONFIG_MAPS, "c", strategic, namespace, type=PatchType.STRATEGIC
        )
        assert replaced["data"] == {"z": "1"} and replaced["metadata"]["labels"] == {"x": "y"}

    async def test_a_patch_of_an_old_version_conflicts(self, client, namespace):
        first = await client.create(CONFIG_MAPS, a_config("c", namespace, a="1"), namespace)
        await client.patch(CONFIG_MAPS, "c", {"data": {"a": "2"}}, namespace)
        guard = {"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}}
        with pytest.raises(Conflict):
            await client.patch(CONFIG_MAPS, "c", guard | {"data": {"a": "3"}}, namespace)

    async def test_the_status_is_written_through_its_subresource(self, client, namespace):
        name = f"{namespace}-node"
        await client.create(NODES, a_node(name, cpu="4"))
        grown = {"status": {"allocatable": {"cpu": "8"}}}
        ignored = await client.patch(NODES, name, grown | {"metadata": {"labels": {"a": "b"}}})
        assert ignored.status.allocatable.get("cpu") != "8" and ignored.metadata.labels["a"] == "b"
        node = await client.patch(NODES, name, grown, subresource="status")
        assert node.status.allocatable["cpu"] == "8"
        await client.delete(NODES, name)

    async def test_a_pod_is_bound_once(self, client, namespace):
        await client.create(PODS, a_pod("p", namespace=namespace), namespace)
        binding = {
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
        }  # fmt: skip
        await client.bind(namespace, "p", binding)
        assert (await client.get(PODS, "p", namespace)).spec.node_name == "n1"
        with pytest.raises(Conflict):
            await client.bind(namespace, "p", binding)

    async def test_deletion_preconditions_protect_another_object(self, client, namespace):
        made = await client.create(CONFIG_MAPS, a_config("c", namespace), namespace)
        with pytest.raises(Conflict):
            await client.delete(CONFIG_MAPS, "c", namespace, uid="another")
        with pytest.raises(Conflict):
            await client.delete(CONFIG_MAPS, "c", namespace, resource_version="1")
        await client.delete(CONFIG_MAPS, "c", namespace, uid=made["metadata"]["uid"])
        with pytest.raises(NotFound):
            await client.delete(CONFIG_MAPS, "c", namespace)

    async def test_an_assigned_pod_is_deleted_gracefully_by_default(self, client, namespace):
        await client.create(PODS, a_pod("p", namespace=namespace, node="n1"), namespace)
        await client.delete(PODS, "p", namespace, grace_seconds=7)
        leaving = await client.get(PODS, "p", namespace)
        assert leaving.terminating and leaving.metadata.deletion_grace_period_seconds == 7
        await client.delete(PODS, "p", namespace, grace_seconds=0)
        with pytest.raises(NotFound):
            await client.get(PODS, "p", namespace)

    async def test_a_path_outside_any_resource_can_be_read(self, client):
        assert b"gitVersion" in await client.raw("/version")

    async def test_an_error_status_is_returned_as_a_response(self, transport):
        answer = await transport.send(Request("GET", "/api/v1/nowhere"))
        assert answer.status == 404 and msgspec.json.decode(answer.body)["kind"] == "Status"
        assert answer.headers["content-type"].startswith("application/json")

    async def test_concurrent_requests_get_their_own_responses(self, client, namespace):
        names = [f"c{n}" for n in range(40)]
        made = await asyncio.gather(
            *(client.create(CONFIG_MAPS, a_config(n, namespace, n=n), namespace) for n in names)
        )
        assert [m["data"]["n"] for m in made] == names

    # Lists

    async def test_lists_select_by_labels_and_fields(self, client, namespace):
        for name, tier in (("a", "web"), ("b", "db"), ("c", "web")):
            config = a_config(name, namespace, labels={"tier": tier})
            await client.create(CONFIG_MAPS, config, namespace)
        tier = await client.list(CONFIG_MAPS, namespace, labels="tier in (web),tier!=x")
        assert [c["metadata"]["name"] for c in tier.items if "tier" in c["metadata"]["labels"]] == [
            "a",
            "c",
        ]
        named = await client.list(CONFIG_MAPS, namespace, fields="metadata.name=b")
        assert [c["metadata"]["name"] for c in named.items] == ["b"]

    async def test_a_long_list_has_pages_of_one_version(self, client, namespace):
        for n in range(5):
            await client.create(LEASES, a_lease(f"l{n}", namespace), namespace)
        first = await client.list(LEASES, namespace, limit=2)
        await client.create(LEASES, a_lease("l9", namespace), namespace)
        pages, token = [first], first.continue_token
        while token:
            pages.append(await client.list(LEASES, namespace, limit=2, continue_token=token))
            token = pages[-1].continue_token
        assert [[lease.name for lease in p.items] for p in pages] == [
            ["l0", "l1"], ["l2", "l3"], ["l4"]
        ]  # fmt: skip
        assert {p.resource_version for p in pages} == {first.resource_version}

    async def test_a_listed_object_has_its_kind(self, client, namespace):
        made = await client.create(LEASES, a_lease("l", namespace), namespace)
        assert (await client.list(LEASES, namespace)).items == (made,)
        raw = Resource("coordination.k8s.io", "v1", "leases", "Lease", dict)
        (listed,) = (await client.list(raw, namespace)).items
        assert (listed["apiVersion"], listed["kind"]) == ("coordination.k8s.io/v1", "Lease")

    async def test_an_empty_list_has_a_version(self, client, namespace):
        empty = await client.list(LEASES, namespace)
        assert empty.items == () and int(empty.resource_version) > 0

    async def test_an_object_that_does_not_match_its_type_is_named_or_reported(
        self, client, namespace
    ):
        for name, value in (("bad", "many"), ("good", "1")):
            await client.create(CONFIG_MAPS, a_config(name, namespace, n=value), namespace)
        with pytest.raises(
            UnreadableObject, match=rf'configmaps "{namespace}/bad" cannot be read'
        ) as c:
            await client.get(NUMBERED, "bad", namespace)
        assert c.value.field == "data[...]"
        told = []
        listing = await client.list(
            NUMBERED, namespace, unreadable=told.append, fields="metadata.name!=kube-root-ca.crt"
        )
        assert [o.name for o in listing.items] == ["good"]
        assert [(o.key, o.event_type) for o in told] == [(f"{namespace}/bad", "")]

    # Watches

    async def test_a_watch_sends_past_events_in_order(self, client, namespace):
        start = (await client.list(LEASES, namespace)).resource_version
        made = await client.create(LEASES, a_lease("l", namespace), namespace)
        changed = await client.patch(LEASES, "l", {"spec": {"holderIdentity": "you"}}, namespace)
        await client.delete(LEASES, "l", namespace)
        events = await take(client.watch(LEASES, namespace, resource_version=start), 3)
        assert [(e.type, e.object.spec.holder_identity) for e in events] == [
            ("ADDED", "me"), ("MODIFIED", "you"), ("DELETED", "you"),
        ]  # fmt: skip
        versions = [int(e.resource_version) for e in events]
        assert versions[:2] == [
            int(made.metadata.resource_version),
            int(changed.metadata.resource_version),
        ]
        assert versions == sorted(versions) and versions[2] > versions[1]

    async def test_a_watch_resumes_without_missing_or_repeated_events(self, client, namespace):
        start = (await client.list(LEASES, namespace)).resource_version
        for n in range(4):
            await client.create(LEASES, a_lease(f"l{n}", namespace), namespace)
        first = await take(client.watch(LEASES, namespace, resource_version=start), 2)
        rest = await take(
            client.watch(LEASES, namespace, resource_version=first[-1].resource_version), 2
        )
        assert [e.object.name for e in first + rest] == ["l0", "l1", "l2", "l3"]

    async def test_a_watch_sends_new_events(self, client, namespace):
        start = (await client.list(LEASES, namespace)).resource_version
        watching = asyncio.create_task(
            take(client.watch(LEASES, namespace, resource_version=start), 2)
        )
        await client.create(LEASES, a_lease("a", namespace), namespace)
        await client.create(LEASES, a_lease("b", namespace), namespace)
        assert [e.object.name for e in await watching] == ["a", "b"]

    async def test_leaving_and_entering_a_selector_are_deletion_and_addition(
        self, client, namespace
    ):
        start = (await client.list(CONFIG_MAPS, namespace)).resource_version
        config = a_config("c", namespace, labels={"on": "yes"})
        await client.create(CONFIG_MAPS, config, namespace)
        for on in ("no", "yes"):
            patch = {"metadata": {"labels": {"on": on}}}
            await client.patch(CONFIG_MAPS, "c", patch, namespace)
        events = await take(
            client.watch(CONFIG_MAPS, namespace, resource_version=start, labels="on=yes"), 3
        )
        assert [e.type for e in events] == ["ADDED", "DELETED", "ADDED"]

    async def test_initial_events_end_with_a_marked_bookmark(self, client, namespace):
        for name in ("a", "b"):
            await client.create(LEASES, a_lease(name, namespace), namespace)
        watch = client.watch(LEASES, namespace, initial_events=True)
        async with aclosing(watch):
            seen = [await anext(watch) for _ in range(3)]
            assert [e.type for e in seen] == ["ADDED", "ADDED", "BOOKMARK"]
            assert [e.initial_events_end for e in seen] == [False, False, True]
            assert {e.object.name for e in seen[:2]} == {"a", "b"}
            assert int(seen[2].resource_version) > 0
            await client.create(LEASES, a_lease("c", namespace), namespace)
            live = await anext(watch)
            assert (live.type, live.object.name) == ("ADDED", "c")

    async def test_a_watch_ends_after_its_timeout(self, client, namespace, let_pass):
        start = (await client.list(LEASES, namespace)).resource_version
        await client.create(LEASES, a_lease("l", namespace), namespace)
        watch = client.watch(LEASES, namespace, resource_version=start, timeout_seconds=2)
        assert (await anext(watch)).type == "ADDED"
        ending = asyncio.create_task(take(watch, 1))
        await let_pass(2.5)
        assert await ending == []

    async def test_a_line_may_have_any_length(self, client, namespace):
        start = (await client.list(CONFIG_MAPS, namespace)).resource_version
        long = "x" * 700_000
        await client.create(CONFIG_MAPS, a_config("long", namespace, text=long), namespace)
        await client.create(CONFIG_MAPS, a_config("short", namespace), namespace)
        events = await take(client.watch(CONFIG_MAPS, namespace, resource_version=start), 2)
        assert events[0].object["data"]["text"] == long
        assert events[1].object["metadata"]["name"] == "short"

    async def test_a_compacted_version_is_expired(self, client, namespace, compact):
        start = (await client.list(LEASES, namespace)).resource_version
        for name in ("a", "b"):
            await client.create(LEASES, a_lease(name, namespace), namespace)
        await compact()
        with pytest.raises(Expired):
            await take(client.watch(LEASES, namespace, resource_version=start), 1)
        now = await client.list(LEASES, namespace)
        assert [lease.name for lease in now.items] == ["a", "b"]

    async def test_a_watch_of_an_unknown_resource_is_not_found(self, client):
        things = Resource("missing.example", "v1", "things", "Thing", dict)
        with pytest.raises(NotFound):
            await take(client.watch(things), 1)

    async def test_a_watched_object_that_does_not_match_its_type_is_reported(
        self, client, namespace
    ):
        start = (await client.list(CONFIG_MAPS, namespace)).resource_version
        for name, value in (("a", "1"), ("bad", "many"), ("b", "2")):
            await client.create(CONFIG_MAPS, a_config(name, namespace, n=value), namespace)
        told = []
        events = await take(
            client.watch(NUMBERED, namespace, resource_version=start, unreadable=told.append), 2
        )
        assert [e.object.data["n"] for e in events] == [1, 2]
        assert [(o.key, o.event_type, bool(o.uid)) for o in told] == [
            (f"{namespace}/bad", "ADDED", True)
        ]
        with pytest.raises(UnreadableObject):
            await take(client.watch(NUMBERED, namespace, resource_version=start), 2)

    async def test_closing_a_stream_leaves_the_transport_usable(self, transport, client, namespace):
        query = {"watch": "true", "resourceVersion": "0"}
        for _ in range(3):
            async with transport.stream(Request("GET", LEASES.path(namespace), query)) as stream:
                assert stream.status == 200
        made = await client.create(LEASES, a_lease("l", namespace), namespace)
        assert made.name == "l"

    async def test_a_refused_stream_has_the_complete_body_as_the_only_item(self, transport):
        async with transport.stream(Request("GET", "/apis/missing.example/v1/x")) as stream:
            parts = [part async for part in stream]
        assert stream.status == 404 and len(parts) == 1

    async def test_a_write_that_the_check_refuses_is_not_sent(self, transport, client, namespace):
        checks = []

        def write_check():
            checks.append(1)
            if len(checks) > 1:
                raise Conflict("not any more")

        for name in ("first", "second"):
            path, body = CONFIG_MAPS.path(namespace), msgspec.json.encode(a_config(name, namespace))
            headers = {"content-type": "application/json"}
            request = Request("POST", path, {}, headers, body, write_check)
            if name == "first":
                assert (await transport.send(request)).status == 201
                continue
            with pytest.raises(Conflict, match="not any more"):
                await transport.send(request)
        found = (await client.list(CONFIG_MAPS, namespace)).items
        assert [each["metadata"]["name"] for each in found if "first" in str(each)] == ["first"]
        assert not any(each["metadata"]["name"] == "second" for each in found)

    async def test_a_closed_transport_is_unavailable(self, transport):
        await transport.close()
        with pytest.raises(Unavailable):
            await Client(transport).raw("/version")


async def take(watch, count):
    """Read ``count`` events that are not bookmarks, then close the watch."""
    events = []
    async with aclosing(watch):
        async for event in watch:
            if event.type != "BOOKMARK":
                events.append(event)
            if len(events) == count:
                break
    return events
