"""The TLS settings of a client of a test server."""

import ssl

from holdfast.apiserver.access.credentials import Credentials


def client_context(credentials: Credentials, *, certificate: bool = True) -> ssl.SSLContext:
    """Trust the server's authority; with the admin's certificate unless told otherwise."""
    context = ssl.create_default_context(cadata=credentials.authority.certificate.decode())
    if certificate:
        context.load_cert_chain(
            credentials.directory / "admin.crt", credentials.directory / "admin.key"
        )
    return context
