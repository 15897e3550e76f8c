"""The embedded API server with its own store, accessible in process and over HTTPS."""

import random
import time
from contextlib import asynccontextmanager

from holdfast.client.endpoint import Endpoint
from holdfast.client.http import HttpTransport
from holdfast.server.access.credentials import ensure_credentials
from holdfast.server.api_server import ApiServer
from holdfast.server.https_server import serve_https
from holdfast.server.inprocess import InProcessTransport
from holdfast.server.store import Store
from holdfast.server.store.objects import Retention
from holdfast.testing.bootstrap_copy import copy_bootstrap_objects
from tls_client import client_context

RETENTION = Retention(seconds=300, min_events=0)


class Embedded:
    """An API server that can be stopped and started again on the same store."""

    def __init__(self, directory, clock):
        self.directory, self.clock = directory, clock
        self.store = self.server = None

    async def start(self):
        self.store = Store.open(self.directory / "store", self.clock, retention=RETENTION)
        self.server = ApiServer.create(self.store, self.clock, rng=random.Random(1))
        await self.server.start(copy_bootstrap_objects)

    async def stop(self):
        await self.server.stop()
        await self.store.close()

    async def compact(self):
        """Compact all history, as happens after the retention time."""
        await self.clock.advance(2 * RETENTION.seconds)
        await self.store.compact()

    @property
    def busy(self):
        return self.store is not None and self.store.busy

    @asynccontextmanager
    async def https(self):
        credentials = ensure_credentials(self.directory / "pki", time.time())
        front = await serve_https(self.server, "127.0.0.1", 0, credentials)
        transport = HttpTransport(Endpoint(front.url, ssl_context=client_context(credentials)))
        try:
            yield transport
        finally:
            await transport.close()
            await front.close()


class Wire:
    """A transport to the server that runs now, so that it can be restarted."""

    def __init__(self, embedded):
        self.embedded = embedded

    def _now(self):
        return InProcessTransport(self.embedded.server)

    async def send(self, request):
        return await self._now().send(request)

    def stream(self, request):
        return self._now().stream(request)

    async def close(self):
        pass
