"""The same requests to a real kube-apiserver and to ours: the same responses, with exceptions."""

import shutil
import ssl

import aiohttp
import pytest

from apiserver.comparable_responses import ask
from apiserver.upstream_requests import STEPS
from real.control_plane import ControlPlane, program

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not (program("kube-apiserver") and program("etcd") and shutil.which("openssl")),
        reason="no upstream binaries",
    ),
]


async def test_the_same_requests_get_the_same_responses(api, tmp_path):
    plane = ControlPlane(tmp_path / "real").start()
    unlike, alike = [], []
    try:
        connector = aiohttp.TCPConnector(ssl=ssl._create_unverified_context())
        headers = {"authorization": f"Bearer {plane.token}"}
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
            for step in STEPS:
                theirs = await ask(session, plane.url, step)
                ours = await ask(api.session, api.url, step)
                if theirs != ours and len(step) == 5:
                    unlike.append((step, theirs, ours))
                elif theirs == ours and len(step) == 6:
                    alike.append(step)
    finally:
        plane.stop()
    assert not unlike
    assert not alike, "these differ no longer: take their excuse away"
