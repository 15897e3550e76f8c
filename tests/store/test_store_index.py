"""Lists: key order, namespaces, labels and fields, owners, older revisions."""

import asyncio

import pytest

from holdfast.runtime import errors
from holdfast.server.store import IndexEntry, Retention, index_object
from store.store_objects import build, key, names


async def put(store, *made):
    await asyncio.gather(*(store.create(k, b) for k, b in made))


async def test_lists_are_in_the_key_order_of_etcd(store):
    await put(
        store,
        *((key("x", namespace=ns), build("x")) for ns in ("b", "a", "a-b", "a0")),
        (key("w", namespace="a"), build("w")),
    )
    assert [s.key.path for s in store.list("", "pods")] == ["a-b/x", "a/w", "a/x", "a0/x", "b/x"]
    assert [s.key.path for s in store.list("", "pods", "a")] == ["a/w", "a/x"]
    assert store.list("", "pods", "c") == [] == store.list("apps", "pods")


async def test_the_label_index_follows_updates(store):
    await put(
        store,
        (key("a"), build("a", labels={"app": "web", "tier": "front"})),
        (key("b"), build("b", labels={"app": "web"})),
        (key("c", namespace="other"), build("c", labels={"app": "web"})),
    )
    assert names(store.list("", "pods", labels={"app": "web"})) == ["a", "b", "c"]
    assert names(store.list("", "pods", "default", labels={"app": "web"})) == ["a", "b"]
    assert names(store.list("", "pods", labels={"app": "web", "tier": "front"})) == ["a"]
    await store.update(store.get(key("a")), build("a", labels={"app": "db"}))
    await store.delete(store.get(key("b")), build("b"))
    assert names(store.list("", "pods", labels={"app": "web"})) == ["c"]
    assert names(store.list("", "pods", labels={"app": "db"})) == ["a"]
    assert store.list("", "pods", labels={"tier": "front"}) == []


async def test_node_name_is_indexed_and_an_absent_field_counts_as_empty(store):
    await put(store, (key("a"), build("a")), (key("b"), build("b", node="n1")))
    assert names(store.list("", "pods", fields={"spec.nodeName": "n1"})) == ["b"]
    assert names(store.list("", "pods", fields={"spec.nodeName": ""})) == ["a"]
    await store.update(store.get(key("a")), build("a", node="n1"))
    assert names(store.list("", "pods", fields={"spec.nodeName": "n1"})) == ["a", "b"]


async def test_events_are_found_by_their_involved_object(store):
    about = {"kind": "Pod", "name": "web", "uid": "u1"}
    await put(
        store,
        (key("e1", "events"), build("e1", involvedObject=about)),
        (key("e2", "events"), build("e2", involvedObject=about | {"uid": "u2"})),
    )
    found = store.list("", "events", fields={"involvedObject.uid": "u1"})
    assert names(found) == ["e1"]
    both = {"involvedObject.name": "web", "involvedObject.kind": "Pod"}
    assert names(store.list("", "events", fields=both)) == ["e1", "e2"]


async def test_dependents_of_an_owner_are_found_across_resources(store):
    await put(
        store,
        (key("rs", "replicasets", group="apps"), build("rs", owners=["d"])),
        (key("p"), build("p", owners=["d", "rs"])),
    )
    assert names(store.dependents("d")) == ["p", "rs"]
    await store.update(store.get(key("p")), build("p", owners=["rs"]))
    assert names(store.dependents("d")) == ["rs"] and names(store.dependents("rs")) == ["p"]
    await store.delete(store.get(key("p")), build("p"))
    assert store.dependents("rs") == [] == store.dependents("unknown")


async def test_a_custom_index_function_can_be_given(opened):
    def index(k, value):
        return IndexEntry(uid=k.name, fields={"status.phase": value.decode()})

    store = opened(index=index)
    await put(store, (key("a"), lambda _: b"Running"), (key("b"), lambda _: b"Pending"))
    (found,) = store.list("", "pods", fields={"status.phase": "Running"})
    assert found.uid == "a"


def test_an_object_without_the_optional_parts_is_indexed():
    assert index_object(key("a"), b'{"metadata":{}}') == IndexEntry(metadata_mismatch=True)
    assert index_object(key("e", "events"), b'{"metadata":{}}').fields["involvedObject.uid"] == ""
    odd = index_object(key("x", "things"), b'{"metadata":{"uid":"u"},"spec":"not an object"}')
    assert odd.uid == "u"


async def test_a_list_at_an_older_revision_undoes_later_events(store):
    await put(store, (key("a"), build("a")), (key("b"), build("b")))
    await store.update(store.get(key("a")), build("a", labels={"n": "3"}))
    await store.delete(store.get(key("b")), build("b"))
    await put(store, (key("c"), build("c")), (key("d", namespace="other"), build("d")))
    at = {r: [(s.key.name, s.revision) for s in store.list_at(r, "", "pods")] for r in range(7)}
    assert at == {
        0: [],
        1: [("a", 1)],
        2: [("a", 1), ("b", 2)],
        3: [("a", 3), ("b", 2)],
        4: [("a", 3)],
        5: [("a", 3), ("c", 5)],
        6: [("a", 3), ("c", 5), ("d", 6)],
    }
    assert names(store.list_at(2, "", "pods", "other")) == []
    assert names(store.list_at(2, "", "pods", "default")) == ["a", "b"]


async def test_a_list_at_a_compacted_revision_is_expired(opened, clock):
    store = opened(retention=Retention(min_events=1))
    await put(store, *((key(n), build(n)) for n in "abc"))
    await clock.advance(400)
    await store.compact()
    with pytest.raises(errors.Expired, match=r"^too old resource version: 1 \(2\)$"):
        store.list_at(1, "", "pods")
    assert names(store.list_at(2, "", "pods")) == ["a", "b"]
