"""Which container of a pod is started when, and what its status says. Pure functions."""

import pytest

from holdfast.api.decode import convert_object
from holdfast.api.node import Node
from holdfast.node.agent.container_status import PodState, pod_status
from holdfast.node.agent.environment import expand, pod_field, resource_field
from holdfast.node.agent.node_pod import NodePod, ResourceFieldReference
from holdfast.node.agent.pod_admission import admit
from holdfast.node.agent.pod_containers import new_records, plan_containers
from holdfast.node.agent.runtime import ContainerConfig, ContainerExit, NotStarted
from holdfast.node.agent.simulated_pod import SimulatedContainer
from holdfast.runtime.clock import SystemClock
from holdfast.testing import a_node, a_pod

START = 1_700_000_000.0
STATE = PodState("10.0.0.1", "127.0.0.1", "2023-11-14T22:13:20Z")


def a_typed_pod(policy="Always", init=(), mains=("c",), **more):
    raw = a_pod("p", **more)
    raw["metadata"]["uid"] = "u"
    raw["spec"] |= {
        "restartPolicy": policy,
        "initContainers": [{"name": n.rstrip("*"), "image": "i",
                            **({"restartPolicy": "Always"} if n.endswith("*") else {})}
                           for n in init],
        "containers": [{"name": n, "image": "i"} for n in mains],
    }  # fmt: skip
    return convert_object(raw, NodePod)


class Replay:
    """A pod whose containers start and end as told."""

    def __init__(self, *args, **kwargs):
        self.pod = a_typed_pod(*args, **kwargs)
        self.records = {r.name: r for r in new_records(self.pod)}
        self.now = START

    @property
    def steps(self):
        return plan_containers(self.pod, list(self.records.values()), self.now)

    @property
    def due(self):
        return [record.name for record in self.steps.start]

    def start(self, *names, started=True):
        for name in names:
            record = self.records[name]
            config = ContainerConfig(self.pod, name, record.attempt + 1)
            record.start(SimulatedContainer(config, SystemClock(), self.now))
            record.started = record.ready = started

    def end(self, name, code=0):
        self.records[name].end(ContainerExit(code, self.now))

    def status(self, **state):
        full = pod_status(self.pod, list(self.records.values()), STATE, self.now)
        return full["status"]


async def test_init_containers_run_one_after_the_other_and_sidecars_stay():
    pod = Replay(init=("a", "s*", "b"), mains=("c", "d"))
    assert pod.due == ["a"]
    pod.start("a")
    assert pod.due == []
    pod.end("a")
    assert pod.due == ["s"]
    pod.start("s", started=False)
    assert pod.due == []  # its startup probe has not succeeded
    pod.records["s"].started = True
    assert pod.due == ["b"]
    pod.start("b")
    pod.end("b")
    assert pod.due == ["c", "d"]
    assert pod.status()["phase"] == "Pending"
    pod.start("c", "d")
    assert pod.status()["phase"] == "Running"
    pod.end("s", 1)
    assert pod.due == ["s"]  # sidecars are always restarted; init containers never run again
    conditions = {c["type"]: c["status"] for c in pod.status()["conditions"]}
    assert (conditions["Initialized"], conditions["Ready"]) == ("True", "False")


@pytest.mark.parametrize(
    ("policy", "code", "restarts", "phase"),
    [
        ("Always", 0, True, ""), ("Always", 1, True, ""),
        ("OnFailure", 0, False, "Succeeded"), ("OnFailure", 1, True, ""),
        ("Never", 0, False, "Succeeded"), ("Never", 1, False, "Failed"),
    ],
)  # fmt: skip
async def test_the_restart_policy(policy, code, restarts, phase):
    pod = Replay(policy)
    pod.start("c")
    pod.end("c", code)
    assert (pod.due == ["c"], pod.steps.phase) == (restarts, phase)


async def test_restarts_are_at_once_then_after_10_s_doubling_up_to_300_s():
    pod, delays = Replay(), []
    for _ in range(8):
        pod.start("c")
        pod.now += 1
        pod.end("c", 1)
        record = pod.records["c"]
        delays.append(record.retry_at - pod.now)
        if delays[-1]:
            assert pod.steps.wake_at == record.retry_at
            [status] = pod.status()["containerStatuses"]
            assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
            assert status["lastState"]["terminated"]["exitCode"] == 1
        pod.now = record.retry_at
    assert delays == [0, 10, 20, 40, 80, 160, 300, 300]
    pod.start("c")
    pod.now += 600
    pod.end("c", 1)
    assert pod.due == ["c"]


async def test_a_failed_init_container_fails_the_pod_unless_it_is_restarted():
    for policy, phase in (("Never", "Failed"), ("OnFailure", ""), ("Always", "")):
        pod = Replay(policy, init=("a",))
        pod.start("a")
        pod.end("a", 1)
        assert pod.steps.phase == phase


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"), ("$(B)", "$(B)"), ("$$(A)", "$(A)"), ("$$$(A)", "$1"), ("$(A", "$(A"),
        ("$A $", "$A $"), ("$()", "$()"), ("$(A)$(A)", "11"), ("$($(A))", "$($(A))"),
    ],
)  # fmt: skip
def test_references_to_variables(text, expanded):
    assert expand(text, {"A": "1"}) == expanded


def test_fields_of_a_pod_and_of_its_resources():
    pod = a_typed_pod(labels={"a/b": "x"}, annotations={"it's": "y"})
    assert pod_field(pod, "metadata.labels['a/b']") == "x"
    assert pod_field(pod, "metadata.annotations['it's']") == "y"
    assert pod_field(pod, "metadata.labels['none']") == ""
    for path in ("spec.containers", "metadata.labels", "", "metadata.labels[x]"):
        with pytest.raises(NotStarted):
            pod_field(pod, path)
    [container] = pod.spec.containers
    node = {"cpu": "1500m", "memory": "10Mi"}
    for resource, divisor, value in (
        ("limits.cpu", "0", "2"), ("limits.cpu", "1m", "1500"), ("limits.memory", "1Ki", "10240"),
        ("requests.cpu", "1m", "0"),
    ):  # fmt: skip
        reference = ResourceFieldReference(resource=resource, divisor=divisor)
        assert resource_field(pod, container, reference, node) == value
    for resource, divisor in (("cpu", "1"), ("limits.", "1"), ("limits.cpu", "x")):
        reference = ResourceFieldReference(resource=resource, divisor=divisor)
        with pytest.raises(NotStarted):
            resource_field(pod, container, reference, node)


def on_node(name="p", **more):
    return convert_object(a_pod(name, **more), NodePod)


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        ({"cpu": "1"}, ""),
        ({"cpu": "3"}, "OutOfcpu"),
        ({"memory": "9Gi"}, "OutOfmemory"),
        ({"extended": {"example.com/known": 2}}, "OutOfexample.com/known"),
        ({"extended": {"example.com/unknown": 9}}, ""),
        ({"node_selector": {"zone": "b"}}, "NodeAffinity"),
        ({"host_port": 80}, "NodePorts"),
        ({"host_port": 81}, ""),
    ],
)
def test_a_node_rejects_pods_as_a_kubelet_does(pod, reason):
    raw_node = a_node("n", cpu="4", memory="8Gi", labels={"zone": "a"})
    raw_node["status"]["allocatable"]["example.com/known"] = "1"
    node = convert_object(raw_node, Node)
    other = a_pod("other", cpu="2")
    other["spec"]["containers"][0]["ports"] = [{"containerPort": 1, "hostPort": 80}]
    raw = a_pod("p", cpu=pod.get("cpu", "100m"), memory=pod.get("memory", "1Mi"))
    for name, amount in pod.get("extended", {}).items():
        raw["spec"]["containers"][0]["resources"]["requests"][name] = str(amount)
    raw["spec"]["nodeSelector"] = pod.get("node_selector", {})
    if "host_port" in pod:
        ports = [{"containerPort": 1, "hostPort": pod["host_port"]}]
        raw["spec"]["containers"][0]["ports"] = ports
    found = admit(convert_object(raw, NodePod), node, [convert_object(other, NodePod)])
    assert (found.reason if found else "") == reason


def test_resources_that_devices_serve_are_not_counted_and_taints_are():
    raw_node = a_node("n", cpu="4")
    raw_node["status"]["allocatable"]["example.com/gpu"] = "0"
    raw = a_pod("p", cpu="1")
    raw["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1"
    pod = convert_object(raw, NodePod)
    node = convert_object(raw_node, Node)
    assert admit(pod, node, []).message == (
        "Node didn't have enough resource: example.com/gpu, requested: 1, used: 0, capacity: 0"
    )
    mapping = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "r"}
    raw["status"] = {"extendedResourceClaimStatus": {"resourceClaimName": "c",
                                                     "requestMappings": [mapping]}}  # fmt: skip
    pod = convert_object(raw, NodePod)
    assert admit(pod, node, []) is None
    for effect, reason in (("NoSchedule", None), ("NoExecute", "TaintToleration")):
        raw_node["spec"] = {"taints": [{"key": "k", "effect": effect}]}
        found = admit(pod, convert_object(raw_node, Node), [])
        assert (found and found.reason) == reason
