"""``holdfast driver new``: its project passes its own tests as it is written."""

import runpy
import subprocess
import sys

import pytest
import yaml

from holdfast.api.resource import Resource
from holdfast.cli.driver.project import write_project
from holdfast.runtime.errors import Forbidden, Refused
from stories.tenants import RBAC, ROLE_BINDINGS, two_tenants


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    directory = tmp_path_factory.mktemp("projects") / "gpu"
    write_project("gpu.example.com", directory)
    return directory


def test_a_new_driver_passes_the_conformance_suite_untouched(project):
    done = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


async def test_a_new_classic_driver_passes_the_conformance_suite_untouched(tmp_path):
    write_project("gpu.example.com", tmp_path / "p", classic=True)
    program = runpy.run_path(str(tmp_path / "p" / "driver.py"))
    tests = (tmp_path / "p" / "test_driver.py").read_text()
    scope = {}
    exec(tests.replace("from driver import driver\n", ""), scope)
    scope["driver"] = program["driver"]
    await scope["test_conformance"]()
    await scope["test_a_container_sees_its_share"]()
    written = {p.name: p.read_text() for p in (tmp_path / "p" / "deploy").iterdir()}
    assert list(yaml.safe_load_all(written["crds.yaml"])) == program["driver"].crds()
    for text in written.values():
        assert all(yaml.safe_load_all(text))


async def test_editors_write_the_parameters_of_a_new_classic_driver(tmp_path):
    """The manifests in an embedded cluster, as the README of the project says."""
    write_project("gpu.example.com", tmp_path / "p", classic=True)
    manifests = {
        path.name: list(yaml.safe_load_all(path.read_text()))
        for path in (tmp_path / "p" / "deploy").iterdir()
    }
    async with two_tenants(tmp_path / "store") as (cluster, jane, other):
        for obj in manifests["crds.yaml"] + manifests["users.yaml"] + manifests["class.yaml"]:
            await cluster.client.create(resource_of(obj), obj, "")
        parameters, pod = manifests["example.yaml"]
        with pytest.raises(Forbidden):
            await jane.client.create(resource_of(parameters), parameters, "a")
        edit = {"name": "gpu-example-com-parameters-edit", "kind": "ClusterRole", "apiGroup": RBAC}
        user = {"name": "a", "kind": "User", "apiGroup": RBAC}
        binding = {"metadata": {"name": "x"}, "roleRef": edit, "subjects": [user]}
        await cluster.client.create(ROLE_BINDINGS, binding, "a")
        for obj in (parameters, pod):
            await jane.client.create(resource_of(obj), obj, "a")
        for client, obj, namespace in (
            (jane.client, manifests["class.yaml"][0], ""),
            (jane.client, parameters, "b"),
            (other.client, parameters, "b"),
        ):
            with pytest.raises(Forbidden):
                await client.create(resource_of(obj), obj, namespace)
    labels = [role["metadata"]["labels"] for role in manifests["users.yaml"]]
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    assert labels == [{f"{prefix}edit": "true"}, {f"{prefix}view": "true"}]


def resource_of(obj):
    group, _, version = obj["apiVersion"].rpartition("/")
    kind = obj["kind"]
    plural = "requirements" if kind == "Requirements" else f"{kind.lower()}s".replace("sss", "sses")
    return Resource(group, version, plural, kind, dict, namespaced=kind in ("Pod", "Requirements"))


def test_the_author_writes_less_than_30_lines(project):
    lines = (project / "driver.py").read_text().splitlines()
    assert len(lines) < 30
    assert not [
        path
        for path in project.rglob("*")
        if path.is_file() and "@" in path.read_text() and path.name not in ("driver.py",)
    ]


def test_the_manifests_are_yaml_with_the_rights_that_the_kit_needs(project):
    objects = [
        obj
        for path in project.glob("deploy/*.yaml")
        for obj in yaml.safe_load_all(path.read_text())
    ]
    kinds = {obj["kind"] for obj in objects}
    assert kinds == {
        "ClusterRole",
        "ClusterRoleBinding",
        "DaemonSet",
        "DeviceClass",
        "Namespace",
        "Pod",
        "ResourceClaimTemplate",
        "ServiceAccount",
    }
    [role] = [obj for obj in objects if obj["kind"] == "ClusterRole"]
    rights = {
        (resource, verb)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    slices = {
        ("resourceslices", verb) for verb in ("get", "list", "watch", "create", "update", "delete")
    }
    assert rights == slices | {("resourceclaims", "get"), ("nodes", "get")}


def test_a_wrong_name_and_a_used_directory_are_refused(tmp_path):
    with pytest.raises(Refused, match="'My_GPU' cannot be the name of a driver: Invalid value"):
        write_project("My_GPU", tmp_path / "x")
    assert not (tmp_path / "x").exists()
    (tmp_path / "file").write_text("kept")
    with pytest.raises(Refused, match="exists already: choose another place with --directory"):
        write_project("gpu.example.com", tmp_path)
