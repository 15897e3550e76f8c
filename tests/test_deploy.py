"""The files in deploy are consistent; tests/real uses them on a real control plane."""

import json
import sys

import pytest
import yaml

from holdfast.api.allocation_keys import ALLOCATION_KEYS
from holdfast.api.classic_dra.names import KEP_GROUP, OWN_GROUP
from holdfast.api.resource import Resource
from holdfast.api.scheduling_rights import GROUP
from holdfast.api.scheme import EVENTS, NODES, PODS, SERVICES
from holdfast.client.client import Client
from holdfast.controllers.controller_manager import BESIDE_KUBERNETES
from holdfast.runtime.errors import Forbidden
from holdfast.server.access.bootstrap_roles import ROLES
from holdfast.server.inprocess import InProcessTransport
from holdfast.server.kinds.admission.pod_allocations import REFUSAL, WARNING
from holdfast.server.user import User
from holdfast.testing import a_node, a_pod
from holdfast.testing.harness import Harness
from rights import RBAC, objects, rights_of_role

sys.path.insert(0, str(RBAC.parents[1] / "tools"))

import generate_policies

ACCOUNTS = {"holdfast-scheduler", "holdfast-controllers", "holdfast-descheduler"}
OF_DRIVERS = {f"holdfast-classic-driver{part}" for part in ("", "-lease", "-node")}
"""Roles for the service accounts of drivers."""
VIEWER = "holdfast-classic-class-viewer"
OF_USERS = {"holdfast-classic-claims-edit", "holdfast-classic-claims-view", VIEWER}


def named(*kinds):
    return {obj["metadata"]["name"] for obj in objects() if obj["kind"] in kinds}


def test_no_right_has_a_wildcard():
    for obj in objects():
        assert "*" not in json.dumps(obj), obj["metadata"]["name"]


def test_bindings_name_roles_and_accounts_that_exist():
    assert named("ServiceAccount") == ACCOUNTS
    bindings = {
        obj["metadata"]["name"]: obj for obj in objects() if obj["kind"].endswith("Binding")
    }
    assert bindings.pop(VIEWER)["roleRef"]["name"] == VIEWER
    for binding in bindings.values():
        assert binding["roleRef"]["name"] in named(binding["roleRef"]["kind"])
        assert {subject["name"] for subject in binding["subjects"]} <= ACCOUNTS
    bound = {subject["name"] for binding in bindings.values() for subject in binding["subjects"]}
    assert bound == ACCOUNTS
    assert named("ClusterRole") == ACCOUNTS | OF_DRIVERS | OF_USERS
    assert named("Role") == ACCOUNTS


def test_users_have_the_rights_to_classic_dra_that_they_have_in_the_embedded_cluster():
    of_kubernetes = {role["metadata"]["name"]: role["rules"] for role in ROLES}
    for name, parts in (
        ("view", ["holdfast-classic-claims-view"]),
        ("edit", ["holdfast-classic-claims-view", "holdfast-classic-claims-edit"]),
        ("holdfast:classic-dra-class-viewer", [VIEWER]),
    ):
        embedded = {
            (OWN_GROUP, resource, verb)
            for rule in of_kubernetes[name]
            if KEP_GROUP in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        assert embedded == {right for part in parts for right in rights_of_role(part)}, name
    labels = {
        obj["metadata"]["name"]: obj["metadata"].get("labels", {})
        for obj in objects()
        if obj["metadata"]["name"] in OF_USERS and obj["kind"] == "ClusterRole"
    }
    for part in ("view", "edit"):
        aggregated = {f"rbac.authorization.k8s.io/aggregate-to-{part}": "true"}
        assert labels[f"holdfast-classic-claims-{part}"] == aggregated


def test_the_controllers_may_list_and_watch_what_they_need():
    rights = rights_of_role("holdfast-controllers")
    for controller in BESIDE_KUBERNETES:
        for resource in controller.required_resources:
            for verb in ("list", "watch"):
                assert (resource.group, resource.plural, verb) in rights


async def test_the_embedded_server_grants_the_same_rights(tmp_path):
    """Service accounts get no token there, but users of that name have the rights."""
    async with Harness(tmp_path) as cluster:
        for obj in objects():
            if obj["metadata"]["name"] != "holdfast-scheduler-controllers":
                namespace = obj["metadata"].get("namespace", "")
                await cluster.client.create(resource_of(obj), obj, namespace)
        await cluster.create(a_node("n"), a_pod("p"))
        scheduler, descheduler, controllers = (
            client_of(cluster, name) for name in sorted(ACCOUNTS)[::-1]
        )
        for client in (scheduler, descheduler, controllers):
            assert [pod.name for pod in (await client.list(PODS)).items] == ["p"]
            with pytest.raises(Forbidden):
                await client.create(PODS, a_pod("q"), "default")
        await scheduler.delete(PODS, "p", "default")
        assert (await controllers.get(NODES, "n")).name == "n"
        for refused in (
            controllers.delete(NODES, "n"),
            controllers.list(SERVICES),
            descheduler.delete(PODS, "q", "default"),
            scheduler.get(NODES, "n"),
            scheduler.get(EVENTS, "e", "default"),
        ):
            with pytest.raises(Forbidden):
                await refused


def resource_of(obj):
    group, _, version = obj["apiVersion"].rpartition("/")
    namespaced = "namespace" in obj["metadata"]
    plural = f"{obj['kind'].lower()}s"
    return Resource(group, version, plural, obj["kind"], dict, namespaced=namespaced)


def client_of(cluster, account):
    user = User(f"system:serviceaccount:kube-system:{account}", ("system:serviceaccounts",))
    return Client(InProcessTransport(cluster.server, user), account)


def test_the_policies_and_the_page_are_made_from_the_table():
    policy, page = generate_policies.POLICY.read_text(), generate_policies.PAGE.read_text()
    assert policy == generate_policies.policy_text(policy)
    assert page == generate_policies.page_text(page)
    for entry in ALLOCATION_KEYS:
        assert f"| `{entry.key}` | {entry.records} |" in page
        assert policy.count(f"'{entry.key}'") == 2  # the policy, and that of the warning
    for text in (REFUSAL, WARNING):
        assert f"]: {text}'" in policy


def test_the_commented_binding_for_koord_scheduler_is_valid():
    """With the comment signs removed the file grants the right to its service account."""
    text = (RBAC / "scheduler.yaml").read_text()
    _, _, hidden = text.partition("# ---\n")
    found = yaml.safe_load_all("".join(line[2:] for line in hidden.splitlines(keepends=True)))
    role, binding = found
    assert role["rules"] == [
        {"apiGroups": [GROUP], "resources": ["podallocations"], "verbs": ["write"]}
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"][0]["name"] == "koord-scheduler"


def test_the_webhook_listens_for_other_machines_only_in_its_deployment():
    text = (RBAC.parent / "webhook/classic-dra.yaml").read_text()
    [deployment] = [one for one in yaml.safe_load_all(text) if one["kind"] == "Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["holdfast", "webhook", "--host=0.0.0.0"]
