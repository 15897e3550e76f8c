"""Pods that ignore reservations need a right, and so do templates of them; reservations of jobs."""

import pytest

from apiserver.role_grants import TENANT, create_role, grant, grant_in_every_namespace
from apiserver.sample_objects import PODS, binding, labelled, pod
from holdfast.api.reservation_names import IGNORED

CONTROLLERS = {"impersonate-user": "system:kube-controller-manager"}
MERGE = {"content-type": "application/merge-patch+json"}
JOBS = "/apis/scheduling.koordinator.sh/v1alpha1/podmigrationjobs"
ENTERS = {IGNORED: "true"}
USE = ("scheduling.holdfast.dev", ["reservedroom"], ["use"])
REFUSAL = 'needs the verb "use" on reservedroom.scheduling.holdfast.dev'


def template(labels, **spec):
    containers = [{"name": "c", "image": "i"}]
    return {
        "metadata": {"labels": {"app": "x", **labels}},
        "spec": {"containers": containers, **spec},
    }


def workload(kind, labels):
    """Return the path, the object, and the path of its template."""
    meta, selector = {"name": "w"}, {"matchLabels": {"app": "x"}}
    never = template(labels, restartPolicy="Never")
    at = "/apis/apps/v1/namespaces/default"
    batch = at.replace("apps", "batch")
    core = "/api/v1/namespaces/default"
    spec = {"selector": selector, "template": template(labels)}
    job = {"template": never}
    cron = {"schedule": "* * * * *", "jobTemplate": {"spec": job}}
    return {
        "Deployment": (f"{at}/deployments", {"metadata": meta, "spec": spec}),
        "ReplicaSet": (f"{at}/replicasets", {"metadata": meta, "spec": spec}),
        "StatefulSet": (f"{at}/statefulsets",
                        {"metadata": meta, "spec": {**spec, "serviceName": "s"}}),
        "DaemonSet": (f"{at}/daemonsets", {"metadata": meta, "spec": spec}),
        "Job": (f"{batch}/jobs", {"metadata": meta, "spec": job}),
        "CronJob": (f"{batch}/cronjobs", {"metadata": meta, "spec": cron}),
        "ReplicationController": (
            f"{core}/replicationcontrollers",
            {"metadata": meta, "spec": {"selector": {"app": "x"}, "template": template(labels)}},
        ),
    }[kind]  # fmt: skip


KINDS = pytest.mark.parametrize(
    "kind",
    ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob",
     "ReplicationController"],
)  # fmt: skip


def assert_forbidden(answer):
    assert answer.status == 403, answer.json
    assert REFUSAL in answer.json["message"]
    assert f"metadata.labels[{IGNORED}]" in answer.json["message"]


async def test_a_tenant_cannot_create_a_pod_that_ignores_reservations(tenant):
    for query in ("", "?dryRun=All"):
        made = await tenant.call("POST", f"{PODS}{query}", labelled("a", **ENTERS), headers=TENANT)
        assert_forbidden(made)
    for text in ("false", "True", ""):
        made = labelled(f"a{len(text)}", **{IGNORED: text})
        assert (await tenant.call("POST", PODS, made, headers=TENANT)).status == 201


async def test_a_tenant_cannot_label_its_pod_later(tenant):
    await tenant.create(PODS, pod("a"))
    await tenant.create(PODS, labelled("b", **ENTERS))
    change = {"metadata": {"labels": ENTERS}}
    assert_forbidden(await tenant.call("PATCH", f"{PODS}/a", change, headers=TENANT | MERGE))
    await create_role(tenant, "status", ("", ["pods/status"], ["patch"]))
    await grant(tenant, "status")
    status = await tenant.call("PATCH", f"{PODS}/a/status", change, headers=TENANT | MERGE)
    assert_forbidden(status)
    for change in ({"x": "y"}, {IGNORED: None}):
        body = {"metadata": {"labels": change}}
        answer = await tenant.call("PATCH", f"{PODS}/b", body, headers=TENANT | MERGE)
        assert answer.status == 200


async def test_a_binding_cannot_label_a_pod_without_the_right(tenant):
    await create_role(tenant, "binder", ("", ["pods/binding"], ["create"]))
    await grant(tenant, "binder")
    await tenant.create(PODS, pod("a"))
    body = binding("a", "n1", labels=ENTERS)
    assert_forbidden(await tenant.call("POST", f"{PODS}/a/binding", body, headers=TENANT))


async def test_a_user_with_the_right_may_in_its_namespace(tenant):
    await create_role(tenant, "room", USE)
    await grant(tenant, "room")
    made = await tenant.call("POST", PODS, labelled("a", **ENTERS), headers=TENANT)
    assert made.status == 201
    await tenant.create("/api/v1/namespaces", {"metadata": {"name": "other"}})
    await grant(tenant, "edit", "other")
    other = PODS.replace("default", "other")
    assert_forbidden(await tenant.call("POST", other, labelled("a", **ENTERS), headers=TENANT))


@KINDS
async def test_the_template_of_a_workload_needs_the_right_of_its_author(tenant, kind):
    path, body = workload(kind, ENTERS)
    assert_forbidden(await tenant.call("POST", path, body, headers=TENANT))
    _, plain = workload(kind, {})
    made = await tenant.call("POST", path, plain, headers=TENANT)
    assert made.status == 201, made.json
    if kind != "Job":  # its template cannot be changed at all
        answer = await tenant.call("PATCH", f"{path}/w", body, headers=TENANT | MERGE)
        assert_forbidden(answer)


@KINDS
async def test_a_template_with_the_label_may_be_changed_otherwise(tenant, kind):
    path, body = workload(kind, ENTERS)
    assert (await tenant.call("POST", path, body)).status == 201
    change = {"metadata": {"labels": {"x": "y"}}}
    answer = await tenant.call("PATCH", f"{path}/w", change, headers=TENANT | MERGE)
    assert answer.status == 200, answer.json


async def test_controllers_make_the_pods_of_templates(tenant):
    made = await tenant.call("POST", PODS, labelled("a", **ENTERS), headers=CONTROLLERS)
    assert made.status == 201
    _, body = workload("ReplicaSet", ENTERS)
    path = "/apis/apps/v1/namespaces/default/replicasets"
    assert (await tenant.call("POST", path, body, headers=CONTROLLERS)).status == 201


@pytest.mark.parametrize("labels", [7, [], "x", {IGNORED: True}, {IGNORED: ["true"]}])
async def test_labels_of_a_wrong_type_are_no_server_error(tenant, labels):
    body = pod("a")
    body["metadata"]["labels"] = labels
    assert 400 <= (await tenant.call("POST", PODS, body, headers=TENANT)).status < 500


def job(**options):
    spec = {"podRef": {"namespace": "default", "name": "p"}}
    if options:
        spec["reservationOptions"] = options
    return {"metadata": {"name": "j"}, "spec": spec}


RESERVED = {"spec": {"owners": [{"object": {}}]}}


async def test_a_job_with_a_template_needs_the_right_to_create_reservations(api):
    await create_role(api, "jobs", ("scheduling.koordinator.sh", ["podmigrationjobs"],
                                    ["create", "patch", "update"]))  # fmt: skip
    await grant_in_every_namespace(api, "jobs")
    refused = await api.call("POST", JOBS, job(template=RESERVED), headers=TENANT)
    assert refused.status == 403
    assert 'verb "create" on reservations.scheduling.koordinator.sh' in refused.json["message"]
    assert (await api.call("POST", JOBS, job(), headers=TENANT)).status == 201
    change = {"spec": {"reservationOptions": {"template": RESERVED}}}
    at = f"{JOBS}/j"
    assert (await api.call("PATCH", at, change, headers=TENANT | MERGE)).status == 403
    # The controller completes the template, and the user may change the rest of the job.
    assert (await api.call("PATCH", at, change, headers=CONTROLLERS | MERGE)).status == 200
    paused = {"spec": {"paused": True}}
    assert (await api.call("PATCH", at, paused, headers=TENANT | MERGE)).status == 200
    other = {"spec": {"reservationOptions": {"template": {"spec": {"ttl": "1h"}}}}}
    assert (await api.call("PATCH", at, other, headers=TENANT | MERGE)).status == 403
    await create_role(api, "reserving", ("scheduling.koordinator.sh", ["reservations"], ["create"]))
    await grant_in_every_namespace(api, "reserving")
    assert (await api.call("PATCH", at, other, headers=TENANT | MERGE)).status == 200
