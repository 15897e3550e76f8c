"""Logs, exec, cp, attach and port-forward of processes, with kubectl and with WebSockets."""

import asyncio
import ssl
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import aiohttp
import msgspec
import pytest

from agent.spdy_client import compressor, opening
from holdfast.api.meta import Object
from holdfast.api.node_names import CERTIFICATE_ANNOTATION
from holdfast.api.resource import Resource
from holdfast.client.client import Client
from holdfast.client.transport import Request
from holdfast.node.agent.kubelet_server.channels import Channel
from holdfast.node.agent.kubelet_server.spdy_frames import FrameReader, FrameType, FrameWriter
from holdfast.node.agent.node_pod import NODE_PODS
from holdfast.processes.cluster import Cluster
from holdfast.runtime.certificates import KeyPair, make_client_certificate
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.settings import ClusterSettings, NodeSettings, ServerSettings
from holdfast.server.inprocess import InProcessTransport
from holdfast.server.user import component_user
from holdfast.testing import a_pod
from kubectl_program import find_kubectl

pytestmark = [pytest.mark.kubectl, pytest.mark.xdist_group("node streams")]
CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS = (
    Resource("rbac.authorization.k8s.io", "v1", plural, kind, Object, namespaced=False)
    for plural, kind in (
        ("clusterroles", "ClusterRole"),
        ("clusterrolebindings", "ClusterRoleBinding"),
    )
)
SERVE = """
import socket
server = socket.create_server(("127.0.0.1", 0))
print("port", server.getsockname()[1], flush=True)
while True:
    connection, _ = server.accept()
    while data := connection.recv(1000):
        connection.sendall(data.upper())
    connection.close()
"""


class Streams:
    """A cluster with one node that runs processes, and ways to use it."""

    def __init__(self, cluster, directory, session):
        self.cluster, self.directory, self.session = cluster, directory, session
        self.client = Client(InProcessTransport(cluster.server.server), "test")

    async def run(self, name, *command, ports=(), ready="Running"):
        pod = a_pod(name, node="node-0001")
        pod["spec"]["restartPolicy"] = "Never"
        listed = [{"containerPort": port} for port in ports]
        pod["spec"]["containers"] = [
            {"name": "main", "image": "none", "command": list(command), "ports": listed}
        ]
        await self.client.create(NODE_PODS, pod, "default")
        async with asyncio.timeout(30):
            while (await self.client.get(NODE_PODS, name, "default")).status.phase != ready:
                await asyncio.sleep(0.02)

    async def kubectl(self, *arguments, stdin=b""):
        """Return exit code, output and errors of a kubectl command."""
        process = await asyncio.create_subprocess_exec(
            find_kubectl(), "--kubeconfig", str(self.directory / "kubeconfig"), *arguments,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        out, err = await asyncio.wait_for(process.communicate(stdin), 60)
        return process.returncode, out.decode(), err.decode()

    async def log(self, name, end, *options):
        """Return what ``kubectl logs`` prints, when it ends with a text."""
        async with asyncio.timeout(60):
            while not (answer := await self.kubectl("logs", name, *options))[1].endswith(end):
                await asyncio.sleep(0.1)
        assert answer == (0, answer[1], "")
        return answer[1]

    def web_socket(self, path, protocol):
        url = f"{self.cluster.url}/api/v1/namespaces/default/pods/{path}"
        return self.session.ws_connect(url, protocols=[protocol], ssl=self.tls("admin"))

    def tls(self, name):
        pki = self.directory / "pki"
        context = ssl.create_default_context(cafile=pki / "ca.crt")
        context.load_cert_chain(pki / f"{name}.crt", pki / f"{name}.key")
        return context


@pytest.fixture
async def streams():
    with tempfile.TemporaryDirectory(prefix="hf-", ignore_cleanup_errors=True) as path:
        directory = Path(path)
        settings = ClusterSettings(
            data_dir=directory, single_process=True, server=ServerSettings(port=0),
            nodes=NodeSettings(2, driver_nodes=1, runtime="process"),
        )  # fmt: skip
        made = Cluster(settings, SystemClock())
        await made.start()
        async with aiohttp.ClientSession() as session:
            yield Streams(made, directory, session)
        await made.stop()


async def test_logs_exec_and_cp(streams):
    await streams.run("web", "sh", "-c", "echo one; echo two; echo three >&2; exec sleep 1000")
    assert await streams.log("web", "three\n", "--tail=2") == "two\nthree\n"
    code, out, err = await streams.kubectl(
        "exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 7"
    )
    assert (code, out) == (7, "out\n")
    assert err.startswith("err\n")
    large = bytes(range(256)) * 4000
    code, out, _ = await streams.kubectl("exec", "-i", "web", "--", "md5sum", stdin=large)
    assert (code, out.split()[0]) == (
        0,
        subprocess.check_output("md5sum", input=large)[:32].decode(),
    )
    source = streams.directory / "source"
    source.write_bytes(large)
    assert (await streams.kubectl("cp", str(source), "web:copied"))[0] == 0
    back = streams.directory / "back"
    assert (await streams.kubectl("cp", "web:copied", str(back)))[0] == 0
    assert back.read_bytes() == large

    code, _, err = await streams.kubectl("exec", "web", "--", "/missing")
    assert code == 1
    assert "cannot run '/missing': No such file or directory" in err
    code, _, err = await streams.kubectl("logs", "web", "--previous")
    assert "previous terminated container" in err

    await streams.run("over", "sh", "-c", "echo done", ready="Succeeded")
    assert await streams.kubectl("logs", "-f", "over") == (0, "done\n", "")
    code, _, err = await streams.kubectl("exec", "over", "--", "true")
    assert code == 1
    assert "cannot exec into a container in a completed pod; current phase is Succeeded" in err


async def test_a_followed_log_and_an_attached_container_end_with_it(streams):
    ready = streams.directory / "go"
    script = f"echo first; while [ ! -e {ready} ]; do sleep 0.05; done; echo last"
    await streams.run("job", "sh", "-c", script)
    following = asyncio.create_task(streams.kubectl("logs", "-f", "job"))
    attached = await streams.web_socket("job/attach?stdout=true&stderr=true", "v5.channel.k8s.io")
    ready.touch()
    assert await following == (0, "first\nlast\n", "")
    messages = [message.data async for message in attached]
    assert b"\x01last\n" in messages
    assert messages[-1][:1] == bytes([Channel.ERROR])
    assert b'"Success"' in messages[-1]


async def test_ports_that_the_pod_declares_are_forwarded(streams):
    await streams.run("serve", "python3", "-c", SERVE)
    port = int((await streams.log("serve", "\n")).split()[1])
    await streams.run("other", "sleep", "1000", ports=[port])  # the machine's network is shared
    socket = await streams.web_socket("other/portforward", "SPDY/3.1+portforward.k8s.io")
    deflate, reader, writer = compressor(), FrameReader(), FrameWriter()
    for stream, kind in ((1, "error"), (3, "data")):
        headers = {"streamType": kind, "port": str(port), "requestID": "0"}
        await socket.send_bytes(opening(deflate, stream, **headers))
    await socket.send_bytes(writer.data(3, b"hello ") + writer.data(3, b"there", last=True))
    received, ended = b"", set()
    while ended != {1, 3}:
        for frame in reader.feed((await socket.receive(30)).data):
            assert frame.type is FrameType.DATA
            assert frame.stream == 3 or not frame.data
            received += frame.data
            ended |= {frame.stream} if frame.last else set()
    assert received == b"HELLO THERE"

    for stream, kind in ((5, "error"), (7, "data")):
        headers = {"streamType": kind, "port": "1", "requestID": "1"}
        await socket.send_bytes(opening(deflate, stream, **headers))
    problem = b""
    while b"containerPorts" not in problem:
        for frame in reader.feed((await socket.receive(30)).data):
            problem += frame.data
    await socket.send_bytes(struct.pack(">II", 1, 0xFFFFFF))  # more than a frame may have
    assert (await socket.receive(30)).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)


async def test_what_is_refused(streams):
    await streams.run("web", "sleep", "1000")
    await streams.client.create(NODE_PODS, a_pod("simulated", node="node-0002"), "default")
    code, _, err = await streams.kubectl("logs", "simulated")
    assert code == 1
    assert 'node "node-0002" is simulated, its containers write no log' in err
    # Reading is not enough to run a command, although a WebSocket begins with a GET.
    rules = [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods/exec"]}]
    role = {"metadata": {"name": "reader"}, "rules": rules}
    await streams.client.create(CLUSTER_ROLES, role)
    await streams.client.create(CLUSTER_ROLE_BINDINGS, {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": CLUSTER_ROLES.group, "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": CLUSTER_ROLES.group, "kind": "User", "name": "reader"}],
    })  # fmt: skip
    query = {"command": "true", "stdout": "true"}
    path = "/api/v1/namespaces/default/pods/web/exec"
    request = Request("GET", path, query, {"upgrade": "websocket"})
    server = streams.cluster.server.server
    answer = await InProcessTransport(server, component_user("reader")).send(request)
    assert answer.status == 403
    assert b"cannot create resource" in answer.body

    # The server of a node is for the API server only.
    pki = streams.directory / "pki"
    authority = KeyPair((pki / "ca.crt").read_bytes(), (pki / "ca.key").read_bytes())
    user = make_client_certificate(
        authority, "system:node:node-0001", ["system:nodes"], time.time()
    )
    (pki / "node.crt").write_bytes(user.certificate)
    (pki / "node.key").write_bytes(user.key)
    node = msgspec.json.decode(
        (await streams.client.transport.send(Request("GET", "/api/v1/nodes/node-0001"))).body
    )
    port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    url = f"https://127.0.0.1:{port}/containerLogs/default/web/main"
    context = streams.tls("node")
    context.load_verify_locations(cadata=node["metadata"]["annotations"][CERTIFICATE_ANNOTATION])
    async with streams.session.get(url, ssl=context) as answer:
        assert answer.status == 403
    anonymous = ssl.create_default_context(
        cadata=node["metadata"]["annotations"][CERTIFICATE_ANNOTATION]
    )
    with pytest.raises(aiohttp.ClientError):
        await streams.session.get(url, ssl=anonymous)
