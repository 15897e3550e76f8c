"""Classic DRA on a real kube-apiserver: converted pods, the webhook, shadows, a kit's driver.

The node is our agent, which treats a shadow as every kubelet treats a claim. The controllers of
Kubernetes create pods of deployments and delete what belongs to deleted pods.
"""

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from agent.process_cluster import short_directory
from free_port import free_port
from holdfast.api.classic_names import POD_CLAIMS
from holdfast.testing import a_namespace
from real.programs import create, until

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
SPACE, NODE = "classic", "classic-1"
DRIVERS = "board-example-com"
CLASSIC, SHADOWS = "resourceclaims.dra.holdfast.dev", "resourceclaims.resource.k8s.io"


@contextmanager
def running(log, *command):
    """Run a program until the end of the block; it must end without an error."""
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, *map(str, command)], stdout=out, stderr=out)
    try:
        yield process
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        process.wait(30)
    assert process.returncode == 0, log.read_text()


@contextmanager
def webhook(plane, directory):
    """Run the webhook and register it, as deploy/webhook does but at an address of this machine."""
    port = free_port()
    made = subprocess.run(
        [sys.executable, "-m", "holdfast", "webhook", "--make-certificates", "--cert-dir",
         directory / "tls", "--dns-name", "127.0.0.1"],
        check=True, timeout=60, capture_output=True, text=True,
    )  # fmt: skip
    bundle = made.stdout.partition("caBundle: ")[2].strip()
    manifests = (ROOT / "deploy/webhook/classic-dra.yaml").read_text()
    [config] = [obj for obj in yaml.safe_load_all(manifests) if "webhooks" in obj]
    url = f"https://127.0.0.1:{port}/pods"
    config["webhooks"][0]["clientConfig"] = {"url": url, "caBundle": bundle}
    log = directory / "webhook.log"
    flags = ("--host", "127.0.0.1", "--port", port, "--cert-dir", directory / "tls")
    with running(log, "-m", "holdfast", "webhook", *flags):
        until(lambda: "answering reviews" in log.read_text())
        plane.kubectl("apply", "-f", "-", text=json.dumps(config))
        try:
            yield
        finally:
            plane.kubectl("delete", "mutatingwebhookconfiguration", config["metadata"]["name"])


def annotated(name, text, **more):
    """Return a pod with an annotation as users write it."""
    meta = {"namespace": SPACE, "annotations": {POD_CLAIMS: text}, **name}
    spec = {"containers": [{"name": "main", "image": "none"}], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@pytest.fixture(scope="module")
def plane(control_plane):
    control_plane.kubectl("apply", "-f", str(ROOT / "deploy/crds"), "-f", str(ROOT / "deploy/rbac"))
    control_plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    create(control_plane, a_namespace(SPACE))
    return control_plane


@pytest.fixture
def directory():
    with short_directory() as path:
        yield path


def apply(plane, *objects, check=True):
    text = yaml.safe_dump_all(objects)
    done = subprocess.run(
        [*plane_kubectl(plane), "apply", "-f", "-"], input=text, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert not check or done.returncode == 0, done.stderr
    return done.stderr


def plane_kubectl(plane):
    from real.control_plane import program

    return [program("kubectl"), "--kubeconfig", plane.kubeconfig]


def test_the_webhook_adds_shadows_and_refuses_what_is_wrong(plane, directory):
    entry = [{"name": "board", "claim": {"resourceClaimName": "mine"}, "containers": ["main"]}]
    pod = annotated({"generateName": "hook-"}, json.dumps(entry))
    with webhook(plane, directory):

        def created(*flags):
            text = plane.kubectl("create", "-f", "-", "-o", "json", *flags, text=json.dumps(pod))
            return json.loads(text)["spec"]

        until(lambda: "resourceClaims" in created("--dry-run=server"))
        names = set()
        for _ in range(3):
            spec = created()
            [claim] = spec["resourceClaims"]
            assert spec["containers"][0]["resources"]["claims"] == [{"name": "board"}]
            names.add(claim["resourceClaimName"])
        assert len(names) == 3
        wrong = annotated({"name": "wrong"}, '[{"name": "board", "claim": {}}]')
        answer = apply(plane, wrong, check=False)
        assert f"metadata.annotations[{POD_CLAIMS}][0].claim: Invalid value" in answer
        shadows = [{"name": "board", "resourceClaimName": "own"}]
        kept = annotated({"name": "kept"}, json.dumps(entry), resourceClaims=shadows)
        apply(plane, kept)
        assert plane.get("pod", "kept", "-n", SPACE)["spec"]["resourceClaims"] == shadows
    plane.kubectl("delete", "pod", "--all", "-n", SPACE, "--grace-period=0", "--force")
