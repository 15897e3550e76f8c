"""The address of an API server and the credentials for it."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.runtime.errors import BadConfiguration


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of an API server and the credentials for it.

    TLS uses ``ssl_context``, or else the files ``ca``, ``cert`` and ``key``. ``token`` is a bearer
    token; ``authorization`` is a complete header for other schemes (basic). ``renew`` returns the
    endpoint with new credentials; the transport calls it after a 401.
    """

    url: str
    token: str = ""
    authorization: str = ""
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    server_name: str = ""
    insecure: bool = False
    proxy: str = ""
    ssl_context: ssl.SSLContext | None = None
    renew: Callable[[], Awaitable[Endpoint]] | None = None

    def authorization_header(self) -> str:
        """Return the Authorization header, or "" if there is none."""
        return f"Bearer {self.token}" if self.token else self.authorization

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the TLS context, or None for plain HTTP."""
        if not self.url.startswith("https:"):
            return None
        if self.ssl_context is not None:
            return self.ssl_context
        try:
            context = ssl.create_default_context(cafile=str(self.ca) if self.ca else None)
            if self.cert:
                context.load_cert_chain(self.cert, self.key)
        except (OSError, ssl.SSLError) as wrong:
            raise BadConfiguration(
                f"the certificates for {self.url} cannot be used: {wrong}; check "
                f"ca={self.ca}, cert={self.cert}, key={self.key}"
            ) from wrong
        # Many clusters have certificates that Go accepts and Python 3.13's strict mode rejects.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to connect and to receive a complete response; streams have no timeout."""

    connect: float = 10.0
    request: float = 65.0  # the API server's own timeout is 60
