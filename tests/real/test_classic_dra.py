"""Classic DRA on a real kube-apiserver: converted pods, the webhook, shadows, a kit's driver.

The node is our agent, which treats a shadow as every kubelet treats a claim. The controllers of
Kubernetes create pods of deployments and delete what belongs to deleted pods.
"""

import base64
import json
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml

from agent.process_cluster import short_directory
from free_port import free_port
from holdfast.api.classic_dra.names import POD_CLAIMS
from holdfast.api.classic_dra.shadows import SHADOW_POOL
from holdfast.cli.driver.project import write_project
from holdfast.testing import a_namespace, a_pod
from real.control_plane import program
from real.programs import create, holdfast, kube_controller_manager, until

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
DRIVER = Path(__file__).parent / "classic_driver_program.py"
SPACE, NODE, DRIVERS = "classic", "classic-1", "board-example-com"
CLASSIC, SHADOWS = "resourceclaims.dra.holdfast.dev", "resourceclaims.resource.k8s.io"
STORY = """
apiVersion: core.k8s.io/v1alpha1
kind: ResourceClass
metadata: {name: board}
driverName: board.example.com
---
apiVersion: board.example.com/v1
kind: BoardRequest
metadata: {name: two, namespace: classic}
boards: 2
---
apiVersion: core.k8s.io/v1alpha1
kind: ResourceClaim
metadata: {name: common, namespace: classic}
spec: {resourceClassName: board}
---
apiVersion: v1
kind: Pod
metadata: {name: story, namespace: classic}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: none
    command: [sh, -c, "env > OUT/story; exec sleep 1000"]
    resources: {claims: [two]}
  - name: other
    image: none
    command: [sh, -c, "env > OUT/other; exec sleep 1000"]
  resourceClaims:
  - name: two
    template:
      resourceClassName: board
      parametersRef: {apiGroup: board.example.com, kind: BoardRequest, name: two}
---
apiVersion: batch/v1
kind: Job
metadata: {name: batch, namespace: classic}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: none
        command: [sh, -c, "env > OUT/batch"]
        resources: {claims: [one]}
      resourceClaims:
      - name: one
        template: {resourceClassName: board}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: classic}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: none
        command: [sh, -c, "env > `mktemp OUT/web-XXXX`; exec sleep 1000"]
        resources: {claims: [common]}
      resourceClaims:
      - name: common
        claim: {resourceClaimName: common}
"""


@contextmanager
def running(log, started, *command):
    """Run a program until the end of the block; it must end without an error."""
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, *map(str, command)], stdout=out, stderr=out)
    try:
        until(lambda: started in log.read_text() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        process.wait(30)
    assert process.returncode == 0, log.read_text()


@contextmanager
def webhook(plane, directory):
    """Run the webhook and register it, as deploy/webhook does but at an address of this machine."""
    port, tls = free_port(), directory / "tls"
    make = ("webhook", "--make-certificates", "--cert-dir", str(tls), "--dns-name", "127.0.0.1")
    bundle = run_holdfast(*make).partition("caBundle: ")[2].strip()
    flags = ("--host", "127.0.0.1", "--port", port, "--cert-dir", tls)
    log = directory / "webhook.log"
    command = ("-m", "holdfast", "webhook", *flags)
    url = f"https://127.0.0.1:{port}/pods"
    with running(log, "answering reviews", *command), registered(plane, url, bundle):
        yield


@contextmanager
def registered(plane, url, bundle):
    """Register a webhook; return when the API server calls it."""
    manifests = (ROOT / "deploy/webhook/classic-dra.yaml").read_text()
    [config] = [obj for obj in yaml.safe_load_all(manifests) if "webhooks" in obj]
    config["webhooks"][0]["clientConfig"] = {"url": url, "caBundle": bundle}
    apply(plane, config)
    entries = [{"name": "a", "claim": {"resourceClaimName": "a"}}]
    probe = json.dumps(annotated("probe", json.dumps(entries)))
    dry = ("create", "--dry-run=server", "-f", "-", "-o", "json")
    try:
        # It fails if the webhook does not answer.
        until(lambda: '"spec"' not in (out := plane.kubectl(*dry, text=probe, check=False))
              or "resourceClaims" in out)  # fmt: skip
        yield
    finally:
        plane.kubectl("delete", "mutatingwebhookconfiguration", config["metadata"]["name"])


def run_holdfast(*arguments, text=None):
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *arguments], input=text, capture_output=True,
        text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def apply(plane, *objects, check=True):
    """Apply objects; return what kubectl says about errors."""
    command = [program("kubectl"), "--kubeconfig", plane.kubeconfig, "apply", "-f", "-"]
    text = yaml.safe_dump_all(objects)
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
    assert not check or done.returncode == 0, done.stderr
    return done.stderr


def annotated(name, text, **more):
    """Return a pod with an annotation as users write it."""
    meta = {"generateName": "hook-", "namespace": SPACE, "annotations": {POD_CLAIMS: text}}
    if name:
        meta["name"] = name
    spec = {"containers": [{"name": "main", "image": "none"}], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@pytest.fixture(scope="module")
def plane(control_plane):
    control_plane.kubectl("apply", "-f", str(ROOT / "deploy/crds"), "-f", str(ROOT / "deploy/rbac"))
    crds = subprocess.check_output([sys.executable, DRIVER, "crds"], text=True, timeout=60)
    control_plane.kubectl("apply", "-f", "-", text=crds)
    established = ("--for=condition=Established", "--timeout=30s")
    control_plane.kubectl("wait", *established, "-f", str(ROOT / "deploy/crds"))
    control_plane.kubectl("wait", *established, "-f", "-", text=crds)
    create(control_plane, a_namespace(SPACE))
    return control_plane


@pytest.fixture
def directory():
    with short_directory() as path:
        yield path


def test_the_webhook_adds_shadows_and_refuses_what_is_wrong(plane, directory):
    entry = [{"name": "board", "claim": {"resourceClaimName": "mine"}, "containers": ["main"]}]
    pod = json.dumps(annotated("", json.dumps(entry)))
    with webhook(plane, directory):
        names = set()
        for _ in range(3):
            created = plane.kubectl("create", "-f", "-", "-o", "json", text=pod)
            spec = json.loads(created)["spec"]
            [claim] = spec["resourceClaims"]
            assert spec["containers"][0]["resources"]["claims"] == [{"name": "board"}]
            names.add(claim["resourceClaimName"])
        assert len(names) == 3
        answer = apply(plane, annotated("wrong", '[{"name": "board", "claim": {}}]'), check=False)
        assert f"metadata.annotations[{POD_CLAIMS}][0].claim: Invalid value" in answer
        shadows = [{"name": "board", "resourceClaimName": "own"}]
        apply(plane, annotated("kept", json.dumps(entry), resourceClaims=shadows))
        assert plane.get("pod", "kept", "-n", SPACE)["spec"]["resourceClaims"] == shadows
    # A webhook that does not answer stops the pods that need it, and no others.
    bundle = base64.b64encode((directory / "tls/ca.crt").read_bytes()).decode()
    with registered(plane, f"https://127.0.0.1:{free_port()}/pods", bundle):
        answer = apply(plane, annotated("refused", json.dumps(entry)), check=False)
        assert "failed calling webhook" in answer
        apply(plane, a_pod("plain", namespace=SPACE))
    plane.kubectl("delete", "pod", "--all", "-n", SPACE, "--grace-period=0", "--force")


def accounts(plane, directory):
    """Return kubeconfigs of both service accounts of a new driver's project, with its rights."""
    write_project("board.example.com", directory / "project", classic=True)
    manifests = yaml.safe_load_all((directory / "project/deploy/driver.yaml").read_text())
    apply(plane, *(obj for obj in manifests if obj["kind"] not in ("Deployment", "DaemonSet")))
    for name in ("controller", "node"):
        token = plane.kubectl("create", "token", name, "-n", DRIVERS, "--duration=1h").strip()
        path = directory / f"{name}.kubeconfig"
        path.write_text(yaml.safe_dump(plane._kubeconfig(token)))
        yield path


@pytest.fixture
def cluster(plane, directory, scheduler_kubeconfig):
    """Everything that runs: control plane, webhook, node, and both parts of the driver."""
    node = directory / "n"
    node.mkdir()
    controller, plugin = accounts(plane, directory)
    agent = ("-m", "holdfast", "agent", "--node", NODE, "--node-dir", node, "--runtime", "process",
             "--kubeconfig", plane.kubeconfig)  # fmt: skip
    served = ("--kubelet-dir", node, "--node-name", NODE, "--cdi-dir", node / "cdi")
    with ExitStack() as stack:
        enter = stack.enter_context
        enter(kube_controller_manager(plane, directory))
        enter(holdfast("scheduler", scheduler_kubeconfig, directory))
        enter(webhook(plane, directory))
        enter(running(directory / "agent.log", "running node", *agent))
        enter(running(directory / "controller.log", "allocates claims", DRIVER, "controller",
                      "--kubeconfig", controller))  # fmt: skip
        enter(running(directory / "plugin.log", "serves node", DRIVER, "plugin", *served,
                      "--kubeconfig", plugin))  # fmt: skip
        yield directory
    plane.kubectl("delete", "node", NODE)


def environment(path):
    """Return the variables that the driver gave to a container, once it has started."""
    until(lambda: path.exists() and "\nPATH=" in "\n" + path.read_text())
    pairs = (line.partition("=") for line in path.read_text().splitlines())
    return {name: value for name, _, value in pairs if name in ("BOARDS", "CLAIM")}


def test_pods_see_their_handles_and_everything_is_released(plane, cluster):
    story = STORY.replace("OUT", str(cluster))
    converted = run_holdfast("convert", "-", text=story)
    plane.kubectl("apply", "-f", "-", text=converted)
    space = ("-n", SPACE)

    def items(kind):
        return plane.get(kind, *space)["items"]

    def names(kind):
        return [obj["metadata"]["name"] for obj in items(kind)]

    def running_pods():
        return sum(pod["status"].get("phase") == "Running" for pod in items("pods"))

    until(running_pods, 3)
    found = environment(cluster / "story")
    assert (found["CLAIM"], len(found["BOARDS"].split(","))) == ("story-two", 2)
    assert environment(cluster / "other") == {}
    until(lambda: len(list(cluster.glob("web-*"))), 2)
    [first, second] = [environment(path) for path in cluster.glob("web-*")]
    assert first == second == {"CLAIM": "common", "BOARDS": first["BOARDS"]}
    assert first["BOARDS"] not in found["BOARDS"]

    # The job's pod has ended and still exists: its claims are gone.
    assert environment(cluster / "batch")["CLAIM"].startswith("batch-")
    until(lambda: sorted(names(CLASSIC)), ["common", "story-two"])
    until(lambda: len(names(SHADOWS)), 3)
    pods = {pod["metadata"]["uid"] for pod in items("pods")}
    assert len(pods) == 4
    shadows = items(SHADOWS)
    for shadow in shadows:
        [consumer], [owner] = shadow["status"]["reservedFor"], shadow["metadata"]["ownerReferences"]
        assert consumer["uid"] == owner["uid"] and owner["uid"] in pods
        [result] = shadow["status"]["allocation"]["devices"]["results"]
        assert (result["driver"], result["pool"]) == ("board.example.com", SHADOW_POOL)
    consumers = {one["metadata"]["name"]: len(one["status"]["reservedFor"])
                 for one in items(CLASSIC)}  # fmt: skip
    assert consumers == {"common": 2, "story-two": 1}
    assert len(list((cluster / "n/cdi").iterdir())) == 2  # shared by both pods of the deployment

    # One of two pods ends: what both share stays prepared.
    plane.kubectl("scale", "deployment", "web", "--replicas=1", *space)
    until(running_pods, 2)
    until(lambda: len(items(SHADOWS)), 2)
    assert len(list((cluster / "n/cdi").iterdir())) == 2
    plane.kubectl("delete", "deployment", "web", *space)
    plane.kubectl("delete", "pod", "story", *space)
    until(lambda: items(SHADOWS), [])
    until(lambda: [(one["metadata"]["name"], one["status"].get("reservedFor", []))
                   for one in items(CLASSIC)], [("common", [])])  # fmt: skip
    assert list((cluster / "n/cdi").iterdir()) == []
    log = (cluster / "plugin.log").read_text()
    assert [log.count(f"unprepared {name}") for name in ("common", "story-two")] == [1, 1]
    plane.kubectl("delete", CLASSIC, "common", *space)
    until(lambda: items(CLASSIC), [])
    log = (cluster / "controller.log").read_text()
    for name in ("common", "story-two"):
        assert log.count(f"released {name} boards order True") == 1
    # Nothing is being allocated: a deleted node takes its inventory with it.
    inventory = ("nodeinventories", "-A")
    until(lambda: [one["metadata"].get("finalizers", []) for one in plane.get(*inventory)["items"]],
          [[]])  # fmt: skip
