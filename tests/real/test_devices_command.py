"""``holdfast devices`` and ``holdfast why`` against a real kube-apiserver, with rights to read."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from holdfast.testing import a_claim, a_device_class, a_namespace, a_node, a_pod, a_slice
from real.programs import create, create_nodes

pytestmark = pytest.mark.real
CRDS = str(Path(__file__).parents[2] / "deploy" / "crds")
SPACE, NODE, DRIVER = "map", "map-1", "map.example.com"
DEVICE_KINDS = ("deviceclasses", "resourceslices", "resourceclaims")
SETUP = "holdfast-scheduler"
"""The ConfigMap with the feature gates of an embedded cluster's scheduler."""
RESOURCES = ",".join(
    [
        "nodes",
        "nodeinventories.dra.holdfast.dev",
        "devices.scheduling.koordinator.sh",
        *(f"{kind}.resource.k8s.io" for kind in DEVICE_KINDS),
    ]
)


@pytest.fixture
def reader(control_plane):
    """A kubeconfig of an account that may read what the command reads, and nothing else."""
    name = "device-reader"
    control_plane.kubectl("apply", "-f", CRDS)
    control_plane.kubectl("wait", "--for=condition=Established", "-f", CRDS, "--timeout=30s")
    control_plane.kubectl("create", "serviceaccount", name, "-n", "kube-system")
    control_plane.kubectl("create", "clusterrole", name, "--verb=list", f"--resource={RESOURCES}")
    account = f"--serviceaccount=kube-system:{name}"
    control_plane.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", account)
    where, setup = ("-n", "kube-system"), f"--resource-name={SETUP}"
    may_get = ("--verb=get", "--resource=configmaps", setup)
    control_plane.kubectl("create", "role", name, *where, *may_get)
    control_plane.kubectl("create", "rolebinding", name, *where, f"--role={name}", account)
    token = control_plane.kubectl("create", "token", name, "-n", "kube-system").strip()
    path = control_plane.directory / f"{name}.kubeconfig"
    path.write_text(yaml.safe_dump(control_plane._kubeconfig(token)))
    return path


def run(*arguments, kubeconfig):
    command = [sys.executable, "-m", "holdfast", *arguments, "--kubeconfig", str(kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


def test_devices_and_what_is_in_the_way_are_shown(control_plane, reader):
    create(
        control_plane,
        a_namespace(SPACE),
        a_device_class("map", driver=DRIVER),
        a_slice("map-1", node=NODE, driver=DRIVER, devices=2),
        a_claim(namespace=SPACE, device_class="map", count=3),
        a_pod(
            "p",
            namespace=SPACE,
            resource_claims=[{"name": "d", "resourceClaimName": "c"}],
            node_selector={"map": "here"},
        ),
    )
    create_nodes(control_plane, a_node(NODE, labels={"map": "here"}))
    try:
        text = run("devices", "--driver", DRIVER, kubeconfig=reader)
        assert [line.split() for line in text.splitlines()][1:3] == [
            [DRIVER, NODE, f"gpu-{i}", NODE, "free", "-", "-"] for i in range(2)
        ]
        assert f"{DRIVER}   map-1   map-1   2         2      0" in text
        why = run("why", "p", "-n", SPACE, kubeconfig=control_plane.kubeconfig)
        assert "claim map/c, request req-0 needs 3 devices of class map, at most 2 found" in why
    finally:
        control_plane.kubectl("delete", "node", NODE)
        control_plane.kubectl("delete", "resourceslice", "map-1")
        control_plane.kubectl("delete", "deviceclass", "map")
        control_plane.kubectl("delete", "namespace", SPACE, "--wait=false")
