"""The same requests to a real kube-apiserver and to ours: the same responses, with exceptions."""

import re
import shutil
import ssl

import aiohttp
import msgspec
import pytest

from apiserver.upstream_requests import STEPS
from real.control_plane import ControlPlane, program

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not (program("kube-apiserver") and program("etcd") and shutil.which("openssl")),
        reason="no upstream binaries",
    ),
]
# Fields that differ between clusters, and the service account plugin, which is disabled here.
UNSHARED = {"uid", "resourceVersion", "creationTimestamp", "managedFields", "deletionTimestamp",
            "lastTransitionTime", "serviceAccount", "serviceAccountName"}  # fmt: skip
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
VERSION = re.compile(r"ResourceVersion in record \(\d+\)")


def shared(value):
    """Return a value without fields that differ between clusters and without empty values."""
    if isinstance(value, dict):
        kept = {k: shared(v) for k, v in value.items() if k not in UNSHARED}
        return {k: v for k, v in kept.items() if v not in ({}, [])}
    if isinstance(value, list):
        return [shared(v) for v in value]
    if isinstance(value, str):
        return VERSION.sub("(RV)", UID.sub("UID", value))
    return value


async def ask(session, url, step):
    method, path, body, headers, query = step[:5]
    data = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
    sent = {"content-type": "application/json"} if data is not None else {}
    async with session.request(
        method, url + path, data=data, headers=sent | headers, params=query
    ) as response:
        text = await response.read()
    try:
        return response.status, shared(msgspec.json.decode(text))
    except msgspec.DecodeError:
        return response.status, text


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
