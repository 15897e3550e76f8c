"""The TLS settings of a client of a test server."""

import ssl

from holdfast.server.access.credentials import Credentials


def client_context(credentials: Credentials, *, certificate: bool = True) -> ssl.SSLContext:
    """Return a context that trusts the server's CA and sends the admin's certificate."""
    context = ssl.create_default_context(cadata=credentials.authority.certificate.decode())
    if certificate:
        context.load_cert_chain(
            credentials.directory / "admin.crt", credentials.directory / "admin.key"
        )
    return context
