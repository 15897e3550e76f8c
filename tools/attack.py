"""Attack an embedded cluster without credentials and measure the response times of its users.

``python tools/attack.py [--seconds 60]`` starts ``holdfast up`` in a temporary directory, with a
limit of 1,024 open files, and attacks it: tools/attack_clients.py says how. During the attack the
admin lists pods with kubectl and on new connections, and leases are renewed. It prints the response
times before and during the attack, and exits with 1 if one failed or took longer than ``--most``
seconds. It attacks only the cluster that it has started.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from holdfast.api.timestamps import parse_rfc3339, rfc3339_micro
from holdfast.client.endpoint import Endpoint
from holdfast.client.http import HttpTransport
from holdfast.client.transport import Request, Response
from holdfast.runtime.child_process import COMMAND
from holdfast.runtime.clock import SystemClock

PODS = "/api/v1/namespaces/default/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
LEASE = {"metadata": {"name": "attack-probe"}, "spec": {"holderIdentity": "attack"}}
BEFORE_SECONDS = 15.0
HEARTBEAT_SECONDS = 10.0
PATCH = {"content-type": "application/merge-patch+json"}


@dataclass
class Measured:
    """The response times of one period, in seconds by probe, and the failures in it."""

    answers: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failures: list[str] = field(default_factory=list)
    late_heartbeat: float = 0.0
    renewed: dict[str, float] = field(default_factory=dict)
    """When the lease of each node was last renewed."""


@dataclass
class Cluster:
    """A running ``holdfast up`` and how to reach it as admin."""

    directory: Path
    process: asyncio.subprocess.Process
    endpoint: Endpoint
    server_pid: int

    @property
    def log_bytes(self) -> int:
        """Size of the cluster's log so far."""
        return (self.directory / "log").stat().st_size

    @property
    def peak_mib(self) -> int:
        """Peak memory of the API server so far."""
        status = Path(f"/proc/{self.server_pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) // 1024

    @property
    def cpu_seconds(self) -> float:
        """CPU time of the API server so far."""
        spent = Path(f"/proc/{self.server_pid}/stat").read_text().rpartition(")")[2].split()
        return (int(spent[11]) + int(spent[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def running_cluster(nodes: int, descriptors: int) -> AsyncIterator[Cluster]:
    """Run a cluster with a limit of file descriptors until the block ends."""
    directory = Path(tempfile.mkdtemp(prefix="holdfast-attack-"))
    with (directory / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", f'ulimit -n {descriptors} && exec "$@"', "bash",
            *COMMAND, "up", "--nodes", str(nodes), "--port", "0",
            "--data-dir", str(directory / "data"),
            stdout=asyncio.subprocess.PIPE, stderr=log,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        line = (await asyncio.wait_for(process.stdout.readline(), 120)).decode()
        url = line.partition(" at ")[2].split()[0]
        assert urlsplit(url).hostname == "127.0.0.1", line
        pki = directory / "data" / "pki"
        endpoint = Endpoint(url, ca=pki / "ca.crt", cert=pki / "admin.crt", key=pki / "admin.key")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        yield Cluster(directory, process, endpoint, int(children.split()[0]))
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        shutil.rmtree(directory)


async def send(transport: HttpTransport, request: Request) -> str:
    """Send a request; return the problem of the response, or ""."""
    answer: Response = await transport.send(request)
    return "" if answer.status < 300 else f"{answer.status} {answer.body[:100]!r}"


async def by_kubectl(cluster: Cluster) -> str:
    """Run ``kubectl get pods``; return the problem, or ""."""
    process = await asyncio.create_subprocess_exec(
        "kubectl", "--kubeconfig", str(cluster.directory / "data" / "kubeconfig"), "get", "pods",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "HOME": str(cluster.directory)},
    )  # fmt: skip
    _, err = await process.communicate()
    return "" if process.returncode == 0 else err.decode()[-200:]


async def on_new_connection(cluster: Cluster) -> str:
    """List pods on a new connection."""
    transport = HttpTransport(cluster.endpoint)
    try:
        return await send(transport, Request("GET", PODS))
    finally:
        await transport.close()


async def renew_lease(transport: HttpTransport) -> str:
    """Renew a lease as a node does, on an open connection."""
    now = rfc3339_micro(SystemClock().now())
    body = f'{{"spec": {{"renewTime": "{now}"}}}}'.encode()
    return await send(transport, Request("PATCH", f"{LEASES}/attack-probe", {}, PATCH, body))


async def repeat(
    measured: Measured, name: str, every: float, probe: Callable[[], Awaitable[str]]
) -> None:
    """Run a probe repeatedly and store its times."""
    while True:
        started = time.monotonic()
        try:
            wrong = await probe()
        except Exception as failure:
            wrong = f"{type(failure).__name__}: {failure}"
        measured.answers[name].append(time.monotonic() - started)
        if wrong:
            measured.failures.append(f"{name}: {wrong}")
        await asyncio.sleep(every)


async def watch_heartbeats(measured: Measured, transport: HttpTransport) -> None:
    """Watch the leases of the nodes; store the longest delay of a renewal.

    The first renewal after the start of a cluster may be late: it is not counted.
    """
    first = _renewals((await transport.send(Request("GET", LEASES))).body)
    while True:
        await asyncio.sleep(1.0)
        answer = await transport.send(Request("GET", LEASES))
        for name, at in _renewals(answer.body).items():
            if at == first.get(name) or name == "attack-probe":
                continue
            late = at - measured.renewed.get(name, at) - HEARTBEAT_SECONDS
            measured.late_heartbeat = max(measured.late_heartbeat, late)
            measured.renewed[name] = at


def _renewals(body: bytes) -> dict[str, float]:
    items = msgspec.json.decode(body)["items"]
    return {lease["metadata"]["name"]: parse_rfc3339(lease["spec"]["renewTime"]) for lease in items}


async def measure(
    cluster: Cluster, work: Awaitable[None], before: Measured | None = None
) -> Measured:
    """Probe the cluster while ``work`` runs."""
    measured, kept = Measured(), HttpTransport(cluster.endpoint)
    if before is None:
        await send(kept, Request("POST", LEASES, {}, {}, msgspec.json.encode(LEASE)))
    else:
        measured.renewed = dict(before.renewed)
    probes = {
        "kubectl get pods": (1.0, lambda: by_kubectl(cluster)),
        "admin, new connection": (0.25, lambda: on_new_connection(cluster)),
        "admin, kept connection": (0.1, lambda: send(kept, Request("GET", PODS))),
        "lease renewal": (0.1, lambda: renew_lease(kept)),
    }
    tasks = [asyncio.create_task(repeat(measured, name, *how)) for name, how in probes.items()]
    tasks.append(asyncio.create_task(watch_heartbeats(measured, kept)))
    await work
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await kept.close()
    return measured


async def attack(cluster: Cluster, rate: float, seconds: float, sent: dict[str, Any]) -> None:
    """Attack from another process, so that the probes are not slowed down."""
    where = urlsplit(cluster.endpoint.url)
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(Path(__file__).with_name("attack_clients.py")),
        str(where.hostname), str(where.port), str(rate), str(seconds),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    sent.update(msgspec.json.decode(out))


def report(
    before: Measured, during: Measured, sent: dict[str, Any], cluster: Cluster, log: int, cpu: float
) -> float:
    """Print what was measured; return the slowest response during the attack."""
    print(f"{'responses in seconds':26}{'before':>16}{'under attack':>24}")
    print(f"{'':26}{'median':>8}{'worst':>8}{'median':>8}{'worst':>8}{'count':>8}")
    for name, times in during.answers.items():
        calm = sorted(before.answers[name])
        busy = sorted(times)
        print(
            f"{name:26}{calm[len(calm) // 2]:8.3f}{calm[-1]:8.3f}"
            f"{busy[len(busy) // 2]:8.3f}{busy[-1]:8.3f}{len(busy):8}"
        )
    print(f"heartbeats of the nodes at most {during.late_heartbeat:.3f} s late")
    refused = sum(" 429 " in failure for failure in during.failures)
    print(f"failed responses: {len(during.failures)}, of these 429: {refused}")
    for failure in during.failures[:5]:
        print(f"  {failure}")
    if log:
        print((cluster.directory / "log").read_text()[-min(log, 1000) :])
    print(f"API server: at most {cluster.peak_mib} MiB, {cpu:.1f} s of CPU; log: {log} bytes")
    opened = ", ".join(f"{count} {kind}" for kind, count in sent["opened"].items())
    print(f"attacked with {opened}; {sum(sent['failed'].values())} not accepted")
    return max(max(times) for times in during.answers.values())


async def main(options: argparse.Namespace) -> int:
    """Run the attack; return the exit status."""
    sent: dict[str, Any] = {}
    async with running_cluster(options.nodes, options.descriptors) as cluster:
        before = await measure(cluster, asyncio.sleep(BEFORE_SECONDS))
        log, cpu = cluster.log_bytes, cluster.cpu_seconds
        during = await measure(
            cluster, attack(cluster, options.rate, options.seconds, sent), before
        )
        log, cpu = cluster.log_bytes - log, cluster.cpu_seconds - cpu
        slowest = report(before, during, sent, cluster, log, cpu)
    return int(bool(during.failures) or slowest > options.most)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--descriptors", type=int, default=1024)
    parser.add_argument("--rate", type=float, default=200.0, help="connections per second")
    parser.add_argument("--most", type=float, default=1.0, help="slowest response allowed, seconds")
    sys.exit(asyncio.run(main(parser.parse_args())))
