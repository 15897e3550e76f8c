"""A server process with few file descriptors and many open connections."""

import asyncio
import signal
import sys
from contextlib import AsyncExitStack
from types import SimpleNamespace

import pytest

from apiserver.raw_http import connect
from apiserver.sample_objects import PODS
from holdfast.client.endpoint import Endpoint
from holdfast.client.http import HttpTransport
from holdfast.client.transport import Request
from holdfast.runtime.clock import SystemClock
from holdfast.server.access.credentials import ensure_credentials

DESCRIPTORS = 192
IDLE, HALF_SENT = 220, 40
HALF_POST = f"POST {PODS} HTTP/1.1\nhost: HOST\ncontent-length: 3000000\n\n{{"


@pytest.mark.long
async def test_more_clients_than_descriptors_do_not_lock_out_the_admin(tmp_path):
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", f'ulimit -n {DESCRIPTORS} && exec "$@"', "bash",
        sys.executable, "-m", "holdfast", "apiserver", "--announce", "--port", "0",
        "--data-dir", str(tmp_path),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    url = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().split()[1]
    credentials = ensure_credentials(tmp_path / "pki", SystemClock().now())
    pki = credentials.directory
    admin = Endpoint(url, ca=pki / "ca.crt", cert=pki / "admin.crt", key=pki / "admin.key")
    server = SimpleNamespace(url=url, credentials=credentials)
    kept = HttpTransport(admin)
    async with AsyncExitStack() as stack:
        for number in range(IDLE + HALF_SENT):
            half_sent = number < HALF_SENT
            client = await stack.enter_async_context(connect(server, tls=half_sent))
            if half_sent:
                await client.send(HALF_POST)
            if number % 20 == 0:
                assert (await kept.send(Request("GET", PODS))).status == 200
        fresh = HttpTransport(admin)
        assert (await fresh.send(Request("GET", PODS))).status == 200
        await fresh.close()
    await kept.close()
    process.send_signal(signal.SIGTERM)
    _, logged = await asyncio.wait_for(process.communicate(), 60)
    assert logged == b""
