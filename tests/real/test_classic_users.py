"""What ClusterRoles of Kubernetes give users of classic DRA, on a real control plane.

deploy/rbac and the project of a driver label their roles, and kube-controller-manager aggregates.
"""

from pathlib import Path

import pytest

from holdfast.cli.driver.project import write_project
from holdfast.testing import a_namespace
from real.programs import create, kube_controller_manager, until

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
SPACE = "classic-users"
CLAIMS = "resourceclaims.dra.holdfast.dev"
CLASSES = "resourceclasses.dra.holdfast.dev"
PARAMETERS = "requirements.users.example.com"


def test_editors_get_the_rights_to_claims_and_to_their_parameters(control_plane, tmp_path):
    plane = control_plane
    write_project("users.example.com", tmp_path / "p", classic=True)
    files = [ROOT / "deploy/crds", ROOT / "deploy/rbac"]
    files += [tmp_path / "p/deploy" / name for name in ("crds.yaml", "users.yaml")]
    for path in files:
        plane.kubectl("apply", "-f", str(path))
    create(plane, a_namespace(SPACE))
    for role in ("edit", "view"):
        flags = (f"--clusterrole={role}", f"--user={role}", "-n", SPACE)
        plane.kubectl("create", "rolebinding", role, *flags)

    def may(user, verb, resource, namespace=SPACE):
        command = ("auth", "can-i", verb, resource, "-n", namespace, "--as", user)
        group = ("--as-group=system:authenticated",)
        return plane.kubectl(*command, *group, check=False).strip()

    try:
        with kube_controller_manager(plane, tmp_path):
            for resource in (CLAIMS, PARAMETERS):
                until(lambda what=resource: may("edit", "create", what), "yes")
                until(lambda what=resource: may("view", "list", what), "yes")
        for user in ("edit", "view"):
            assert may(user, "list", CLASSES) == "yes"
            assert may(user, "create", CLASSES) == "no"
            assert may(user, "get", CLAIMS, "default") == "no"
        for resource in (CLAIMS, PARAMETERS):
            assert may("view", "create", resource) == "no"
            assert may("edit", "get", resource) == "yes"
    finally:
        plane.kubectl("delete", "namespace", SPACE, "--wait=false")
        for name in ("users.yaml", "crds.yaml"):
            plane.kubectl("delete", "-f", str(tmp_path / "p/deploy" / name))
