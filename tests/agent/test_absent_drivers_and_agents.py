"""What happens while a driver or the agent of a node is away: on a virtual clock, real sockets."""

from contextlib import asynccontextmanager

import pytest

from agent.driver_server import DriverServer
from agent.polling import until
from holdfast.api.node_names import STANDALONE
from holdfast.api.scheme import EVENTS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from holdfast.client.client import Client
from holdfast.node.agent.dra_plugins import NotRegistered
from holdfast.node.agent.node_agent import NodeIdentity
from holdfast.node.agent.node_setup import make_agent
from holdfast.runtime.settings import NodeSettings
from holdfast.testing.builders import a_pod
from holdfast.testing.device_builders import a_claim, a_device_class, a_slice
from holdfast.testing.harness import Harness


@pytest.fixture
async def cluster(tmp_path):
    async with Harness(tmp_path / "store") as running:
        await running.create(a_device_class())
        yield running


@asynccontextmanager
async def running_agent(cluster, directory):
    """Run the agent of node n until the end of the block; its containers are simulated."""
    client = Client(cluster.server_transport("system:node:n"), "agent")
    identity = NodeIdentity("n", directory, agent=STANDALONE)
    agent = make_agent(identity, client, cluster.clock, NodeSettings(0))
    cluster.clock.busy.append(lambda: agent._devices.busy)
    await agent.start()
    try:
        await cluster.settle()
        yield agent
    finally:
        await agent.stop(stop_containers=False)
        cluster.clock.busy.clear()


async def registered(cluster, agent, driver):
    """Wait until a driver that runs is registered and connected."""

    def connected():
        try:
            return agent._devices.claims._drivers.endpoint(driver.name).connected
        except NotRegistered:
            return False

    await cluster.advance(0.5)
    assert (await driver.statuses.get()).plugin_registered
    await until(connected)


async def deregistered(cluster, agent, driver):
    await driver.stop()
    await cluster.advance(0.5)
    with pytest.raises(NotRegistered):
        agent._devices.claims._drivers.endpoint(driver.name)


def a_claiming_pod(name):
    return a_pod(name, claims=[{"name": "c", "resourceClaimName": "c"}])


async def test_D083_a_new_claim_waits_until_the_pod_deleted_by_force_is_unprepared(
    cluster, node_directory
):
    async with DriverServer(node_directory) as driver:
        driver.devices = lambda claim: []  # prepared, without a CDI file
        async with running_agent(cluster, node_directory) as agent:
            await registered(cluster, agent, driver)
            await cluster.create(a_slice(), a_claim("c"), a_claiming_pod("old"))
            assert (await cluster.pod("old")).status.phase == "Running"
        # The agent is away while pod and claim are replaced by others of the same name.
        await cluster.client.delete(PODS, "old", "default", grace_seconds=0)
        await cluster.settle()
        await cluster.delete(RESOURCE_CLAIMS, "c", "default")
        await cluster.create(a_claim("c"), a_claiming_pod("new"))
        assert (await cluster.pod("new")).spec.node_name == "n"
        async with running_agent(cluster, node_directory) as agent:
            driver.errors["c"] = "busy"
            await registered(cluster, agent, driver)
            await cluster.advance(30)
            assert (await cluster.pod("new")).status.phase == "Pending"
            said = [e.message for e in (await cluster.client.list(EVENTS, "default")).items]
            assert any("older ResourceClaim c with UID" in message for message in said)
            assert {call for call, _ in driver.calls[1:]} == {"unprepare"}
            driver.errors.clear()
            await cluster.advance(15)
            assert (await cluster.pod("new")).status.phase == "Running"
            assert [call for call, _ in driver.calls[-2:]] == ["unprepare", "prepare"]


async def test_D085_slices_go_31_s_after_the_driver_and_stay_if_it_is_back_within_30(
    cluster, node_directory
):
    async def slices():
        return len((await cluster.client.list(RESOURCE_SLICES)).items)

    async with (
        DriverServer(node_directory) as driver,
        running_agent(cluster, node_directory) as agent,
    ):
        await registered(cluster, agent, driver)
        await cluster.create(a_slice(), a_slice("elsewhere", node="other"))
        await deregistered(cluster, agent, driver)
        await cluster.advance(28)
        await driver.start()
        await registered(cluster, agent, driver)
        await cluster.advance(100)
        assert await slices() == 2
        await deregistered(cluster, agent, driver)
        await cluster.advance(28)
        assert await slices() == 2
        await cluster.advance(3)
        assert [each.name for each in (await cluster.client.list(RESOURCE_SLICES)).items] == [
            "elsewhere"
        ]
