"""The API server of the embedded cluster, with its store, certificates and HTTPS listener."""
# ruff: noqa: PLC0415 - a process imports either the server or the components, seldom both

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from holdfast.client.client import Client
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import Refused
from holdfast.runtime.settings import ServerSettings

if TYPE_CHECKING:
    from holdfast.server.access.credentials import Credentials
    from holdfast.server.api_server import ApiServer
    from holdfast.server.store.store import Store
    from holdfast.server.wire.https_listener import HttpsServer

PKI = "pki"
"""Directory of keys and certificates, in the data directory."""


@dataclass(slots=True)
class EmbeddedServer:
    """A running API server on its own data directory."""

    server: ApiServer
    store: Store
    https_server: HttpsServer
    credentials: Credentials
    url: str
    """Its address for clients on this machine."""
    _compaction: asyncio.Task[None]

    @classmethod
    async def start(
        cls,
        data_dir: Path,
        kubeconfig: Path,
        settings: ServerSettings,
        clock: Clock,
        *,
        components_connect: bool = False,
    ) -> EmbeddedServer:
        """Open the store, create certificates on first start, listen, write the kubeconfig.

        ``components_connect``: the components are in another process and need certificates.
        """
        from holdfast.server.access.credentials import (
            ensure_component_certificates,
            ensure_credentials,
            kubelet_client_certificate,
        )
        from holdfast.server.api_server import ApiServer
        from holdfast.server.store.store import Store
        from holdfast.server.wire.kubelet_client import KubeletClient

        store = Store.open(data_dir / "store", clock)
        https_server: HttpsServer | None = None
        try:
            credentials = ensure_credentials(data_dir / PKI, clock.now(), (settings.host,))
            if components_connect:
                ensure_component_certificates(credentials, clock.now())
            server = ApiServer.create(
                store, clock, feature_gates=settings.feature_gates,
                kubelet_client=KubeletClient(
                    lambda: kubelet_client_certificate(credentials, clock.now())
                ),
            )  # fmt: skip
            await server.start()
            https_server = await _listen(server, settings, credentials)
            url = _url_for_clients(https_server.url)
            _write_kubeconfig(credentials, kubeconfig, url)
        except BaseException:
            if https_server is not None:
                await https_server.close()
            await store.close()
            raise
        compaction = asyncio.create_task(store.run(), name="store: compact")
        return cls(server, store, https_server, credentials, url, compaction)

    def client(self, user: str) -> Client:
        """Return an in-process client with the rights of a component or of a node."""
        from holdfast.server.inprocess import InProcessTransport
        from holdfast.server.user import own_user

        return Client(InProcessTransport(self.server, own_user(user)), user)

    async def stop(self) -> None:
        """Stop listening, finish running requests, close the store."""
        self._compaction.cancel()
        await asyncio.gather(self._compaction, return_exceptions=True)
        await self.server.stop()
        await self.https_server.close()
        await self.store.close()


async def _listen(
    server: ApiServer, settings: ServerSettings, credentials: Credentials
) -> HttpsServer:
    from holdfast.server.https_server import serve_https

    try:
        return await serve_https(server, settings.host, settings.port, credentials, settings.limits)
    except OSError as busy:
        # A name that is not found has a separate error number, below zero.
        why = os.strerror(busy.errno) if busy.errno and busy.errno > 0 else busy.strerror
        raise Refused(
            f"cannot listen on {settings.host}:{settings.port} ({why}): choose another port with "
            "--port, --port 0 for any free one, or another address with --host"
        ) from busy


def _write_kubeconfig(credentials: Credentials, kubeconfig: Path, url: str) -> None:
    from holdfast.server.access.credentials import write_kubeconfig

    try:
        write_kubeconfig(credentials, kubeconfig, url)
    except OSError as wrong:
        raise Refused(
            f"cannot write the kubeconfig to {kubeconfig} ({wrong.strerror}): "
            "choose another place with --kubeconfig FILE"
        ) from wrong


def _url_for_clients(url: str) -> str:
    """Return an address that clients can connect to, if the server listens on all interfaces.

    >>> _url_for_clients("https://0.0.0.0:6443"), _url_for_clients("https://10.0.0.1:6443")
    ('https://127.0.0.1:6443', 'https://10.0.0.1:6443')
    """
    parts = urlsplit(url)
    loopback = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(parts.hostname or "")
    return f"https://{loopback}:{parts.port}" if loopback else url
