"""Rights to NodeResourceTopology, Device and PodMigrationJob."""

import pytest

from apiserver.role_grants import grant_in_every_namespace

TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies"
DEVICES = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
JOBS = "/apis/scheduling.koordinator.sh/v1alpha1/podmigrationjobs"
MERGE = {"content-type": "application/merge-patch+json"}


def topology(name):
    return {"metadata": {"name": name}, "topologyPolicies": ["None"], "zones": []}


def device(name):
    return {"metadata": {"name": name}, "spec": {"devices": []}}


def job(name):
    return {"metadata": {"name": name}, "spec": {"podRef": {"namespace": "n", "name": "p"}}}


@pytest.mark.parametrize(("path", "body"), [(TOPOLOGIES, topology), (DEVICES, device)])
async def test_a_node_writes_only_the_objects_of_its_name(api, path, body):
    n1 = {"impersonate-user": "system:node:n1", "impersonate-group": "system:nodes"}
    await api.create(path, body("n2"))
    for method, at, sent, code in (
        ("POST", path, body("n1"), 201),
        ("POST", path, body("n3"), 403),
        ("GET", f"{path}/n1", None, 200),
        ("GET", f"{path}/n2", None, 403),
        ("GET", path, None, 403),
        ("PATCH", f"{path}/n1", {}, 200),
        ("PATCH", f"{path}/n2", {}, 403),
        ("DELETE", f"{path}/n2", None, 403),
        ("DELETE", f"{path}/n1", None, 200),
    ):
        headers = n1 | (MERGE if method == "PATCH" else {})
        answer = await api.call(method, at, sent, headers=headers)
        assert answer.status == code, (method, at, answer.json)


async def test_the_scheduler_reads_them_and_users_of_edit_write_jobs(api):
    for role in ("view", "edit"):
        await grant_in_every_namespace(api, role, user=role)
    for user, path, body, reads, writes in (
        ("system:kube-scheduler", TOPOLOGIES, topology, 200, 403),
        ("system:kube-scheduler", DEVICES, device, 200, 403),
        ("view", TOPOLOGIES, topology, 200, 403),
        ("view", DEVICES, device, 200, 403),
        ("view", JOBS, job, 200, 403),
        ("edit", DEVICES, device, 200, 403),
        ("edit", JOBS, job, 200, 201),
    ):
        who = {"impersonate-user": user}
        assert (await api.call("GET", path, headers=who)).status == reads, (user, path)
        assert (await api.call("POST", path, body("x"), headers=who)).status == writes, (user, path)
