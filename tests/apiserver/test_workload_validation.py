"""Invalid numbers in workloads are rejected with upstream's messages."""

from __future__ import annotations

from apiserver.media_types import MERGE
from holdfast.testing import a_deployment

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or "
    "'93%', regex used for validation is '[0-9]+%')"
)


def deployment(**spec):
    made = a_deployment("web", replicas=1)
    made["spec"] |= spec
    return made


ROLL_OUTS = (
    ("maxSurge", "Ki", f'Invalid value: "Ki": {PERCENT}'),
    ("maxSurge", "\u0663%", f'Invalid value: "\u0663%": {PERCENT}'),
    ("maxSurge", "9" * 5000 + "%", "must not be greater than 999999999%"),
    ("maxSurge", -1, "Invalid value: -1: must be greater than or equal to 0"),
    ("maxUnavailable", "101%", 'Invalid value: "101%": must not be greater than 100%'),
)
SCALES = (
    {"spec": {"replicas": 10**30}}, {"spec": {"replicas": 1 << 31}}, {"spec": {"replicas": "3"}},
    {"spec": {"replicas": -1}}, {"spec": {"replicas": 1.5}}, {"spec": []}, {"metadata": []},
    {"metadata": "x"}, {"metadata": {"resourceVersion": 7}}, [], "x", 7,
)  # fmt: skip


async def test_a_roll_out_by_something_that_is_no_number(api):
    for part, value, message in ROLL_OUTS:
        body = deployment(strategy={"type": "RollingUpdate", "rollingUpdate": {part: value}})
        answer = await api.call("POST", DEPLOYMENTS, body)
        assert answer.status == 422, answer.body
        cause = answer.json["details"]["causes"][0]
        assert cause["field"] == f"spec.strategy.rollingUpdate.{part}"
        assert message in cause["message"]


async def test_a_roll_out_that_cannot_progress_is_rejected(api):
    limits = {"maxSurge": "0%", "maxUnavailable": 0}
    body = deployment(strategy={"type": "RollingUpdate", "rollingUpdate": limits})
    answer = await api.call("POST", DEPLOYMENTS, body)
    assert "may not be 0 when `maxSurge` is 0" in answer.json["message"]
    for limits in ({"maxSurge": 0, "maxUnavailable": 1}, {"maxSurge": 1, "maxUnavailable": 0}):
        body = deployment(strategy={"type": "RollingUpdate", "rollingUpdate": limits})
        assert (await api.call("POST", f"{DEPLOYMENTS}?dryRun=All", body)).status == 201
    for seconds in ({"minReadySeconds": 5}, {"minReadySeconds": 0}, {}):
        least = seconds.get("minReadySeconds", 0)
        late = deployment(progressDeadlineSeconds=least, **seconds)
        answer = await api.call("POST", DEPLOYMENTS, late)
        assert "must be greater than minReadySeconds" in answer.json["message"]
        in_time = deployment(progressDeadlineSeconds=least + 1, **seconds)
        assert (await api.call("POST", f"{DEPLOYMENTS}?dryRun=All", in_time)).status == 201


async def test_a_scale_of_the_wrong_shape_is_refused(api):
    await api.create(DEPLOYMENTS, deployment())
    path = f"{DEPLOYMENTS}/web/scale"
    headers = {"content-type": "application/json-patch+json"}
    for change in SCALES:
        answer = await api.call("PATCH", path, change, headers=MERGE)
        assert answer.status in (400, 422), answer.body
        if isinstance(change, dict):
            whole = (await api.call("GET", path)).json | change
            assert (await api.call("PUT", path, whole)).status in (400, 422)
            operations = [{"op": "replace", "path": f"/{k}", "value": v} for k, v in change.items()]
            answer = await api.call("PATCH", path, operations, headers=headers)
            assert answer.status in (400, 422), answer.body
    assert (await api.call("GET", path)).json["spec"]["replicas"] == 1


async def test_a_scale_without_metadata_or_replicas_is_read_as_go_reads_it(api):
    await api.create(DEPLOYMENTS, deployment())
    path = f"{DEPLOYMENTS}/web/scale"
    answer = await api.call("PATCH", path, {"metadata": None}, headers=MERGE)
    assert answer.status == 200, answer.body
    answer = await api.call("PATCH", path, {"spec": None}, headers=MERGE)
    assert answer.json["spec"]["replicas"] == 0
