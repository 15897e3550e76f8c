"""``holdfast explain`` reads DeviceTaintRules of Kubernetes 1.36 and 1.37."""

import io
import json

import pytest
from typer.testing import CliRunner

from holdfast.cli.app import app
from holdfast.cli.explain import explain_lines
from holdfast.testing import a_claim, a_device_class, a_node, a_pod, a_slice, a_taint_rule

POD = a_pod("p", resource_claims=[{"name": "dev", "resourceClaimName": "c"}])
V1, V1BETA2 = "resource.k8s.io/v1", "resource.k8s.io/v1beta2"
ON, OFF = "DRADeviceTaintRules=true", "DRADeviceTaintRules=false"


def objects(version):
    return [
        a_node("n1"), a_device_class("gpu"), a_slice("s", node="n1"), a_claim("c"), POD,
        {**a_taint_rule(), "apiVersion": version},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("version", "gates", "release", "fits"),
    [
        (V1, "", "", False),  # only 1.37 serves it so, where the gate is on
        (V1, "", "1.37", False),
        (V1, "", "v1.37.1+k3s1", False),
        (V1, "", "1.36", True),
        (V1, OFF, "", True),
        (V1, OFF, "1.37", True),
        (V1BETA2, "", "", True),
        (V1BETA2, ON, "", False),
        (V1BETA2, "", "1.37", False),
        (V1BETA2, "", "1.40", False),
    ],
)
def test_rules_are_followed_as_in_the_release_that_the_file_is_of(
    tmp_path, version, gates, release, fits
):
    path = tmp_path / "snapshot.json"
    path.write_text("\n".join(json.dumps(each) for each in objects(version)))
    command = ["explain", "--snapshot", str(path), "--pod", "p", "-o", "json"]
    command += ["--feature-gates", gates, "--kubernetes-version", release]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["schedulable"] is fits
    line = {"objects": objects(version), "pod": "p", "featureGates": gates,
            "kubernetesVersion": release}  # fmt: skip
    out = io.BytesIO()
    explain_lines([json.dumps(line).encode()], out)
    assert json.loads(out.getvalue())["schedulable"] is fits


@pytest.mark.parametrize("release", ["new", "1", "1.x", "1.37beta", "1." + "9" * 5000])
def test_a_release_that_is_none_is_refused(tmp_path, release):
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(POD))
    command = ["explain", "--snapshot", str(path), "--pod", "p", "--kubernetes-version", release]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 2
    assert "is not a release of Kubernetes: write it as 1.37" in done.output
