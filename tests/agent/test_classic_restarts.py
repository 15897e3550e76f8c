"""Classic claims on a node whose agent is away meanwhile, and handles that change."""

import json
import zlib

import pytest

from agent.classic_node import ClassicNode
from holdfast.driver import Cdi, Driver
from holdfast.node.agent import claim_manager
from holdfast.node.cdi.files import read_spec
from holdfast.node.driverkit.process import DriverProcess, DriverSettings
from holdfast.runtime.clock import SystemClock


@pytest.fixture
def late_release(monkeypatch):
    """The next pod comes before the agent has released the claims of those that are gone."""
    monkeypatch.setattr(claim_manager, "RESTORED_SECONDS", 1000.0)


@pytest.fixture
async def node(cluster, node_directory):
    """A node with a driver; its agent is started by the tests."""
    await cluster.simulated_nodes.stop()
    node = ClassicNode(cluster, node_directory)
    async with node.driver:
        yield node


async def run_with_earlier_agent(node, name):
    """Run a pod with the claim `c`, whose handle is the pod's name; then its agent ends."""
    async with node.running_agent():
        await node.registered()
        await node.claim(handle=name)
        await node.run(name, "c")


async def the_new_pod_runs(cluster, node):
    """Its claim is prepared after that of the pod `old` is unprepared, when the agent is back."""
    await node.run("new", "c")
    async with node.running_agent():
        await node.registered()
        await cluster.clock.advance(5)
        assert await node.phase("new") == "Running"
        assert node.driver.sequence == ["prepare:c", "unprepare:c", "prepare:c"]
        assert node.driver.handles == ["old", "new"]


@pytest.mark.parametrize("restarted", [False, True])
async def test_C066_the_claim_of_a_pod_deleted_by_force_is_unprepared(cluster, node, restarted):
    async with node.running_agent():
        await node.registered()
        await node.claim()
        await node.run("p", "c")
        if not restarted:
            await node.delete("p", grace=0)
            assert node.driver.sequence == ["prepare:c", "unprepare:c"]
    if restarted:
        await node.delete("p", grace=0)
        async with node.running_agent():
            await node.registered()
            await cluster.clock.advance(1)
    assert node.driver.sequence == ["prepare:c", "unprepare:c"]


async def test_C068_a_recreated_claim_is_prepared_after_the_old_one_is_unprepared(
    cluster, node, late_release
):
    await run_with_earlier_agent(node, "old")
    await node.delete("old", grace=0)
    await node.release("c")
    await node.claim(handle="new")
    await the_new_pod_runs(cluster, node)
    assert len(node.driver.prepared) == 1


async def test_a_claim_allocated_anew_is_unprepared_before_it_is_prepared_again(
    cluster, node, late_release
):
    """The uid is the same: what differs is that its old pod has it no longer."""
    await run_with_earlier_agent(node, "old")
    await node.delete("old", grace=0)
    await node.reserve("c")
    await node.status("c", deallocationRequested=True)
    await node.status("c", allocation=None, driverName=None, deallocationRequested=None)
    await node.allocate("c", "new")
    await the_new_pod_runs(cluster, node)


async def test_C083_the_next_prepare_sees_a_new_handle_and_users_keep_running(
    cluster, node, node_directory
):
    async with node.running_agent():
        await node.registered()
        await node.claim(handle="small", shared=True)
        one, two = await node.create("one", "c"), await node.create("two", "c")
        await node.reserve("c", one, two)
        await node.bind("one")
        await node.allocate("c", "larger", shared=True)
        await node.bind("two")
        assert node.driver.handles == ["small", "larger"]
        envs = [await node.env(name) for name in ("one", "two")]
        assert [each["main"]["CLAIM_c"] for each in envs] == ["small", "larger"]
    await node.allocate("c", "largest", shared=True)
    async with node.running_agent():
        await node.registered()
        await cluster.clock.advance(2)
        assert node.driver.handles == ["small", "larger", "largest"]
        stored = json.loads((node_directory / "dra_manager_state").read_text())
        assert stored["Checksum"] == zlib.crc32(stored["Data"].encode())
        (entry,) = json.loads(stored["Data"])["ClaimInfoStateList"]
        assert entry["ClassName"] == "gold" and sorted(entry["PodUIDs"]) == sorted(
            (one.uid, two.uid)
        )
        state = entry["DriverState"][node.driver.name]
        assert (state["Classic"], state["ResourceHandle"]) == (True, "largest")
        for name in ("one", "two"):
            pod = await node.pod(name)
            assert pod.status.container_statuses[0].restart_count == 0
            assert pod.status.phase == "Running"
    assert node.driver.sequence == ["prepare:c"] * 3


async def test_C069_the_kit_writes_valid_files_of_the_lowest_version_and_removes_them(
    cluster, node_directory
):
    await cluster.simulated_nodes.stop()
    node = ClassicNode(cluster, node_directory)
    calls = []
    driver = Driver(node.driver.name)
    driver.handlers(lambda: None)  # its controller is this test

    @driver.prepare
    def prepare(claim):
        calls.append(f"prepare {claim.handle}")
        return Cdi().env(HANDLE=claim.handle).mount("/etc/hostname")

    @driver.unprepare
    def unprepare(claim):
        calls.append(f"unprepare {claim.handle}")

    settings = DriverSettings(
        "n", node_directory / "plugins_registry", node_directory / "plugins", node_directory / "cdi"
    )
    async with node.running_agent():
        process = DriverProcess(driver, settings, cluster.client, SystemClock())
        await process.start()
        try:
            await cluster.clock.advance(0.5)
            await node.connected()
            await node.claim(handle="one", shared=True)
            pods = [await node.create(name, "c") for name in ("p", "q")]
            await node.reserve("c", *pods)
            await node.bind("p")
            (file,) = (node_directory / "cdi").iterdir()
            for handle in ("one", "two"):  # the second is that of C083
                await node.allocate("c", handle, shared=True)
                await node.bind(*["q"] * (handle == "two"))
                edits = read_spec(file).devices[0].container_edits
                assert edits.env == (f"HANDLE={handle}",)
                assert json.loads(file.read_text())["cdiVersion"] == "0.3.0"
            assert [await node.phase(name) for name in ("p", "q")] == ["Running"] * 2
            for name in ("p", "q"):
                await node.delete(name, grace=0)
            assert list((node_directory / "cdi").iterdir()) == []
            assert calls == ["prepare one", "prepare two", "unprepare two"]
        finally:
            await process.stop()


@pytest.mark.parametrize("lost", ["reset", "removed"])
@pytest.mark.parametrize("driver_is_late", [False, True])
async def test_claims_of_running_pods_are_prepared_again_without_their_checkpoint(
    cluster, node, node_directory, lost, driver_is_late
):
    await run_with_earlier_agent(node, "p")
    checkpoint = node_directory / "dra_manager_state"
    if lost == "reset":
        checkpoint.write_text("{")
    else:
        checkpoint.unlink()
    async with node.running_agent(reset_checkpoint=lost == "reset"):
        if driver_is_late:
            await cluster.clock.advance(30)
        await node.registered()
        await cluster.clock.advance(2)
        assert node.driver.sequence == ["prepare:c"] * 2
        assert await node.phase("p") == "Running"
        await node.delete("p")
        await cluster.clock.advance(1)
    assert node.driver.sequence == ["prepare:c", "prepare:c", "unprepare:c"]
    assert "ClaimUID" not in checkpoint.read_text()


async def test_a_pod_that_ends_before_its_claims_are_known_again_is_unprepared(
    cluster, node, late_release
):
    await run_with_earlier_agent(node, "p")
    async with node.running_agent(reset_checkpoint=True):
        await node.registered()
        await node.delete("p")
        await cluster.clock.advance(1)
    assert node.driver.sequence == ["prepare:c", "unprepare:c"]
