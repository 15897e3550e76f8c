"""HTTPS sessions with the credentials of any user."""

import aiohttp

from holdfast.runtime.certificates import make_client_certificate
from tls_client import client_context


def session_for(api, user=None, groups=(), token=""):
    """Open a session with a certificate for a user, with a token, or without credentials."""
    context = client_context(api.credentials, certificate=False)
    if user:
        pair = make_client_certificate(api.credentials.authority, user, groups, time_of(api))
        for part, data in (("crt", pair.certificate), ("key", pair.key)):
            (api.directory / f"{user}.{part}").write_bytes(data)
        context.load_cert_chain(api.directory / f"{user}.crt", api.directory / f"{user}.key")
    headers = {"authorization": f"Bearer {token}"} if token else {}
    connector = aiohttp.TCPConnector(ssl=context)
    return aiohttp.ClientSession(connector=connector, headers=headers)


def time_of(api):
    return api.server.context.clock.now()
