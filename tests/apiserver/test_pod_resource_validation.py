"""Resources of whole pods and the templates of Jobs; tests/real compares every message."""

import copy

import pytest

from apiserver.media_types import MERGE
from apiserver.pod_resource_cases import BAD, GOOD, JOBS, job
from holdfast.api.defaults import default_object
from holdfast.server.kinds.batch import check_cron_job, check_job
from holdfast.server.kinds.validation.pods import check_pod

CHECKS = {"Pod": check_pod, "Job": check_job, "CronJob": check_cron_job}
POD_LEVEL = 'supported values: "cpu", "hugepages-", "memory"'
CAUSES = {
    "storage": ("spec.resources.limits[ephemeral-storage]", POD_LEVEL),
    "claims": ("spec.resources.claims", "claims may not be set for Resources at pod-level"),
    "windows": ("spec.resources", "may not be set for a windows pod"),
    "less than its containers": (
        "spec.resources.requests[cpu]",
        '"1": must be greater than or equal to aggregate container requests of 1200m',
    ),
    "container above its limit": (
        "spec.resources.containers[1][cpu].limits",
        '"2": must be less than or equal to pod limits of 1',
    ),
    "huge, less than its containers": (
        "spec.resources.limits[hugepages-2Mi]",
        "aggregate container limits of 4Mi",
    ),
    "job without policy": (
        "spec.template.spec.restartPolicy",
        'Required value: valid values: "OnFailure", "Never"',
    ),
    "job with wrong resources of the pod": (
        "spec.template.spec.resources.requests[pods]",
        POD_LEVEL,
    ),
    "cron job with negative counts": ("spec.jobTemplate.spec.parallelism", "Invalid value: -1"),
}


@pytest.mark.parametrize("name", [*GOOD, *BAD])
def test_resources_of_pods_and_templates_of_jobs(name):
    body = copy.deepcopy((GOOD | BAD)[name][1])
    default_object(body)
    found = [*CHECKS[body["kind"]](body)]
    assert bool(found) == (name in BAD)
    if name in CAUSES:
        field, message = CAUSES[name]
        assert any(cause.field == field and message in cause.message for cause in found)


async def test_the_server_refuses_a_job_with_a_wrong_template(api):
    answer = await api.call("POST", JOBS, BAD["job without policy"][1])
    assert answer.status == 422
    assert (await api.call("POST", JOBS, job()[1])).status == 201
    change = {"spec": {"template": {"spec": {"restartPolicy": "Always"}}}}
    assert (await api.call("PATCH", f"{JOBS}/j", change, headers=MERGE)).status == 422
