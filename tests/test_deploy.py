"""The files in deploy/rbac are consistent; tests/real uses them on a real control plane."""

import json

from holdfast.controllers.controller_manager import BESIDE_KUBERNETES
from rights import objects, rights_of_role

ACCOUNTS = {"holdfast-scheduler", "holdfast-controllers"}


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
    assert named("ClusterRole") == named("Role") == ACCOUNTS


def test_the_controllers_may_list_and_watch_what_they_need():
    rights = rights_of_role("holdfast-controllers")
    for controller in BESIDE_KUBERNETES:
        for resource in controller.required_resources:
            for verb in ("list", "watch"):
                assert (resource.group, resource.plural, verb) in rights
