"""Where an API server is and how to be believed by it."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import BadConfiguration


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An API server's address and the credentials to use there.

    Give a ready ``ssl_context``, or files for one to be made from. ``token`` is a bearer token;
    ``authorization`` is a whole header for anything else (basic). ``renew`` makes the same
    endpoint with fresh credentials; the transport asks for it when the server says 401.
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
        """Write the Authorization header; empty if there is none to send."""
        return f"Bearer {self.token}" if self.token else self.authorization

    def tls_context(self) -> ssl.SSLContext | None:
        """Make the TLS context; None for plain HTTP."""
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
        # Clusters are full of certificates that Go accepts and Python 3.13's strict mode does not.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds until a connection, and a whole answer, is given up. Streams have no end."""

    connect: float = 10.0
    request: float = 65.0  # the API server itself gives up after 60
