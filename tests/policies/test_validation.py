"""Which resource policies the API server accepts, and what it says about the others."""

import pytest

from apiserver.server_fixture import start_server
from policies.policy_objects import BAD, GOOD, LARGEST, policy, raw

PATH = "/apis/scheduling.sigs.x-k8s.io/v1alpha1/namespaces/default/resourcepolicies"
ONE = f"{PATH}/p"
MERGE = {"content-type": "application/merge-patch+json"}
JSON_PATCH = {"content-type": "application/json-patch+json"}
P049 = list(BAD)[:6]
STRICT = {"fieldValidation": "Strict"}


@pytest.fixture
async def api(tmp_path):
    async with start_server(tmp_path) as running:
        yield running


def fields(answer):
    return [cause["field"] for cause in answer.json["details"]["causes"]]


async def test_P049_invalid_objects_are_refused_with_the_field(api):
    for name in P049:
        obj, field = BAD[name]
        answer = await api.call("POST", PATH, obj)
        assert (answer.status, answer.json["reason"]) == (422, "Invalid"), name
        assert field in fields(answer), name
        assert f"{field}: " in answer.json["message"], name
    assert (await api.call("GET", PATH)).json["items"] == []


async def test_P049_an_update_may_not_make_an_object_invalid(api):
    stored = await api.create(PATH, policy())
    for name in P049:
        obj, field = BAD[name]
        spec = obj["spec"]
        put = await api.call("PUT", ONE, {**stored, "spec": spec})
        merge = await api.call("PATCH", ONE, {"spec": spec}, headers=MERGE)
        replace = [{"op": "replace", "path": "/spec", "value": spec}]
        by_operations = await api.call("PATCH", ONE, replace, headers=JSON_PATCH)
        for answer in (put, merge, by_operations):
            assert answer.status == 422, (name, answer.json)
            assert field in fields(answer), name
    assert (await api.call("GET", ONE)).json == stored


async def test_every_refusal_names_the_field(api):
    for name, (obj, field) in BAD.items():
        answer = await api.call("POST", PATH, obj, **STRICT)
        assert answer.status == 422, (name, answer.json)
        assert field in fields(answer), (name, fields(answer))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("duplicate unit names", 'every name must be unique, "a" is not'),
        ("a matchLabelKeys key also in podSelector", '"app" may not be in podSelector as well'),
        ("a key of podLabels in podSelector", '"app" of podLabels may not be in podSelector'),
        ("In without values", "Required value: must be specified when `operator` is 'In'"),
        ("Exists with values", "Forbidden: may not be specified when `operator` is 'Exists'"),
        ("an unknown strategy", 'Unsupported value: "maybe": supported values: "prefer", "requi'),
        ("a negative amount", 'Invalid value: "-1": must be a quantity of 0 or more'),
        ("an unknown resource", "every key must be cpu, memory, ephemeral-storage, hugepages-<si"),
        ("a timeout with another policy", "Forbidden: may not be specified unless `policy` is"),
        ("duplicate matchLabelKeys", 'spec.matchLabelKeys[2]: Duplicate value: "a"'),
        ("a wrong key in podLabels", "every key must be a name of at most 63 letters"),
        ("a name that another unit gets", "a unit without a name is called unit-<index>"),
    ],
)
async def test_messages_name_the_culprit(api, name, text):
    answer = await api.call("POST", PATH, BAD[name][0])
    assert text in answer.json["message"]


async def test_valid_objects_are_stored_as_they_are(api):
    for name, obj in GOOD.items():
        answer = await api.call("POST", PATH, obj, dryRun="All", **STRICT)
        assert answer.status == 201, (name, answer.json)
        spec, sent = answer.json["spec"], obj["spec"]
        assert {key: spec[key] for key in sent} == with_defaults(sent), name


def with_defaults(spec):
    units = [{"priority": 0, **unit} for unit in spec["units"]]
    found = {**spec, "units": units}
    if "whenTryNextUnits" in spec:
        policy_of = {"policy": "LackResourceOrExceedMax"}
        found["whenTryNextUnits"] = {**policy_of, **spec["whenTryNextUnits"]}
    return found


async def test_P006_the_strategy_is_required_by_default(api):
    stored = await api.create(PATH, raw({"units": [{}]}))
    assert stored["spec"] == {"units": [{"priority": 0}], "strategy": "required"}
    null = {"units": [{"priority": None, "nodeSelector": None}], "strategy": None}
    answer = await api.call("PUT", ONE, {**stored, "spec": null})
    assert answer.json["spec"] == stored["spec"]


async def test_the_largest_policy_can_be_changed_and_listed(api):
    stored = await api.create(PATH, LARGEST)
    changed = {"spec": {"strategy": "prefer"}}
    assert (await api.call("PATCH", ONE, changed, headers=MERGE)).status == 200
    assert (await api.call("GET", PATH)).json["items"][0]["spec"]["units"] == (
        stored["spec"]["units"]
    )


async def test_unknown_fields_are_refused_or_warned_of_and_never_stored(api):
    obj = policy({"name": "od", "nonsense": 3}, nonsense={"a": 1})
    strict = await api.call("POST", PATH, obj, **STRICT)
    assert strict.status == 400
    assert 'unknown field "spec.units[0].nonsense"' in strict.json["message"]
    assert 'unknown field "spec.nonsense"' in strict.json["message"]
    warned = await api.call("POST", PATH, obj)
    assert 'unknown field \\"spec.nonsense\\"' in "".join(warned.headers.getall("Warning"))
    assert warned.json["spec"]["units"] == [{"name": "od", "priority": 0}]
    assert "nonsense" not in warned.json["spec"]


HEAD = b'{"apiVersion":"scheduling.sigs.x-k8s.io/v1alpha1","kind":"ResourcePolicy","metadata":{'
BODY = HEAD + b'"name":"p"},"spec":%s}'


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        (b'{"units":[{"maxCount":1%s}]}' % (b"0" * 18), 422),
        (b'{"units":[{"maxCount":1%s}]}' % (b"0" * 30), 422),
        (b'{"units":[{"maxCount":1%s}]}' % (b"0" * 400), 400),
        (b'{"units":[{"maxCount":1%s}]}' % (b"0" * 5000), 400),
        (b'{"units":[{"maxCount":1e400}]}', 400),
        (b'{"units":[{"maxCount":NaN}]}', 400),
        (b'{"units":[{"maxCount":-0.0,"priority":1e2}]}', 201),
        (b'{"units":[{"maxResources":{"cpu":99999999999999999999}}]}', 422),
        (b'{"units":[{"maxResources":{"cpu":"1e400"}}]}', 422),
        (b'{"units":[{"maxResources":{"cpu":"1e99","memory":"1e-99"}}]}', 201),
        (b'{"units":[{"maxResources":{"cpu":null}}]}', 201),
        (b'{"units":[{"name":"a\\u0000b"}]}', 422),
        (b'{"units":%s%s}' % (b"[" * 100, b"]" * 100), 422),
        (b'{"units":%s%s}' % (b"[" * 50_000, b"]" * 50_000), 400),
        (b'{"units":%s1%s}' % (b'{"a":' * 50_000, b"}" * 50_000), 400),
        (b'{"units":[%s]}' % b",".join([b"{}"] * 100_000), 422),
        (b'{"units":[{}],"matchLabelKeys":[%s]}' % b",".join([b'"a"'] * 100_000), 422),
        (
            b'{"units":[{"podLabels":{%s}}]}' % b",".join(b'"k%d":""' % i for i in range(50_000)),
            422,
        ),
        (b'{"units":[{"name":"%s"}]}' % (b"a" * 1_000_000), 422),
        (b'{"units":[{"maxResources":{"%s":1}}]}' % (b"a" * 1_000_000), 422),
        (b"[]", 422),
        (b'"text"', 422),
        (b"null", 422),
        (b"{", 400),
    ],
    ids=lambda value: value[:40] if isinstance(value, bytes) else str(value),
)
async def test_hostile_bodies_are_answered(api, spec, status):
    answer = await api.call("POST", PATH, BODY % spec, headers={"content-type": "application/json"})
    assert answer.status == status, answer.body[:2000]
    assert len(answer.body) < 100_000
    assert (await api.call("GET", PATH)).status == 200


async def test_a_hostile_patch_is_answered(api):
    stored = await api.create(PATH, policy())
    for count in (b"1" + b"0" * 400, b'"many"', b"-1", b"1.5", b"[]"):
        body = b'{"spec":{"units":[{"maxCount":%s}]}}' % count
        answer = await api.call("PATCH", ONE, body, headers=MERGE)
        assert answer.status in (400, 422), answer.json
    assert (await api.call("GET", ONE)).json == stored


STATUS = {
    "observedGeneration": 1,
    "usage": "od 2/2, spot 1/3",
    "headroom": "2",
    "units": [
        {
            "name": "od",
            "nodes": 2,
            "pods": 2,
            "maxCount": 2,
            "resources": {"cpu": "2"},
            "maxResources": {"cpu": 3},
            "groups": [{"labels": {"pod-template-hash": "h1"}, "pods": 2}],
        },
        {"name": "spot", "nodes": 2, "pods": 1, "maxCount": 3},
    ],
    "conditions": [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Valid",
            "message": "",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        },
        {"type": "OverCapacity", "status": "False", "lastTransitionTime": None},
    ],
}


async def test_the_status_is_written_only_by_its_subresource(api):
    stored = await api.create(PATH, {**policy(), "status": STATUS})
    assert "status" not in stored
    spec = {"units": [{"name": "other"}]}
    answer = await api.call("PUT", f"{ONE}/status", {**stored, "spec": spec, "status": STATUS})
    assert (answer.json["status"], answer.json["spec"]) == (STATUS, stored["spec"])
    assert answer.json["metadata"]["generation"] == 1
    answer = await api.call("PATCH", ONE, {"status": None, "spec": spec}, headers=MERGE)
    assert (answer.json["status"], answer.json["metadata"]["generation"]) == (STATUS, 2)


@pytest.mark.parametrize(
    ("status", "field"),
    [
        ({"units": {}}, "status.units"),
        ({"units": [{"pods": "2"}]}, "status.units[0].pods"),
        ({"usage": 3}, "status.usage"),
        ({"conditions": [{"type": "Ready"}]}, "status.conditions[0].status"),
        (
            {"conditions": [{"type": "Ready", "status": "Maybe"}]},
            "status.conditions[0].status",
        ),
        (
            {"conditions": [{"type": "Ready", "status": "True"}] * 2},
            "status.conditions[1]",
        ),
        ([], "status"),
    ],
)
async def test_a_wrong_status_is_refused_with_the_field(api, status, field):
    await api.create(PATH, policy())
    answer = await api.call("PATCH", f"{ONE}/status", {"status": status}, headers=MERGE)
    assert (answer.status, fields(answer)[0]) == (422, field)


async def test_P047_the_table_shows_strategy_pods_of_each_unit_and_headroom(api):
    stored = await api.create(PATH, policy(strategy="prefer"))
    as_table = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}

    async def table():
        found = (await api.call("GET", PATH, headers=as_table)).json
        return found["columnDefinitions"], [row["cells"] for row in found["rows"]]

    columns, rows = await table()
    shown = ["Name", "Strategy", "Pods", "Headroom", "Ready", "Age"]
    assert [column["name"] for column in columns] == shown
    assert [column["name"] for column in columns if column["priority"]] == ["Ready"]
    assert rows[0][:5] == ["p", "prefer", None, None, None]
    await api.call("PUT", f"{ONE}/status", {**stored, "status": STATUS})
    _, rows = await table()
    assert rows[0][:5] == ["p", "prefer", "od 2/2, spot 1/3", "2", "True"]
