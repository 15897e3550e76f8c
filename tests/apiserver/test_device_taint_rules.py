"""DeviceTaintRules: served behind their gate, validated, with a status and a time of the taint."""

import pytest

from apiserver.server_fixture import start_server
from holdfast.controllers.discovery import discover
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.testing import VirtualClock, a_taint_rule

PATH = "/apis/resource.k8s.io/v1beta2/devicetaintrules"
GATES = FeatureGates.parse("DRADeviceTaintRules=true")
MERGE = {"content-type": "application/merge-patch+json"}
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
CONDITION = {
    "type": "EvictionInProgress",
    "status": "True",
    "reason": "PodsPendingEviction",
    "message": "1 pod needs to be evicted",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


@pytest.fixture
async def served(tmp_path):
    """A server with the gate, and its virtual clock."""
    clock = VirtualClock()
    async with start_server(tmp_path, clock=clock, feature_gates=GATES) as api:
        yield api, clock


async def test_rules_are_not_served_without_the_gate(api):
    assert (await api.call("GET", PATH)).status == 404
    listed = (await api.call("GET", "/apis/resource.k8s.io/v1beta2")).json["resources"]
    assert "devicetaintrules" not in {one["name"] for one in listed}


async def test_a_rule_is_served_in_v1beta2_only_with_columns_and_status(served):
    api, _ = served
    made = await api.create(PATH, a_taint_rule(value="x", driver="gpu.example.com"))
    assert made["metadata"]["generation"] == 1
    assert made["spec"]["taint"].pop("timeAdded")
    assert made["spec"] == {
        "deviceSelector": {"driver": "gpu.example.com"},
        "taint": {"key": "example.com/broken", "value": "x", "effect": "NoSchedule"},
    }
    for version in ("v1", "v1beta1"):
        assert (await api.call("GET", PATH.replace("v1beta2", version))).status == 404
    table = (await api.call("GET", PATH, headers=TABLE)).json
    assert [c["name"] for c in table["columnDefinitions"]] == [
        "Name",
        "Key",
        "Value",
        "Effect",
        "TimeAdded",
        "Age",
    ]
    assert table["rows"][0]["cells"] == ["r", "example.com/broken", "x", "NoSchedule", "0s", "0s"]
    body = {"status": {"conditions": [CONDITION]}, "spec": {"taint": {"value": "other"}}}
    answer = await api.call("PATCH", f"{PATH}/r/status", body, headers=MERGE)
    assert answer.json["status"] == {"conditions": [CONDITION]}
    assert answer.json["spec"]["taint"]["value"] == "x"
    assert answer.json["metadata"]["generation"] == 1
    # The main resource does not change the status.
    answer = await api.call("PATCH", f"{PATH}/r", {"status": None}, headers=MERGE)
    assert answer.json["status"] == {"conditions": [CONDITION]}


async def test_the_time_follows_the_effect(served):
    api, clock = served
    first = (await api.create(PATH, a_taint_rule()))["spec"]["taint"]["timeAdded"]

    async def change(**taint):
        answer = await api.call("PATCH", f"{PATH}/r", {"spec": {"taint": taint}}, headers=MERGE)
        assert answer.status == 200, answer.body
        return answer.json["spec"]["taint"]["timeAdded"], answer.json["metadata"]["generation"]

    await clock.advance(60)
    assert await change(value="y") == (first, 2)
    renewed, generation = await change(effect="NoExecute")
    assert (renewed > first, generation) == (True, 3)
    chosen = "2020-01-01T00:00:00Z"
    assert await change(effect="None", timeAdded=chosen) == (chosen, 4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"taint": {"key": "", "effect": "None"}}, "spec.taint.key: Invalid value"),
        ({"taint": {"key": "a b", "effect": "None"}}, "spec.taint.key: Invalid value"),
        (
            {"taint": {"key": "a", "value": "a b", "effect": "None"}},
            "spec.taint.value: Invalid value",
        ),
        ({"taint": {"key": "a"}}, "spec.taint.effect: Required value"),
        (
            {"taint": {"key": "a", "effect": "Evict"}},
            'spec.taint.effect: Unsupported value: "Evict": supported values: "NoExecute", '
            '"NoSchedule", "None"',
        ),
        ({"deviceSelector": {"driver": "a_b"}}, "spec.deviceSelector.driver: Invalid value"),
        ({"deviceSelector": {"driver": ""}}, "spec.deviceSelector.driver: Required value"),
        (
            {"deviceSelector": {"driver": "a" * 64}},
            "spec.deviceSelector.driver: Too long: may not be more than 63 bytes",
        ),
        ({"deviceSelector": {"pool": "a//b"}}, "spec.deviceSelector.pool: Invalid value"),
        ({"deviceSelector": {"device": "A"}}, "spec.deviceSelector.device: Invalid value"),
        ({}, "spec.taint.key: Invalid value"),
    ],
)
async def test_a_wrong_rule_is_rejected(served, change, message):
    api, _ = served
    good = {"taint": {"key": "a", "effect": "None"}}
    spec = {**good, **change} if change else {}
    answer = await api.call("POST", PATH, {"metadata": {"name": "r"}, "spec": spec})
    assert (answer.status, message in answer.json["message"]) == (422, True), answer.json["message"]


async def test_wrong_conditions_are_rejected(served):
    api, _ = served
    await api.create(PATH, a_taint_rule())
    for conditions, message in (
        ([CONDITION, CONDITION], "status.conditions[1].type: Duplicate value"),
        ([{**CONDITION, "status": "Maybe"}], "status.conditions[0].status: Unsupported value"),
        ([{**CONDITION, "reason": ""}], "status.conditions[0].reason: Required value"),
        (
            [{**CONDITION, "type": f"t{i}"} for i in range(9)],
            "status.conditions: Too many: 9: must have at most 8 items",
        ),
    ):
        body = {"status": {"conditions": conditions}}
        answer = await api.call("PATCH", f"{PATH}/r/status", body, headers=MERGE)
        assert (answer.status, message in answer.json["message"]) == (422, True), message


async def test_controllers_find_each_resource_in_one_version(served):
    api, _ = served
    found = [r for r in await discover(api.client()) if r.group == "resource.k8s.io"]
    assert {r.plural: r.version for r in found} == {
        "deviceclasses": "v1",
        "devicetaintrules": "v1beta2",
        "resourceclaims": "v1",
        "resourceclaimtemplates": "v1",
        "resourceslices": "v1",
    }
    assert len(found) == 5
