"""The agent of a node with simulated containers, on a virtual clock."""

import pytest

from holdfast.api.node_names import LEASE_NAMESPACE
from holdfast.api.scheme import EVENTS, LEASES, NODES
from holdfast.api.timestamps import parse_rfc3339
from holdfast.node.agent.node_agent import NodeAgent, NodeIdentity
from holdfast.node.agent.node_pod import NODE_PODS
from holdfast.node.agent.node_setup import make_agent, make_runtimes
from holdfast.node.agent.pod_devices import ContainerDevices, NotPrepared
from holdfast.node.agent.simulated_claims import SimulatedClaims
from holdfast.runtime.errors import Invalid, NotFound, Refused, TooLarge
from holdfast.runtime.settings import NodeSettings
from holdfast.testing import VirtualClock, a_pod, typed


class RecordedDevices:
    """Devices that fail as told, and log what they are asked."""

    def __init__(self, client, name):
        self.failures, self.calls = 0, []
        self._client, self._name = client, name

    async def _phase(self):
        try:
            return (await self._client.get(NODE_PODS, self._name, "default")).status.phase
        except NotFound:
            return ""

    async def prepare(self, pod):
        if pod.name != self._name:
            return
        self.calls.append("prepare")
        if self.failures:
            self.failures -= 1
            raise NotPrepared("no driver")

    def container_devices(self, pod, container):
        return ContainerDevices()

    def resume(self, pod):
        pass

    async def before_start(self, pod, container):
        pass

    async def unprepare(self, pod):
        if pod.name == self._name:
            self.calls.append(f"unprepare while {await self._phase()}")


@pytest.fixture
async def node(cluster, node_directory):
    """Return a function that starts the agent of node ``n`` on the cluster without others."""
    await cluster.simulated_nodes.stop()
    agents = []

    async def start(**settings):
        if agents:
            await agents.pop().stop(stop_containers=False)
        identity = NodeIdentity("n", node_directory)
        runtimes = make_runtimes(node_directory, cluster.clock, NodeSettings(**settings))
        agents.append(NodeAgent(identity, cluster.client, cluster.clock, runtimes))
        cluster.clock.busy.append(lambda: agents[-1]._devices.busy)
        await agents[-1].start()
        await cluster.clock.settle()
        return agents[-1]

    yield start
    await cluster.clock.settle()
    for agent in agents:
        await agent.stop()
    cluster.clock.busy.clear()


async def pod_of(cluster, name):
    return await cluster.get(NODE_PODS, name, "default")


async def test_simulated_pods_run_end_stop_and_survive_a_restart(cluster, node):
    agent = await node()
    found = await cluster.get(NODES, "n")
    assert found.metadata.labels["holdfast.dev/agent"] == "embedded"
    await cluster.create(
        a_pod("p", node="n"),
        a_pod("short", node="n", annotations={"holdfast.dev/run-for": "5s"}),
        a_pod("slow", node="n", annotations={"holdfast.dev/stop-after": "20s"}),
    )
    pods = {name: await pod_of(cluster, name) for name in ("p", "short", "slow")}
    assert {p.status.phase for p in pods.values()} == {"Running"}
    assert {c.type: c.status for c in pods["p"].status.conditions}["Ready"] == "True"
    assert len({p.status.pod_ip for p in pods.values()}) == 3
    with pytest.raises(Refused, match="another agent serves"):
        make_agent(agent._identity, cluster.client, cluster.clock, NodeSettings())

    await cluster.clock.advance(3)
    await node()
    await cluster.clock.advance(3)
    assert (await pod_of(cluster, "short")).status.phase == "Succeeded"
    after = await pod_of(cluster, "p")
    assert after.status.pod_ip == pods["p"].status.pod_ip
    assert after.status.container_statuses == pods["p"].status.container_statuses

    await cluster.client.delete(NODE_PODS, "slow", "default")
    await cluster.clock.advance(19)
    assert (await pod_of(cluster, "slow")).terminating
    await cluster.clock.advance(2)
    for name in ("p", "short"):
        await cluster.client.delete(NODE_PODS, name, "default")
    await cluster.clock.advance(1)
    assert not (await cluster.client.list(NODE_PODS)).items
    lease = await cluster.get(LEASES, "n", LEASE_NAMESPACE)
    assert cluster.clock.now() - parse_rfc3339(lease.spec.renew_time) <= 11


async def test_devices_are_prepared_before_and_unprepared_before_the_last_status(cluster, node):
    agent = await node()
    devices = RecordedDevices(cluster.client, "p")
    devices.failures = 2
    agent.services.devices = (*agent.services.devices, devices)
    await cluster.create(a_pod("p", node="n", annotations={"holdfast.dev/run-for": "60s"}))
    pod = await pod_of(cluster, "p")
    assert pod.status.phase == "Pending"
    sandbox = next(c for c in pod.status.conditions if c.type == "PodReadyToStartContainers")
    assert (sandbox.status, sandbox.message) == ("False", "no driver")
    await cluster.clock.advance(4)
    assert (await pod_of(cluster, "p")).status.phase == "Running"
    assert devices.calls == ["prepare"] * 3
    events = (await cluster.client.list(EVENTS, "default")).items
    assert [e.message for e in events if e.reason == "FailedPrepareDynamicResources"] == [
        "no driver"
    ]
    await cluster.clock.advance(60)
    assert (await pod_of(cluster, "p")).status.phase == "Succeeded"
    assert devices.calls[3:] == ["unprepare while Running"]


@pytest.mark.parametrize("runs", ["5s", "60s"])
@pytest.mark.parametrize("error", [Invalid, TooLarge])
async def test_a_deleted_pod_whose_status_is_refused_is_removed(
    cluster, node, monkeypatch, error, runs
):
    """Whether the pod has ended before it is deleted or not."""
    await node()
    patch = cluster.client.patch

    async def refuse(resource, name, *args, **options):
        if resource is NODE_PODS:
            raise error("no such status")
        return await patch(resource, name, *args, **options)

    monkeypatch.setattr(cluster.client, "patch", refuse)
    await cluster.create(a_pod("p", node="n", annotations={"holdfast.dev/run-for": runs}))
    await cluster.clock.advance(10)
    assert (await pod_of(cluster, "p")).status.phase == "Pending"
    await cluster.client.delete(NODE_PODS, "p", "default")
    await cluster.clock.advance(1)
    assert not (await cluster.client.list(NODE_PODS)).items


async def test_a_deleted_pod_that_was_never_prepared_is_removed(cluster, node):
    agent = await node()
    devices = RecordedDevices(cluster.client, "p")
    devices.failures = 10**6
    agent.services.devices = (*agent.services.devices, devices)
    await cluster.create(a_pod("p", node="n"))
    await cluster.clock.advance(15)
    await cluster.client.delete(NODE_PODS, "p", "default")
    await cluster.clock.advance(1)
    with pytest.raises(NotFound):
        await pod_of(cluster, "p")
    assert devices.calls[-1] == "unprepare while Pending"


class Unprepared:
    """Claims of which an agent knows nothing after its restart."""

    def container_devices(self, pod, container):
        raise NotPrepared("ResourceClaim c is not prepared")


def test_only_a_process_needs_claims_that_a_driver_has_prepared(tmp_path):
    """A container that had not started at a restart of the agent is not left waiting."""
    runtimes = make_runtimes(tmp_path, VirtualClock(), NodeSettings(allow_process_runtime=True))
    claims = SimulatedClaims(Unprepared(), None, tmp_path, runtimes)
    assert claims.container_devices(typed(a_pod("p")), "main") == ContainerDevices()
    process = a_pod("p", annotations={"holdfast.dev/runtime": "process"})
    with pytest.raises(NotPrepared):
        claims.container_devices(typed(process), "main")
