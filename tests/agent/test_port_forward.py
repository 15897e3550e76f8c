"""Port-forward between a client that speaks SPDY frames and a port of this machine."""

import asyncio
from types import SimpleNamespace

from aiohttp import WSMsgType

from agent.spdy_client import compressor, opening
from holdfast.node.agent.kubelet_server.port_forward import PortForwarder
from holdfast.node.agent.kubelet_server.spdy_frames import FrameReader, FrameType, FrameWriter


class Client:
    """A WebSocket whose client has sent all of these messages and waits for the answers."""

    def __init__(self, *messages):
        self._messages, self._reader = messages, FrameReader()
        self.frames = asyncio.Queue()

    async def __aiter__(self):
        for data in self._messages:
            yield SimpleNamespace(type=WSMsgType.BINARY, data=data)
        await asyncio.Event().wait()

    async def send_bytes(self, data):
        for frame in self._reader.feed(data):
            self.frames.put_nowait(frame)

    async def close(self):
        pass


async def test_a_connection_closed_by_the_pod_does_not_block_what_its_client_sends():
    """More frames wait than the forwarder keeps, then the pod closes: the next is answered."""
    closing = asyncio.Event()

    async def close_unread(_reader, writer):
        await closing.wait()
        writer.transport.abort()

    server = await asyncio.start_server(close_unread, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    deflate, writer = compressor(), FrameWriter()
    streams = [
        opening(deflate, stream, streamType=kind, port=str(port), requestID="0")
        for stream, kind in ((1, "error"), (3, "data"))
    ]
    megabyte = [writer.data(3, b"x" * (1 << 20))] * 128
    client = Client(*streams, *megabyte, writer.pong(9))
    serving = asyncio.create_task(
        PortForwarder(client, lambda number: ("127.0.0.1", number)).serve()
    )
    async with asyncio.timeout(30):
        closing.set()
        while (await client.frames.get()).type is not FrameType.PING:
            pass
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    server.close()
