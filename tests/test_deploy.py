"""The files in deploy/rbac are consistent; tests/real uses them on a real control plane."""

import json

import pytest

from holdfast.api.resource import Resource
from holdfast.api.scheme import EVENTS, NODES, PODS, SERVICES
from holdfast.apiserver.inprocess import InProcessTransport
from holdfast.apiserver.user import User
from holdfast.client.client import Client
from holdfast.controllers.controller_manager import BESIDE_KUBERNETES
from holdfast.errors import Forbidden
from holdfast.testing import a_node, a_pod
from holdfast.testing.harness import Harness
from rights import objects, rights_of_role

ACCOUNTS = {"holdfast-scheduler", "holdfast-controllers", "holdfast-descheduler"}
OF_DRIVERS = {f"holdfast-classic-driver{part}" for part in ("", "-lease", "-node")}
"""Roles for the service accounts of drivers."""


def named(*kinds):
    return {obj["metadata"]["name"] for obj in objects() if obj["kind"] in kinds}


def test_no_right_has_a_wildcard():
    for obj in objects():
        assert "*" not in json.dumps(obj), obj["metadata"]["name"]


def test_bindings_name_roles_and_accounts_that_exist():
    assert named("ServiceAccount") == ACCOUNTS
    bindings = [obj for obj in objects() if obj["kind"].endswith("Binding")]
    for binding in bindings:
        assert binding["roleRef"]["name"] in named(binding["roleRef"]["kind"])
        assert {subject["name"] for subject in binding["subjects"]} <= ACCOUNTS
    bound = {subject["name"] for binding in bindings for subject in binding["subjects"]}
    assert bound == ACCOUNTS
    assert named("ClusterRole") == ACCOUNTS | OF_DRIVERS
    assert named("Role") == ACCOUNTS


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
            scheduler.list(EVENTS),
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
