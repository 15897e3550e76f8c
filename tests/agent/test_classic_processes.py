"""A classic claim of a pod whose containers are processes; its agent is killed meanwhile."""

import asyncio
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from agent.classic_node import ClassicNode, a_container
from agent.process_cluster import short_directory
from holdfast.apiserver.access.credentials import write_node_kubeconfig
from holdfast.apiserver.inprocess import InProcessTransport
from holdfast.cdi.files import read_spec
from holdfast.client.client import Client
from holdfast.clock import SystemClock
from holdfast.cluster import PKI, Cluster
from holdfast.settings import ClusterSettings, NodeSettings, ServerSettings

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

    async def printed(self, pod, container, attempt=0):
        """Return what an attempt of a container wrote, without times, once there is something."""
        path = self.directory / "pods" / pod.uid / "logs" / container / f"{attempt}.log"

        async def lines():
            return path.exists() and path.read_text().splitlines()

        return [line.split(" ", 3)[3] for line in await self.until(lines)]


@pytest.fixture
async def node():
    with short_directory() as directory:
        node_directory = directory / "n"
        node_directory.mkdir()

        async def settle():
            pass

        unused = SimpleNamespace(client=None, clock=SimpleNamespace(settle=settle))
        node = ProcessNode(unused, node_directory)
        await node.start(directory)
        try:
            yield node
        finally:
            await node.stop()


async def test_C065_a_killed_agent_prepares_again_and_unprepares_once(node):
    """Also C051, C060 and C069: what containers see, before and after a restart of theirs."""
    await node.claim(handle="two boards")
    claim = await node.status("c")
    async with node.driver as driver:
        script = "env | grep ^CLAIM_ || echo none"
        init = a_container("init", script, ["c"])
        uses = {"one": ["c"], "two": ["c"], "three": []}
        again = f"{script}; [ -e $0.done ] || {{ touch $0.done; exit 3; }}; sleep 1000"
        pod = await node.run("p", "c", uses=uses, script=again, initContainers=[init],
                             terminationGracePeriodSeconds=1)  # fmt: skip
        seen = ["CLAIM_c=two boards"]
        assert await node.printed(pod, "init") == seen
        for attempt in (0, 1):  # C051: restarted containers keep the claim
            for container, expected in {"one": seen, "two": seen, "three": ["none"]}.items():
                assert await node.printed(pod, container, attempt) == expected
        file = driver.cdi_file(claim.uid)
        read_spec(file)
        assert json.loads(file.read_text())["cdiVersion"] == "0.3.0"
        assert driver.sequence == ["prepare:c"]
        await node.kill_agent()
        node.start_agent()

        async def prepared_again():
            statuses = (await node.pod("p")).status.container_statuses
            return len(driver.calls) > 1 and [s.restart_count for s in statuses] == [1, 1, 1]

        await node.until(prepared_again)
        assert driver.sequence == ["prepare:c"] * 2 and file.exists()
        await node.delete("p")

        async def gone():
            return await node.pod("p") is None

        await node.until(gone)
        assert driver.sequence == ["prepare:c", "prepare:c", "unprepare:c"]
        assert list(driver.cdi.iterdir()) == []
        assert driver.handles == ["two boards"] * 2
