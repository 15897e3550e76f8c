"""Connect a client's WebSocket with one of a node, message by message."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import WSMsgType, web

from holdfast.api.node_names import MESSAGE_BYTES, PING_SECONDS
from holdfast.apiserver.wire.responses import WebSocketProxy

if TYPE_CHECKING:
    import aiohttp


async def connect_web_sockets(
    proxy: WebSocketProxy, incoming: web.BaseRequest
) -> web.StreamResponse:
    """Accept the client's WebSocket with the node's subprotocol; pass messages until one ends."""
    protocols = (proxy.node.protocol,) if proxy.node.protocol else ()
    client = web.WebSocketResponse(
        protocols=protocols, compress=False, max_msg_size=MESSAGE_BYTES, heartbeat=PING_SECONDS
    )
    try:
        await client.prepare(incoming)
        tasks = {
            asyncio.create_task(_pass_on(client, proxy.node)),
            asyncio.create_task(_pass_on(proxy.node, client)),
        }
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await client.close()
    finally:
        await proxy.close()
    return client


async def _pass_on(
    source: web.WebSocketResponse | aiohttp.ClientWebSocketResponse,
    target: web.WebSocketResponse | aiohttp.ClientWebSocketResponse,
) -> None:
    async for message in source:
        if message.type is WSMsgType.BINARY:
            await target.send_bytes(message.data)
        elif message.type is WSMsgType.TEXT:
            await target.send_str(message.data)
