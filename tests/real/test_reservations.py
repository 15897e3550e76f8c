"""Reservations on a real kube-apiserver and etcd with `holdfast scheduler`.

No kubelet runs: the test creates Node objects that are Ready, pods are bound but never run, and a
deleted pod is removed at once.
"""

import json
import signal
import subprocess
import sys
import time
import urllib.request
from functools import partial
from pathlib import Path

import pytest

from free_port import free_port
from holdfast.testing import a_node, a_pod, a_reservation
from real.control_plane import program

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
HERE = {"pool": "reservations"}
ALLOCATED = "scheduling.koordinator.sh/reservation-allocated"
OWNER_NAMESPACES = "scheduling.holdfast.dev/owner-namespaces"
HOST = "kubernetes.io/hostname"
NODES = ("rsv-0", "rsv-1", "rsv-2")


class Cluster:
    """kubectl commands on the control plane."""

    def __init__(self, plane):
        self.kubectl = plane.kubectl
        self.kubeconfig = plane.kubeconfig
        self.get = plane.get

    def create(self, *objects):
        for raw in objects:
            self.kubectl("create", "-f", "-", text=json.dumps(raw))

    def refusal(self, raw):
        command = [program("kubectl"), "--kubeconfig", self.kubeconfig, "create", "-f", "-"]
        done = subprocess.run(command, input=json.dumps(raw), text=True, capture_output=True)
        assert done.returncode, done.stdout
        return done.stderr

    def field(self, kind, name, path):
        return self.kubectl("get", kind, name, "-o", f"jsonpath={path}")

    def phase(self, name):
        return self.field("reservation", name, "{.status.phase}")

    def node_of(self, pod):
        return self.field("pod", pod, "{.spec.nodeName}")

    def used(self, name):
        return self.field("reservation", name, "{.status.allocated.cpu}")

    def condition(self, name, type_):
        found = self.get("reservation", name)["status"].get("conditions", ())
        return next((c for c in found if c["type"] == type_), {})

    def events(self, name):
        found = self.get("events", "--field-selector", f"involvedObject.name={name}")["items"]
        return {event["reason"] for event in found}

    def forget(self, kind, *names):
        now = ("--grace-period=0", "--force") if kind == "pod" else ()
        self.kubectl("delete", kind, *names, *now)


def until(question, wanted=True, seconds=60):
    deadline = time.monotonic() + seconds
    while (answer := question()) != wanted:
        assert time.monotonic() < deadline, f"still {answer!r}, wanted {wanted!r}"
        time.sleep(0.1)


class Scheduler:
    """`holdfast scheduler` in its own process, which can be killed and started again."""

    def __init__(self, kubeconfig, directory):
        self.port = free_port()
        self._log = directory / "log"
        self._command = [
            sys.executable, "-m", "holdfast", "scheduler", "--no-leader-elect", "--kubeconfig",
            kubeconfig, "--health-port", str(self.port), "--check-invariants",
        ]  # fmt: skip
        self.process = None

    def start(self):
        self._log.write_text("")
        with self._log.open("ab") as out:
            self.process = subprocess.Popen(self._command, stdout=out, stderr=out)
        until(lambda: "scheduling for" in self._log.read_text())

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.terminate()
        assert self.process.wait(30) == 0, self._log.read_text()


@pytest.fixture(scope="module")
def plane(control_plane):
    cluster = Cluster(control_plane)
    cluster.kubectl("apply", "-f", str(ROOT / "deploy" / "crds"))
    cluster.kubectl(
        "wait", "--for=condition=Established", "-f", str(ROOT / "deploy" / "crds"), "--timeout=30s"
    )
    for name in NODES:
        node = a_node(name, cpu="16", memory="32Gi", labels=HERE)
        cluster.create(node)
        status = json.dumps({"status": node["status"]})
        cluster.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", status)
        cluster.kubectl("taint", "node", name, "node.kubernetes.io/not-ready-", check=False)
    yield cluster
    cluster.kubectl("delete", "node", *NODES)


@pytest.fixture(scope="module")
def scheduler(plane, scheduler_kubeconfig, tmp_path_factory):
    running = Scheduler(scheduler_kubeconfig, tmp_path_factory.mktemp("scheduler"))
    running.start()
    yield running
    running.stop()


@pytest.fixture
def cluster(plane, scheduler):
    yield plane
    assert scheduler.process.poll() is None
    plane.kubectl("delete", "reservation", "--all")
    plane.kubectl("delete", "pod", "--all", "--grace-period=0", "--force")


def held(name="r", cpu="4", *, labels=None, node=None, **more):
    template = {"node_selector": HERE, "node": node, **more.pop("template", {})}
    return a_reservation(name, cpu=cpu, owner_labels=labels or {"app": "web"}, template=template,
                         **more)  # fmt: skip


def pod(name, cpu="4", *, node=None, **more):
    more.setdefault("node_selector", HERE)
    return a_pod(name, cpu=cpu, node=node, **more)


def owner(name="owner", cpu="4", **more):
    return pod(name, cpu, labels={"app": "web"}, **more)


def test_the_quick_start_of_the_guide(cluster):
    example = ROOT / "examples" / "10-reservation"
    cluster.kubectl("create", "-f", str(example / "reservation-demo.yaml"))
    until(lambda: cluster.phase("reservation-demo"), "Available")
    head, row = cluster.kubectl("get", "reservation", "-o", "wide").splitlines()
    assert head.split() == ["NAME", "PHASE", "AGE", "NODE", "TTL", "EXPIRES"]
    node = cluster.field("reservation", "reservation-demo", "{.status.nodeName}")
    name, phase, _age, *rest = row.split()
    assert (name, phase, rest) == ("reservation-demo", "Available", [node, "1h"])
    cluster.kubectl("create", "-f", str(example / "pod-demo-0.yaml"))
    until(lambda: cluster.node_of("pod-demo-0"), node)
    until(lambda: cluster.phase("reservation-demo"), "Succeeded")
    status = cluster.get("reservation", "reservation-demo")["status"]
    assert status["allocated"] == {"cpu": "200m", "memory": "400Mi"}
    assert [o["name"] for o in status["currentOwners"]] == ["pod-demo-0"]
    until(lambda: cluster.events("reservation-demo") >= {"Scheduled", "Succeeded"})


def test_R059_an_expired_reservation_frees_its_capacity_for_pending_pods(cluster):
    cluster.create(*[held(f"all-{i}", "16", ttl="8s") for i in range(3)])
    until(lambda: {cluster.phase(f"all-{i}") for i in range(3)}, {"Available"})
    cluster.create(pod("stranger"))
    until(lambda: "Insufficient cpu" in cluster.field(
        "pod", "stranger", "{.status.conditions[?(@.type=='PodScheduled')].message}"))  # fmt: skip
    until(lambda: {cluster.phase(f"all-{i}") for i in range(3)}, {"Failed"})
    assert cluster.condition("all-0", "Ready")["reason"] == "Expired"
    until(lambda: bool(cluster.node_of("stranger")))
    until(lambda: "Expired" in cluster.events("all-0"))


def test_R016_concurrent_owners_and_each_reservation_is_allocated_once(cluster):
    cluster.create(*[held(f"once-{i}") for i in range(3)])
    until(lambda: {cluster.phase(f"once-{i}") for i in range(3)}, {"Available"})
    nodes = [cluster.field("reservation", f"once-{i}", "{.status.nodeName}") for i in range(3)]
    for at, name in enumerate(NODES):
        left = 16 - 4 * nodes.count(name)
        cluster.create(pod(f"filler-{at}", str(left), node=name))
    racers = {"apiVersion": "v1", "kind": "List", "items": [owner(f"racer-{i}") for i in range(8)]}
    cluster.create(racers)
    until(lambda: {cluster.phase(f"once-{i}") for i in range(3)}, {"Succeeded"})
    racing = [p for p in cluster.get("pods")["items"] if p["metadata"]["name"][:5] == "racer"]
    bound = [p for p in racing if p["spec"].get("nodeName")]
    taken = [json.loads(p["metadata"]["annotations"][ALLOCATED])["name"] for p in bound]
    assert sorted(taken) == ["once-0", "once-1", "once-2"]
    users = [cluster.get("reservation", f"once-{i}")["status"]["currentOwners"] for i in range(3)]
    assert {o["name"] for each in users for o in each} == {p["metadata"]["name"] for p in bound}


def test_the_pods_of_a_deleted_reservation_keep_running(cluster):
    cluster.create(held("r", "16", node="rsv-0", allocate_once=False))
    until(lambda: cluster.phase("r"), "Available")
    cluster.create(owner("a"))
    until(lambda: cluster.used("r"), "4")
    cluster.create(pod("stranger", "12", node_name=None, affinity=on("rsv-0")))
    until(lambda: "FailedScheduling" in cluster.events("stranger"))
    assert cluster.node_of("stranger") == ""
    cluster.forget("reservation", "r")
    until(lambda: cluster.node_of("stranger"), "rsv-0")
    assert cluster.node_of("a") == "rsv-0"


def on(name):
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def test_R067_a_killed_scheduler_restores_its_state_after_the_restart(cluster, scheduler):
    """A restarted scheduler knows deleted owners, the remaining capacity and the reservations."""
    cluster.create(held("r", "8", node="rsv-0", allocate_once=False))
    until(lambda: cluster.phase("r"), "Available")
    cluster.create(owner("stays"), owner("goes"))
    until(lambda: cluster.used("r"), "8")
    scheduler.kill()
    cluster.forget("pod", "goes")
    cluster.create(pod("filler", "8", node="rsv-0"))
    assert cluster.used("r") == "8"
    scheduler.start()
    until(lambda: cluster.used("r"), "4")
    cluster.create(owner("too-big", "8", affinity=on("rsv-0")))
    cluster.create(owner("fits", "4", affinity=on("rsv-0")))
    until(lambda: cluster.node_of("fits"), "rsv-0")
    assert cluster.node_of("too-big") == ""
    until(lambda: cluster.used("r"), "8")


def test_R016_a_scheduler_killed_among_concurrent_owners_allocates_once(cluster, scheduler):
    """A restarted scheduler continues from the binds and statuses that were stored."""
    cluster.create(held("r", "12", node="rsv-0", allocate_once=False))
    until(lambda: cluster.phase("r"), "Available")
    cluster.create(pod("filler", "4", node="rsv-0"))
    racers = [owner(f"racer-{i}", affinity=on("rsv-0")) for i in range(6)]
    cluster.create({"apiVersion": "v1", "kind": "List", "items": racers})
    until(lambda: bool(placed(cluster, "racer")))
    scheduler.kill()
    scheduler.start()
    until(lambda: cluster.used("r"), "12")
    until(lambda: len(cluster.get("reservation", "r")["status"]["currentOwners"]), 3)
    bound = placed(cluster, "racer")
    assert len(bound) == 3
    assert {json.loads(p["metadata"]["annotations"][ALLOCATED])["name"] for p in bound} == {"r"}
    cluster.forget("pod", bound[0]["metadata"]["name"])
    until(lambda: len(placed(cluster, "racer")), 3)


def placed(cluster, prefix):
    found = cluster.get("pods")["items"]
    named = [p for p in found if p["metadata"]["name"].startswith(prefix)]
    return [p for p in named if p["spec"].get("nodeName")]


def test_R063_an_expired_reservation_frees_what_its_owner_does_not_use(cluster):
    cluster.create(held("r", "16", node="rsv-0", allocate_once=False, ttl="6s"))
    until(lambda: cluster.phase("r"), "Available")
    cluster.create(owner("a"), pod("stranger", "12", affinity=on("rsv-0")))
    until(lambda: cluster.used("r"), "4")
    assert cluster.node_of("stranger") == ""
    until(lambda: cluster.phase("r"), "Failed")
    until(lambda: cluster.node_of("stranger"), "rsv-0")
    assert cluster.node_of("a") == "rsv-0"
    assert cluster.used("r") == "4", "the value at its end"


def test_R073_a_pre_allocating_reservation_waits_for_a_running_pod(cluster):
    cluster.create(pod("filler", "12", node="rsv-0"), owner("old", affinity=on("rsv-0")))
    until(lambda: cluster.node_of("old"), "rsv-0")
    cluster.create(held("r", node="rsv-0", pre_allocation=True))
    until(lambda: cluster.phase("r"), "Waiting")
    until(lambda: cluster.field("reservation", "r", "{.status.currentOwners[*].name}"), "old")
    cluster.create(pod("stranger", affinity=on("rsv-0")))
    until(lambda: "FailedScheduling" in cluster.events("stranger"))
    cluster.forget("pod", "old")
    until(lambda: cluster.phase("r"), "Available")
    cluster.create(owner("new"))
    until(lambda: cluster.phase("r"), "Succeeded")
    assert (cluster.node_of("new"), cluster.node_of("stranger")) == ("rsv-0", "")


def test_a_reservation_is_resized_on_its_node(cluster):
    cluster.create(held("r", "4", node="rsv-1"))
    until(lambda: cluster.phase("r"), "Available")
    for cpu, size, resized in (("10", "10", "True"), ("20", "10", "False"), ("2", "2", "True")):
        spec = {"template": held("r", cpu, node="rsv-1")["spec"]["template"]}
        cluster.kubectl(
            "patch", "reservation", "r", "--type=merge", "-p", json.dumps({"spec": spec})
        )
        until(
            lambda wanted=resized: cluster.condition("r", "Resized").get("status"), wanted=resized
        )
        assert cluster.field("reservation", "r", "{.status.allocatable.cpu}") == size


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"ttl": "-1h"}, "spec.ttl: Invalid value: \"-1h\": must not be negative; 0 means never"),
        ({"owners": [{}]}, "spec.owners[0]"),
        ({"owners": [{"controller": {"kind": "Job"}}]},
         "spec.owners[0].controller: Required value: name or uid is required"),
        ({"owners": [{"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}]},
         "In and NotIn need values"),
        ({"allocatePolicy": "Foo"}, "spec.allocatePolicy: Unsupported value: \"Foo\""),
    ],
)  # fmt: skip
def test_R072_the_crd_refuses_invalid_reservations(plane, spec, words):
    raw = held()
    raw["spec"] |= spec
    assert words in plane.refusal(raw)


def test_an_invalid_reservation_that_the_server_accepts_gets_a_condition(cluster):
    cluster.create(held("odd", template={"overhead": {"cpu": "-1"}}))
    words = (
        'spec.template.spec.overhead[cpu]: Invalid value: "-1": must be greater than or equal to 0'
    )
    until(lambda: cluster.condition("odd", "Scheduled").get("message"), words)
    raw = held("unreadable")
    raw["spec"]["template"]["spec"]["containers"] = "none"
    cluster.create(raw)
    until(lambda: cluster.condition("unreadable", "Scheduled").get("reason"), "Unschedulable")
    message = cluster.condition("unreadable", "Scheduled")["message"]
    assert message.startswith("spec.template.spec.containers: ")


def test_the_admission_policies_refuse_invalid_templates_and_false_reserve_pods(plane):
    plane.kubectl("apply", "-f", str(ROOT / "deploy" / "admission"))
    try:
        until(lambda: "must be quantities" in try_out(plane, held("bad", "-1")))
        pretender = pod("pretender", annotations={"scheduling.koordinator.sh/reserve-pod": "true"})
        until(lambda: "cannot set in annotations" in try_out(plane, pretender))
        shared = held("shared", owners=[{"labelSelector": {}}])
        until(lambda: "matches pods of every namespace" in try_out(plane, shared))
        shared["metadata"]["annotations"] = {OWNER_NAMESPACES: "team-a, team-b"}
        assert try_out(plane, shared) == ""
        shared["metadata"]["annotations"] = {OWNER_NAMESPACES: "team-a,*"}
        assert "cannot be read, so that no pod is an owner" in try_out(plane, shared)
        misspelt = held("misspelt", "1", requests={"memmory": "1Gi"})
        assert "without a domain must be cpu" in try_out(plane, misspelt)
        sound = held("sound", None, requests={"cpu": 0.5, "pods": "2", "example.com/gpu": "1"})
        plane.kubectl("create", "--dry-run=server", "-f", "-", text=json.dumps(sound))
    finally:
        plane.kubectl("delete", "-f", str(ROOT / "deploy" / "admission"))


def try_out(plane, raw):
    """Return the error of a dry run; a new policy takes effect after a moment."""
    command = [program("kubectl"), "--kubeconfig", plane.kubeconfig, "create", "--dry-run=server",
               "-f", "-"]  # fmt: skip
    return subprocess.run(command, input=json.dumps(raw), text=True, capture_output=True).stderr


def test_an_allocation_that_no_policy_refuses_is_believed_as_far_as_it_can_be_true(
    cluster, scheduler
):
    cluster.create(held("r", "12", node="rsv-1"), pod("thief", "1m", node="rsv-1"))
    until(lambda: cluster.phase("r"), "Available")
    named = {"name": "r", "uid": cluster.field("reservation", "r", "{.metadata.uid}")}
    cluster.kubectl("annotate", "pod", "thief", f"{ALLOCATED}={json.dumps(named)}")
    until(lambda: "AllocationIgnored" in cluster.events("thief"))
    for stranger in ("before", "after"):
        cluster.create(pod(stranger, "8", node_selector={**HERE, HOST: "rsv-1"}))
        until(partial(lacks_cpu, cluster, stranger))
        (listed,) = json.loads(ask(scheduler.port, "/ignoredAllocations"))
        assert (listed["name"], list(listed["annotations"])) == ("thief", [ALLOCATED])
        assert cluster.phase("r") == "Available"
        scheduler.kill()
        scheduler.start()
    cluster.create(owner("owner", "12"))
    until(lambda: cluster.node_of("owner"), "rsv-1")
    until(lambda: cluster.phase("r"), "Succeeded")


def lacks_cpu(cluster, name):
    path = "{.status.conditions[?(@.type=='PodScheduled')].message}"
    return "Insufficient cpu" in cluster.field("pod", name, path)


def test_metrics_and_node_reservations_are_served(cluster, scheduler):
    cluster.create(held("r", "8", node="rsv-2", allocate_once=False))
    until(lambda: cluster.phase("r"), "Available")
    cluster.create(owner("a", "3"))
    until(lambda: cluster.used("r"), "3")
    page = ask(scheduler.port, "/metrics")
    assert 'scheduler_reservation_status_phase{name="r",phase="Available"} 1.0' in page
    labels = 'name="r",resource="cpu",type="allocated",unit="core"'
    assert f"scheduler_reservation_resource{{{labels}}} 3.0" in page
    (seen,) = json.loads(ask(scheduler.port, "/nodeReservations/rsv-2"))
    assert seen["resources"]["millicores"] == {"reserved": 8000, "used": 3000, "left": 5000}


def ask(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return answer.read().decode()
