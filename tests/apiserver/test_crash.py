import asyncio

import aiohttp
import msgspec

from apiserver.sample_objects import CONFIGMAPS, configmap
from apiserver.server_fixture import start_server
from apiserver.server_subprocess import server_process
from holdfast.runtime.clock import SystemClock
from holdfast.server.access.credentials import ensure_credentials
from tls_client import client_context


async def create_until_it_dies(url, context, process, wanted):
    """Create a thousand objects concurrently; kill the server when some are acknowledged."""
    acknowledged = {}

    async def one(session, name):
        try:
            async with session.post(url + CONFIGMAPS, json=configmap(name)) as answer:
                made = msgspec.json.decode(await answer.read())
        except aiohttp.ClientError:
            return
        acknowledged[name] = int(made["metadata"]["resourceVersion"])
        if len(acknowledged) == wanted:
            process.kill()

    connector = aiohttp.TCPConnector(ssl=context, limit=32)
    async with aiohttp.ClientSession(connector=connector) as session:
        await asyncio.gather(*(one(session, f"c{i}") for i in range(1000)))
    return acknowledged


async def test_A049_acknowledged_writes_survive_a_kill_and_no_version_is_used_twice(tmp_path):
    credentials = ensure_credentials(tmp_path / "pki", SystemClock().now())
    async with server_process(tmp_path) as (process, url):
        context = client_context(credentials)
        acknowledged = await create_until_it_dies(url, context, process, 300)
    assert 300 <= len(acknowledged) < 1000
    assert len(set(acknowledged.values())) == len(acknowledged)
    async with start_server(tmp_path) as api:
        items = (await api.call("GET", CONFIGMAPS)).json["items"]
        stored = {i["metadata"]["name"]: int(i["metadata"]["resourceVersion"]) for i in items}
        assert acknowledged.items() <= stored.items()
        made = await api.create(CONFIGMAPS, configmap("after"))
        assert int(made["metadata"]["resourceVersion"]) > max(stored.values())
        start = sorted(stored.values())[10]
        later = sorted((v, n) for n, v in stored.items() if v > start)
        async with api.watch(CONFIGMAPS, resourceVersion=str(start)) as w:
            seen = [e["object"]["metadata"] for e in await w.take(len(later) + 1)]
        shown = [(int(m["resourceVersion"]), m["name"]) for m in seen]
        assert shown == [*later, (int(made["metadata"]["resourceVersion"]), "after")]
