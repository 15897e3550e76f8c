"""Patches that would make an object, or the cost of applying them, huge."""

import msgspec
import pytest

from apiserver.sample_crd import CRDS, THINGS, definition
from apiserver.sample_objects import CONFIGMAPS, PODS, configmap, pod
from holdfast.api import scheme
from holdfast.runtime.errors import BadRequest, Invalid, TooLarge
from holdfast.server.schema.strategic_merge_patch import strategic_merge
from holdfast.server.verbs.json_patch import apply_json_patch

A = f"{CONFIGMAPS}/a"
REJECTED = "the server rejected our request due to an error in our request"


def media(kind):
    return {"content-type": f"application/{kind}-patch+json"}


async def patch(api, operations, path=A):
    return await api.call("PATCH", path, operations, headers=media("json"))


async def test_copies_are_limited_to_three_megabytes(api):
    await api.create(CONFIGMAPS, configmap("a", k="x" * 1000))
    bomb = [{"op": "copy", "from": "/data", "path": f"/data/k{i}"} for i in range(40)]
    refused = await patch(api, bomb)
    assert (refused.status, refused.json["message"]) == (422, REJECTED)
    assert (await api.call("GET", A)).json["data"] == {"k": "x" * 1000}


async def test_operations_are_limited_to_ten_thousand(api):
    await api.create(CONFIGMAPS, configmap("a", k="v"))
    operation = {"op": "test", "path": "/data/k", "value": "v"}
    assert (await patch(api, [operation] * 10_000)).status == 200
    refused = await patch(api, [operation] * 10_001)
    assert refused.status == 413
    assert refused.json["message"] == (
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, "
        "got 10001"
    )


@pytest.mark.parametrize("kind", ["json", "merge", "strategic-merge"])
async def test_the_patched_object_is_limited_as_any_other(api, kind):
    await api.create(CONFIGMAPS, configmap("a", k="x" * 1_000_000))
    change = {"data": {"m": "x" * 1_000_000}}
    if kind == "json":
        change = [{"op": "copy", "from": "/data/k", "path": "/data/m"}]
    assert (await api.call("PATCH", A, change, headers=media(kind))).status == 413


async def test_a_patch_cannot_nest_deeper_than_a_body_may(api):
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await api.create(CRDS, definition({"a": anything}))
    start = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "a": {}}
    await api.create(THINGS, start)
    statuses = []
    for doubling in range(8):
        below = "/a" * ((1 << doubling) + 1)
        grown = await patch(api, [{"op": "copy", "from": "/a", "path": below}], f"{THINGS}/t")
        statuses.append(grown.status)
    assert statuses == [200] * 7 + [400]
    assert "levels deep" in grown.json["message"]
    assert (await api.call("GET", f"{THINGS}/t")).status == 200


RFC_6902 = [
    ({"a": 1}, [{"op": "add", "path": "/b", "value": None}], {"a": 1, "b": None}),
    ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
    ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
    ({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
    ({"a": [1, 2]}, [{"op": "replace", "path": "/a/0", "value": 3}], {"a": [3, 2]}),
    ({"a": {"b": 1}}, [{"op": "move", "from": "/a/b", "path": "/c"}], {"a": {}, "c": 1}),
    ({"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1], "b": [1]}),
    ({"a/b": 1, "~": 2}, [{"op": "remove", "path": "/a~1b"}, {"op": "remove", "path": "/~0"}], {}),
    ({"a": 1}, [{"op": "replace", "path": "", "value": [5]}], [5]),
    ({"a": {"x": 1, "y": 2}}, [{"op": "test", "path": "/a", "value": {"y": 2, "x": 1}}],
     {"a": {"x": 1, "y": 2}}),
    ({"a": 1}, [{"op": "move", "from": "/a", "path": "/a"}], {"a": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("document", "operations", "result"), RFC_6902)
def test_json_patch_follows_rfc_6902(document, operations, result):
    assert apply_json_patch(document, operations) == result


def test_a_copied_value_is_not_shared():
    operations = [
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/b/-", "value": 2},
    ]
    assert apply_json_patch({"a": [1]}, operations) == {"a": [1], "b": [1, 2]}


@pytest.mark.parametrize("operation", [
    {"op": "remove", "path": "/z"}, {"op": "remove", "path": ""}, {"op": "remove", "path": "/l/9"},
    {"op": "replace", "path": "/z", "value": 1}, {"op": "replace", "path": "/l/-", "value": 1},
    {"op": "add", "path": "/l/01", "value": 1}, {"op": "add", "path": "/l/+1", "value": 1},
    {"op": "add", "path": "/l/" + "9" * 5000, "value": 1},
    {"op": "add", "path": "/l/٣", "value": 1},
    {"op": "add", "path": "/l/2", "value": 1}, {"op": "add", "path": "/s/0", "value": 1},
    {"op": "add", "path": "/n/a", "value": 1}, {"op": "add", "path": "z", "value": 1},
    {"op": "add", "path": "/a"}, {"op": "add"}, {"op": "move", "from": "/o", "path": "/o/p"},
    {"op": "move", "path": "/a"}, {"op": "copy", "from": "/l/-", "path": "/a"},
    {"op": "test", "path": "/l/0", "value": True}, {"op": "test", "path": "/z", "value": None},
    {"op": "zzz", "path": "/a"}, {},
])  # fmt: skip
def test_an_operation_that_fails_is_invalid(operation):
    with pytest.raises(Invalid):
        apply_json_patch({"l": [1], "s": "x", "n": None, "o": {}}, [operation])


@pytest.mark.parametrize("change", [
    {}, "a", 5, None, [5], [None], [[]], ["a"], [{"op": 1}], [{"op": "add", "path": 1}],
    [{"op": "copy", "from": {}, "path": "/a"}],
])  # fmt: skip
def test_a_malformed_json_patch_is_a_bad_request(change):
    with pytest.raises(BadRequest, match="error decoding patch: json: cannot unmarshal"):
        apply_json_patch({}, change)


def test_moving_list_items_is_limited():
    first = {"op": "add", "path": "/l/0", "value": 1}
    with pytest.raises(TooLarge):
        apply_json_patch({"l": [0] * 500_000}, [first] * 10_000)


def test_directives_on_long_lists_take_linear_time():
    """With 20,000 names on both sides a quadratic search would take more than half a minute."""
    names = [f"example.com/{i}" for i in range(20_000)]
    held = {"metadata": {"finalizers": names}}
    change = {"metadata": {"$deleteFromPrimitiveList/finalizers": names[::-1][:-1]}}
    assert strategic_merge(scheme.PODS, held, change) == {"metadata": {"finalizers": names[:1]}}


@pytest.mark.parametrize("change", [
    {"metadata": {"finalizers": [["a"]]}},
    {"metadata": {"$deleteFromPrimitiveList/finalizers": [{}]}},
    {"spec": {"$deleteFromPrimitiveList/containers": ["c"]}},
    {"spec": {"$setElementOrder/containers": [1]}},
    {"spec": {"containers": [{"name": "c", "$patch": "merge"}]}},
    {"metadata": {"$retainKeys": [{}]}},
    {"$patch": "delete"},
    [1], 5,
])  # fmt: skip
async def test_an_invalid_strategic_merge_patch_is_rejected(api, change):
    held = pod("a")
    held["metadata"]["finalizers"] = ["example.com/x"]
    await api.create(PODS, held)
    body = msgspec.json.encode(change)
    refused = await api.call("PATCH", f"{PODS}/a", body, headers=media("strategic-merge"))
    assert refused.status in (400, 422), refused.body
