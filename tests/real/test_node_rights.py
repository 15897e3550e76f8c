"""The requests of a node to a real kube-apiserver and to ours: the same codes and messages."""

import asyncio
import re
import ssl
import time

import aiohttp
import msgspec
import pytest

from apiserver.node_requests import SETUP, STEPS, headers_of
from apiserver.server_fixture import start_server
from real.control_plane import ControlPlane

pytestmark = pytest.mark.real
NODE_1 = {"impersonate-user": "system:node:n1"}
FLAGS = ("--enable-admission-plugins=NodeRestriction",)
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
LAG_SECONDS = 20


async def ask(session, url, method, path, body, query, headers):
    data = None if body is None else msgspec.json.encode(body)
    sent = {"content-type": "application/json", **headers}
    async with session.request(
        method, url + path, data=data, params=query, headers=sent
    ) as response:
        told = msgspec.json.decode(await response.read())
    message = told.get("message", "") if response.status >= 400 else ""
    return response.status, UID.sub("UID", message)


async def test_A048_a_real_api_server_gives_a_node_the_same_answers(tmp_path):
    plane = ControlPlane(tmp_path / "real", authorization_mode="Node,RBAC", flags=FLAGS).start()
    try:
        connector = aiohttp.TCPConnector(ssl=ssl._create_unverified_context())
        headers = {"authorization": f"Bearer {plane.token}"}
        async with (
            aiohttp.ClientSession(connector=connector, headers=headers) as session,
            start_server(tmp_path / "ours") as api,
        ):
            for path, body in SETUP:
                for where, url in ((session, plane.url), (api.session, api.url)):
                    status, message = await ask(where, url, "POST", path, body, {}, {})
                    assert status == 201, (url, path, message)
            unlike = []
            for method, path, body, query, _, _ in STEPS:
                step = (method, path, body, query, NODE_1 | headers_of(method))
                ours = await ask(api.session, api.url, *step)
                theirs = await ask(session, plane.url, *step)
                # Upstream's authorizer and admission read caches, which lag behind.
                deadline = time.monotonic() + LAG_SECONDS
                while theirs != ours and method == "GET" and time.monotonic() < deadline:
                    await asyncio.sleep(0.1)
                    theirs = await ask(session, plane.url, *step)
                if theirs != ours:
                    unlike.append((method, path, query, theirs, ours))
            assert not unlike
    finally:
        plane.stop()
