"""Jobs, CronJobs and templates of other workloads; tests/real compares every message."""

import copy

from apiserver.job_cases import BAD, GOOD
from apiserver.media_types import MERGE
from holdfast.api.defaults import default_object
from holdfast.server.kinds.apps import check_workload
from holdfast.server.kinds.batch import check_cron_job, check_job

CHECKS = {"Job": check_job, "CronJob": check_cron_job}
CAUSES = {
    "Deployment Never": ("spec.template.spec.restartPolicy", 'supported values: "Always"'),
    "fail index without limit": (
        "spec.podFailurePolicy.rules[0].action",
        "requires the backoffLimitPerIndex to be set",
    ),
    "success more than indexes": (
        "spec.successPolicy.rules[0].succeededCount",
        "must be less than or equal to 2",
    ),
    "schedule '1- * * * *'": ("spec.schedule", 'parsing "": invalid syntax'),
    "zone unknown": ("spec.timeZone", "unknown time zone Odd/Zone"),
}


def test_jobs_and_templates_of_workloads():
    for name, (_, given) in (GOOD | BAD).items():
        body = copy.deepcopy(given)
        default_object(body)
        found = [*CHECKS.get(body["kind"], check_workload)(body)]
        assert bool(found) == (name in BAD), (name, found)
        if name in CAUSES:
            field, message = CAUSES[name]
            assert any(c.field == field and message in c.message for c in found), (name, found)


async def test_the_server_refuses_what_an_update_makes_wrong(api):
    for name, wrong in (
        ("Deployment Always", {"spec": {"template": {"spec": {"restartPolicy": "Never"}}}}),
        ("schedule @daily", {"spec": {"schedule": "@never"}}),
        ("indexed", {"spec": {"maxFailedIndexes": 1}}),
    ):
        path, body = GOOD[name]
        assert (await api.call("POST", path, body)).status == 201
        at = f"{path}/{body['metadata']['name']}"
        assert (await api.call("PATCH", at, wrong, headers=MERGE)).status == 422
        right = {"metadata": {"labels": {"a": "b"}}}
        assert (await api.call("PATCH", at, right, headers=MERGE)).status == 200
