"""Tenants against the policies of deploy/admission, on a real kube-apiserver.

A tenant has edit in one namespace and the CRDs of Holdfast are installed. No scheduler runs.
"""

import json
import subprocess
from pathlib import Path

import pytest

from holdfast.api.allocation_keys import ALLOCATION_ANNOTATIONS
from holdfast.api.reservation_names import IGNORED
from holdfast.api.scheme import POD_MIGRATION_JOBS
from holdfast.testing import a_namespace, a_pod
from holdfast.testing.builders import an_object
from real.control_plane import SERVICE_ACCOUNT, program
from real.programs import create, kube_controller_manager, until

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "examples" / "74-tenants"
FOLDERS = ("deploy/crds", "deploy/admission", "deploy/rbac")
SPACE = "tenants"
SCHEDULER = SERVICE_ACCOUNT + "holdfast-scheduler"
REFUSAL = "only the scheduler may write it"
KEYS = pytest.mark.parametrize("key", ALLOCATION_ANNOTATIONS)
RIGHTS = [
    {"apiGroups": [""], "resources": ["pods/status", "pods/resize", "pods/ephemeralcontainers"],
     "verbs": ["patch", "update"]},
    {"apiGroups": [""], "resources": ["bindings", "pods/binding"], "verbs": ["create"]},
]  # fmt: skip
"""More than edit: what a tenant gets that may write everything of its pods."""


class Tenants:
    """kubectl in one namespace as different users."""

    def __init__(self, plane):
        self.plane = plane

    def ask(self, *arguments, user="tenant", body=None):
        """Return whether a command succeeded, and all that it printed."""
        command = [program("kubectl"), "--kubeconfig", self.plane.kubeconfig, "-n", SPACE]
        who = ["--as", user] if user else []
        text = None if body is None else json.dumps(body)
        done = subprocess.run(
            [*command, *who, *arguments], input=text, text=True, capture_output=True
        )
        return done.returncode == 0, done.stdout + done.stderr

    def create(self, body, *flags, user="tenant"):
        return self.ask("create", "-f", "-", *flags, user=user, body=body)

    def bind(self, pod, annotations=None, *, collection=False, user="tenant"):
        meta = {"name": pod, "namespace": SPACE, "annotations": annotations or {}}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta,
                "target": {"kind": "Node", "name": "n"}}  # fmt: skip
        path = f"/api/v1/namespaces/{SPACE}/" + (
            "bindings" if collection else f"pods/{pod}/binding"
        )
        return self.ask("create", "--raw", path, "-f", "-", user=user, body=body)

    def annotate(self, pod, key, text, *flags, user="tenant"):
        change = json.dumps({"metadata": {"annotations": {key: text}}})
        return self.ask("patch", "pod", pod, "--type=merge", "-p", change, *flags, user=user)

    def annotations(self, pod):
        return self.plane.get("pod", pod, "-n", SPACE)["metadata"].get("annotations", {})


@pytest.fixture(scope="module")
def tenants(control_plane):
    plane = control_plane
    for folder in FOLDERS:
        plane.kubectl("apply", "-f", str(ROOT / folder))
    create(plane, a_namespace(SPACE), {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "more", "namespace": SPACE}, "rules": RIGHTS,
    })  # fmt: skip
    # No controller aggregates roles here: the rules of edit are those of these two.
    for role in (
        "clusterrole=system:aggregate-to-edit",
        "clusterrole=system:aggregate-to-view",
        "role=more",
    ):
        flags = (f"--{role}", "--user=tenant", "-n", SPACE)
        plane.kubectl("create", "rolebinding", role.rpartition(":")[2].replace("=", "-"), *flags)
    found = Tenants(plane)
    probe = pod("probe", {ALLOCATION_ANNOTATIONS[0]: "{}"}, node="n")
    until(lambda: REFUSAL in found.create(probe, "--dry-run=server")[1])
    probe = pod("probe", {ALLOCATION_ANNOTATIONS[0]: "{}"})
    until(lambda: "Warning" in found.create(probe, "--dry-run=server")[1])
    yield found
    plane.kubectl("delete", "pods", "--all", "-n", SPACE, "--grace-period=0", "--force")
    plane.kubectl("delete", "namespace", SPACE, "--wait=false")
    plane.kubectl("delete", "-f", str(ROOT / "deploy/admission"))


def pod(name, annotations=None, **more):
    return a_pod(name, namespace=SPACE, annotations=annotations, **more)


def assert_refused(answer, key):
    allowed, said = answer
    assert not allowed
    assert f"metadata.annotations[{key}]: {REFUSAL}" in said
    assert "Forbidden" in said or "forbidden" in said


@KEYS
def test_a_tenant_writes_no_allocation(tenants, key):
    number = ALLOCATION_ANNOTATIONS.index(key)
    name, status = f"given-{number}", ("--subresource=status",)
    assert_refused(tenants.create(pod("x", {key: "{}"}, node="n")), key)
    assert tenants.create(pod(name, {key: "{}"}, node="n"), user=None)[0]
    for flags in ((), ("--dry-run=server",), status):
        for text in ("true", None):
            assert_refused(tenants.annotate(name, key, text, *flags), key)
        for kind in ("json", "strategic"):
            change = (
                [{"op": "replace", "path": "/metadata/annotations", "value": {}}]
                if kind == "json"
                else {"metadata": {"annotations": {key: "true"}}}
            )
            command = ("patch", "pod", name, f"--type={kind}", "-p", json.dumps(change))
            assert_refused(tenants.ask(*command, *flags), key)
    stored = tenants.plane.get("pod", name, "-n", SPACE)
    del stored["metadata"]["annotations"]
    assert_refused(tenants.ask("replace", "-f", "-", body=stored), key)
    for part in ("resize", "ephemeralcontainers"):
        # The API server takes no annotations here.
        tenants.annotate(name, key, "true", f"--subresource={part}")
    assert tenants.annotations(name)[key] == "{}"
    assert tenants.annotate(name, "mine", "1")[0]


@KEYS
def test_a_pod_without_a_node_may_have_one_with_a_warning(tenants, key):
    name = f"copied-{ALLOCATION_ANNOTATIONS.index(key)}"
    allowed, said = tenants.create(pod(name, {key: "{}"}))
    assert allowed
    assert f"metadata.annotations[{key}]: only the scheduler writes it" in said
    for collection in (False, True):
        assert_refused(tenants.bind(name, {key: "true"}, collection=collection), key)
    assert tenants.bind(name, {key: ""}, user=SCHEDULER)[0]
    assert tenants.annotations(name)[key] == ""


@KEYS
def test_the_scheduler_records_what_it_gives(tenants, key):
    name = f"recorded-{ALLOCATION_ANNOTATIONS.index(key)}"
    assert tenants.create(pod(name))[0]
    assert_refused(tenants.annotate(name, key, "{}", user="tenant"), key)
    for who in ("holdfast-controllers", "holdfast-descheduler"):
        assert not tenants.annotate(name, key, "{}", user=SERVICE_ACCOUNT + who)[0]
    assert tenants.annotate(name, key, "{}", user=SCHEDULER)[0]
    assert tenants.bind(name, {key: "true"}, user=SCHEDULER)[0]
    assert tenants.annotations(name)[key] == "true"


def test_only_who_may_bind_pods_names_their_node(tenants):
    """The recipe of docs/security.md, with its policy for spec.nodeName."""
    plane = tenants.plane
    team = ("-f", str(RECIPE / "tenant.yaml"), "-f", str(RECIPE / "reservation.yaml"))
    policy = ("-f", str(RECIPE / "node-names.yaml"))
    plane.kubectl("apply", *team)
    plane.kubectl("apply", *policy)
    plane.kubectl("create", "rolebinding", "plain", "--clusterrole=system:aggregate-to-edit",
                  "--user=plain", "--user=system:node:mirroring", "-n", SPACE)  # fmt: skip
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "mirroring"}}
    try:
        uid = json.loads(plane.kubectl("create", "-f", "-", "-o", "json", text=json.dumps(node)))[
            "metadata"
        ]["uid"]
        named = pod("named", node="n")
        until(lambda: "spec.nodeName" in tenants.create(named, "--dry-run=server", user="plain")[1])
        assert tenants.create(pod("named"), "--dry-run=server", user="plain")[0]
        assert tenants.create(named, "--dry-run=server")[0], "the tenant may bind pods"
        owner = {"apiVersion": "v1", "kind": "Node", "name": "mirroring", "uid": uid,
                 "controller": True}  # fmt: skip
        mirror = pod("mirror", {"kubernetes.io/config.mirror": "x"}, node="mirroring",
                     metadata={"ownerReferences": [owner]})  # fmt: skip
        flags = ("--dry-run=server", "--as-group=system:nodes")
        assert tenants.create(mirror, *flags, user="system:node:mirroring")[0]
    finally:
        plane.kubectl("delete", *policy)
        plane.kubectl("delete", "--wait=false", *team)
        plane.kubectl("delete", "node", "mirroring", "--ignore-not-found")


def test_the_roles_of_users_do_not_have_the_right(tenants):
    roles = tenants.plane.get("clusterroles", "-l", "kubernetes.io/bootstrapping")["items"]
    for role in roles:
        if role["metadata"]["name"].startswith("system:aggregate-to"):
            assert "scheduling.holdfast.dev" not in json.dumps(role["rules"])


ENTERS = {IGNORED: "true"}
NEEDS_ROOM = 'needs the verb "use" on reservedroom.scheduling.holdfast.dev'
CONTROLLERS = SERVICE_ACCOUNT + "holdfast-controllers"


def workloads(labels):
    """Return one object of every kind that makes pods."""
    template = {
        "metadata": {"labels": {"app": "x", **labels}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    once = {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": template}
    cron = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": once}}}
    core = {"selector": {"app": "x"}, "template": template}
    for version, kind, part in (
        ("apps/v1", "Deployment", {"spec": spec}),
        ("apps/v1", "ReplicaSet", {"spec": spec}),
        ("apps/v1", "StatefulSet", {"spec": {**spec, "serviceName": "s"}}),
        ("apps/v1", "DaemonSet", {"spec": spec}),
        ("batch/v1", "Job", {"spec": {"template": once}}),
        ("batch/v1", "CronJob", {"spec": cron}),
        ("v1", "ReplicationController", {"spec": core}),
    ):
        meta = {"name": "w", "namespace": SPACE}
        yield {"apiVersion": version, "kind": kind, "metadata": meta, **part}


def test_a_tenant_enters_no_reserved_room(tenants):
    assert NEEDS_ROOM in tenants.create(pod("enters", labels=ENTERS))[1]
    assert tenants.create(pod("later"))[0]
    change = json.dumps({"metadata": {"labels": ENTERS}})
    for flags in ((), ("--subresource=status",)):
        command = ("patch", "pod", "later", "--type=merge", "-p", change, *flags)
        assert NEEDS_ROOM in tenants.ask(*command)[1]
    for body in workloads(ENTERS):
        assert NEEDS_ROOM in tenants.create(body)[1], body["kind"]
    for body in workloads({}):
        assert tenants.create(body)[0], body["kind"]
        if body["kind"] != "Job":  # its template cannot be changed at all
            new = next(w for w in workloads(ENTERS) if w["kind"] == body["kind"])
            assert NEEDS_ROOM in tenants.ask("apply", "-f", "-", body=new)[1], body["kind"]
        assert tenants.ask("delete", body["kind"], "w")[0]
    tenants.plane.kubectl(
        "create", "rolebinding", "room", "--clusterrole=holdfast-reserved-room", "--user=tenant",
        "-n", SPACE,
    )  # fmt: skip
    assert tenants.create(pod("enters", labels=ENTERS))[0]
    tenants.plane.kubectl("delete", "rolebinding", "room", "-n", SPACE)


@pytest.mark.parametrize("credentials", ["true", "false"])
def test_controllers_make_the_pods_of_permitted_templates(tenants, tmp_path, credentials):
    """kube-controller-manager works with one user or with a service account a controller."""
    name = f"permitted-{credentials}"
    deployment = next(workloads(ENTERS))
    deployment["metadata"]["name"] = name
    template = deployment["spec"]["template"]
    template["metadata"]["labels"]["app"] = name
    deployment["spec"]["selector"]["matchLabels"]["app"] = name
    assert tenants.create(deployment, user=None)[0]
    flags = {"use-service-account-credentials": credentials}
    key = tenants.plane.directory / "service-account.key"
    flags["service-account-private-key-file"] = key

    def running():
        found = tenants.plane.get("pods", "-n", SPACE, "-l", f"app={name}")["items"]
        return len(found)

    with kube_controller_manager(tenants.plane, tmp_path, **flags):
        until(running, 1)
    tenants.plane.kubectl("delete", "deployment", name, "-n", SPACE)


def test_a_job_with_a_template_needs_the_right_to_create_reservations(tenants):
    def job(**options):
        spec = {"podRef": {"namespace": SPACE, "name": "p"}}
        spec |= {"reservationOptions": options} if options else {}
        return an_object(POD_MIGRATION_JOBS, "tenants", spec)

    plane = tenants.plane
    plane.kubectl("create", "clusterrole", "tenants-jobs", "--verb=create,get,patch",
                  "--resource=podmigrationjobs.scheduling.koordinator.sh")  # fmt: skip
    plane.kubectl("create", "clusterrolebinding", "tenants-jobs", "--clusterrole=tenants-jobs",
                  "--user=tenant", f"--user={CONTROLLERS}")  # fmt: skip
    template = {"spec": {"owners": [{"object": {}}]}}
    refusal = 'needs the verb "create" on reservations.scheduling.koordinator.sh'
    try:
        until(lambda: refusal in tenants.create(job(template=template))[1])
        assert tenants.create(job())[0]

        def patch(spec, user):
            change = json.dumps({"spec": spec})
            command = ("patch", "podmigrationjob", "tenants", "--type=merge", "-p", change)
            return tenants.ask(*command, user=user)

        given = {"reservationOptions": {"template": template}}
        assert refusal in patch(given, "tenant")[1]
        assert patch(given, CONTROLLERS)[0]
        assert patch({"paused": True}, "tenant")[0]
        other = {"reservationOptions": {"template": {"spec": {"ttl": "1h"}}}}
        assert refusal in patch(other, "tenant")[1]
    finally:
        plane.kubectl("delete", "podmigrationjob", "tenants", "--ignore-not-found")
        plane.kubectl("delete", "clusterrole", "tenants-jobs")
        plane.kubectl("delete", "clusterrolebinding", "tenants-jobs")
