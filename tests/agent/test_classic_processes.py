"""Classic claims of pods whose containers are processes, and whose agent is killed."""

import asyncio
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
import pytest_asyncio

from agent.classic_node import ClassicNode, a_container
from agent.process_cluster import short_directory
from holdfast.client.client import Client
from holdfast.processes.cluster import PKI, Cluster
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.settings import ClusterSettings, NodeSettings, ServerSettings
from holdfast.server.access.credentials import write_node_kubeconfig
from holdfast.server.inprocess import InProcessTransport

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("classic_processes"),
]
SECONDS = 90


class ProcessNode(ClassicNode):
    """Node n, whose agent is a process of its own."""

    async def start(self, directory):
        settings = ClusterSettings(
            data_dir=directory / "data",
            single_process=True,
            server=ServerSettings(port=0),
            nodes=NodeSettings(0, driver_nodes=0),
        )
        clock = SystemClock()
        self._embedded = Cluster(settings, clock)
        await self._embedded.start()
        write_node_kubeconfig(
            settings.data_dir / PKI, "n", directory / "kubeconfig", self._embedded.url, clock.now()
        )
        self.client = Client(InProcessTransport(self._embedded.server.server), "test")
        self._directory = directory
        self.start_agent()

    def start_agent(self):
        arguments = ["--node", "n", "--node-dir", str(self.directory), "--runtime", "process"]
        arguments += ["--kubeconfig", str(self._directory / "kubeconfig")]
        with (self._directory / "agent.log").open("a") as log:
            command = [sys.executable, "-m", "holdfast", "agent", *arguments]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    async def kill_agent(self):
        self.process.kill()
        await asyncio.to_thread(self.process.wait)

    async def stop(self):
        await self.kill_agent()
        await self._embedded.stop()

    async def until(self, reached):
        """Wait for something; report what the agent said if it does not come."""
        try:
            async with asyncio.timeout(SECONDS):
                while not (found := await reached()):
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError((self._directory / "agent.log").read_text()[-4000:]) from None
        return found

    async def is_gone(self, name):
        return await self.pod(name) is None

    async def printed(self, pod, container, attempt=0):
        """Return what an attempt of a container wrote, without times, once there is something."""
        path = self.directory / "pods" / pod.uid / "logs" / container / f"{attempt}.log"

        async def lines():
            return path.exists() and path.read_text().splitlines()

        return [line.split(" ", 3)[3] for line in await self.until(lines)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node():
    """Node n with its agent and a driver."""
    with short_directory() as directory:
        node_directory = directory / "n"
        node_directory.mkdir()

        async def settle():
            pass

        unused = SimpleNamespace(client=None, clock=SimpleNamespace(settle=settle))
        node = ProcessNode(unused, node_directory)
        await node.start(directory)
        try:
            async with node.driver:
                yield node
        finally:
            await node.stop()


PRINT = "env | grep ^CLAIM_ || echo none"


async def test_C051_containers_that_are_restarted_keep_their_claim(node):
    """Also C060 for processes: only containers that list the claim see its variable."""
    await node.claim("again", handle="two boards")
    script = f"{PRINT}; [ -e $0.done ] || {{ touch $0.done; exit 3; }}; sleep 1000"
    pod = await node.run(
        "again", "again", script=script, terminationGracePeriodSeconds=1,
        uses={"one": ["again"], "two": ["again"], "three": []},
        initContainers=[a_container("init", PRINT, ["again"])],
    )  # fmt: skip
    seen = ["CLAIM_again=two boards"]
    assert await node.printed(pod, "init") == seen
    for attempt in (0, 1):
        for container, expected in {"one": seen, "two": seen, "three": ["none"]}.items():
            assert await node.printed(pod, container, attempt) == expected
    await node.delete("again")
    await node.until(lambda: node.is_gone("again"))
    assert [each for each in node.driver.sequence if each.endswith(":again")] == [
        "prepare:again", "unprepare:again",
    ]  # fmt: skip


async def test_C065_a_killed_agent_prepares_again_and_unprepares_once(node):
    await node.claim("c", handle="two boards")
    claim, driver = await node.status("c"), node.driver
    pod = await node.run(
        "p", "c", script=f"{PRINT}; sleep 1000", terminationGracePeriodSeconds=1
    )  # fmt: skip
    assert await node.printed(pod, "main") == ["CLAIM_c=two boards"]
    file = driver.cdi_file(claim.uid)
    assert json.loads(file.read_text())["cdiVersion"] == "0.3.0"
    await node.kill_agent()
    node.start_agent()

    async def restart_counts():
        counts = [each.restart_count for each in (await node.pod("p")).status.container_statuses]
        return driver.sequence.count("prepare:c") == 2 and counts

    assert await node.until(restart_counts) == [0]
    await node.delete("p")
    await node.until(lambda: node.is_gone("p"))
    calls = [each for each in driver.sequence if each.endswith(":c")]
    assert calls == ["prepare:c", "prepare:c", "unprepare:c"]
    assert not file.exists() and set(driver.handles) == {"two boards"}
