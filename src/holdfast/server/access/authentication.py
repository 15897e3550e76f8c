"""Authenticate requests by client certificate or bearer token."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from holdfast.runtime.errors import Forbidden, Unauthorized
from holdfast.server.access.credentials import Credentials, hash_token
from holdfast.server.user import ANONYMOUS, AUTHENTICATED, User


class Authenticator:
    """Authenticates users by certificates of our own authority and by token hashes."""

    def __init__(self, credentials: Credentials, hosts: tuple[str, ...] = ()) -> None:
        self._credentials = credentials
        self._hosts = frozenset((*credentials.hosts, *hosts))

    def authenticate(self, peer: Mapping[str, Any] | None, authorization: str) -> User:
        """Return the user of a request; raise Unauthorized for an unknown token.

        Without credentials it is ANONYMOUS. ``peer`` is the verified certificate, as returned by
        ``ssl.getpeercert``.
        """
        if peer and (user := user_of_certificate(peer)):
            return user
        if authorization:
            return self._user_of_token(authorization)
        return ANONYMOUS

    def _user_of_token(self, authorization: str) -> User:
        scheme, _, token = authorization.partition(" ")
        # The lookup need not take constant time: timing reveals only parts of a SHA-256 digest.
        user = self._credentials.tokens.get(hash_token(token.strip()))
        if scheme.lower() != "bearer" or user is None:
            raise Unauthorized("Unauthorized")
        return user

    def check_host(self, host: str, origin: str = "") -> None:
        """Raise Forbidden for other hosts, so that web pages cannot reach a loopback server."""
        if _host_of(f"//{host}") not in self._hosts:
            raise Forbidden(f'the Host header "{host}" does not name this server')
        if origin and _host_of(origin) not in self._hosts:
            raise Forbidden(f'requests from the web page "{origin}" are not accepted')


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def user_of_certificate(peer: Mapping[str, Any]) -> User | None:
    """Return the user of a certificate: CN is the name, each O a group; None without CN.

    >>> user_of_certificate({"subject": ((("commonName", "ann"),),)}).name
    'ann'
    """
    return _user_of_subject(peer.get("subject", ()))


@lru_cache(maxsize=1024)
def _user_of_subject(subject: tuple[tuple[tuple[str, str], ...], ...]) -> User | None:
    pairs = [pair for names in subject for pair in names]
    name = next((value for key, value in pairs if key == "commonName"), "")
    if not name:
        return None
    groups = tuple(value for key, value in pairs if key == "organizationName")
    return User(name, (*groups, AUTHENTICATED))
