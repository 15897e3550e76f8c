"""The credentials of one server: certificate authority, certificates, tokens, kubeconfig."""

from __future__ import annotations

import base64
import hashlib
import secrets
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from holdfast.api import names
from holdfast.api.node_names import API_SERVER_USER
from holdfast.runtime.certificates import (
    KeyPair,
    covers,
    make_authority,
    make_client_certificate,
    make_server_certificate,
)
from holdfast.runtime.errors import BadConfiguration
from holdfast.runtime.private_files import PRIVATE_DIRECTORY, read_own, write_private
from holdfast.server.user import (
    ADMIN,
    AUTHENTICATED,
    COMPONENTS,
    MASTERS,
    User,
    certificate_name,
    component_user,
    node_user,
)

_TOKEN_USER = "holdfast-admin-token"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SERVICE_HOSTS = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(slots=True)
class Credentials:
    """The key pairs of a server and its tokens, by hash."""

    directory: Path
    authority: KeyPair
    server: KeyPair
    admin: KeyPair
    hosts: tuple[str, ...]
    tokens: dict[str, User] = field(default_factory=dict)

    def create_token(self, user: User) -> str:
        """Create a token for a user and store its hash; older tokens of the user become invalid."""
        token = secrets.token_urlsafe(32)
        self.tokens = {h: u for h, u in self.tokens.items() if u.name != user.name}
        self.tokens[hash_token(token)] = user
        entries = [
            {"sha256": digest, "user": u.name, "groups": list(u.groups)}
            for digest, u in self.tokens.items()
        ]
        write_private(self.directory / "tokens.json", msgspec.json.encode(entries))
        return token


def hash_token(token: str) -> str:
    """Return the digest of a bearer token, which is stored instead of the token."""
    return hashlib.sha256(token.encode()).hexdigest()


def ensure_credentials(directory: Path, now: float, hosts: Sequence[str] = ()) -> Credentials:
    """Load the credentials of a directory; create those that are missing or expired."""
    with _convert_errors(directory):
        return _ensure_credentials(directory, now, hosts)


def _ensure_credentials(directory: Path, now: float, hosts: Sequence[str]) -> Credentials:
    directory.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    wanted = tuple(dict.fromkeys((*LOOPBACK, *_SERVICE_HOSTS, *hosts)))
    authority = _load(directory, "ca") or _save(directory, "ca", make_authority("holdfast-ca", now))
    server = _load(directory, "server")
    if server is None or not covers(server.certificate, wanted, now):
        server = _save(directory, "server", make_server_certificate(authority, wanted, now))
    admin = _ensure_client(directory, "admin", authority, ADMIN, now)
    return Credentials(directory, authority, server, admin, wanted, _load_tokens(directory))


def _ensure_client(
    directory: Path, name: str, authority: KeyPair, user: User, now: float
) -> KeyPair:
    pair = _load(directory, name)
    if pair is None or not covers(pair.certificate, (), now):
        pair = _save(directory, name, _client_certificate(authority, user, now))
    return pair


def _client_certificate(authority: KeyPair, user: User, now: float) -> KeyPair:
    groups = [group for group in user.groups if group != AUTHENTICATED]
    return make_client_certificate(authority, user.name, groups, now)


def ensure_component_certificates(credentials: Credentials, now: float) -> None:
    """Create the missing or expired certificates of the components that connect by HTTPS."""
    with _convert_errors(credentials.directory):
        for user in COMPONENTS.values():
            name = certificate_name(user.name)
            _ensure_client(credentials.directory, name, credentials.authority, user, now)


def kubelet_client_certificate(credentials: Credentials, now: float) -> tuple[Path, Path]:
    """Return the files of the certificate and key with which the API server connects to nodes."""
    directory, name = credentials.directory, "apiserver-kubelet-client"
    with _convert_errors(directory):
        _ensure_client(directory, name, credentials.authority, component_user(API_SERVER_USER), now)
    return directory / f"{name}.crt", directory / f"{name}.key"


def write_node_kubeconfig(pki: Path, node: str, path: Path, url: str, now: float) -> None:
    """Write a kubeconfig (mode 0600) with a certificate of the user ``system:node:NODE``.

    A certificate in an existing file is kept if the same authority has signed it for this node and
    it is valid for another thirty days. Raises BadConfiguration if ``pki`` has no authority.
    """
    if names.dns_subdomain(node):
        raise BadConfiguration(f'"{node}" is not the name of a node')
    with _convert_errors(pki):
        authority = _load(pki, "ca")
        if authority is None:
            raise FileNotFoundError(f"{pki / 'ca.key'} does not exist")
        user = node_user(node)
        pair = _pair_in(path, user, authority, now) or _client_certificate(authority, user, now)
    config = kubeconfig(url, authority.certificate, {user.name: _client_entry(pair)})
    write_private(path, yaml.safe_dump(config, sort_keys=False).encode())


def _pair_in(path: Path, user: User, authority: KeyPair, now: float) -> KeyPair | None:
    """Return the certificate in an existing kubeconfig if it is still usable."""
    try:
        config = yaml.safe_load(read_own(path))
        cluster, entry = config["clusters"][0]["cluster"], config["users"][0]
        known = (cluster["certificate-authority-data"], entry["name"])
        parts = ("client-certificate-data", "client-key-data")
        certificate, key = (base64.b64decode(entry["user"][part]) for part in parts)
        usable = known == (_b64(authority.certificate), user.name) and covers(certificate, (), now)
    except (OSError, yaml.YAMLError, AttributeError, KeyError, IndexError, TypeError, ValueError):
        return None
    return KeyPair(certificate, key) if usable else None


def _client_entry(pair: KeyPair) -> dict[str, str]:
    return {
        "client-certificate-data": _b64(pair.certificate),
        "client-key-data": _b64(pair.key),
    }


def write_kubeconfig(credentials: Credentials, path: Path, url: str) -> None:
    """Write a kubeconfig (mode 0600) with the admin's certificate, and an admin token.

    The current context uses the certificate; the user ``holdfast-admin-token`` is for clients
    without support for certificates. The token is stored nowhere else in plain text; a valid token
    of an existing file is kept.
    """
    token = _token_in(path, credentials) or credentials.create_token(
        User(_TOKEN_USER, (MASTERS, AUTHENTICATED))
    )
    authority = credentials.authority.certificate
    cluster_id = _cluster_id(authority)
    config = kubeconfig(
        url,
        authority,
        {
            f"holdfast-admin-{cluster_id}": _client_entry(credentials.admin),
            f"{_TOKEN_USER}-{cluster_id}": {"token": token},
        },
    )
    write_private(path, yaml.safe_dump(config, sort_keys=False).encode())


def _token_in(path: Path, credentials: Credentials) -> str:
    """Return the admin token in an existing kubeconfig if it is valid, else ""."""
    try:
        users = (yaml.safe_load(read_own(path)) or {}).get("users") or ()
        tokens = [u["user"].get("token", "") for u in users if u["name"].startswith(_TOKEN_USER)]
    except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError):
        return ""
    return next((t for t in tokens if hash_token(t) in credentials.tokens), "")


def kubeconfig(
    url: str, authority: bytes, users: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """Return a kubeconfig with one cluster and a context per user; the first is current.

    All names end with an id of the cluster, so that the files of two clusters can be merged.
    """
    cluster = f"holdfast-{_cluster_id(authority)}"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": cluster,
                "cluster": {"server": url, "certificate-authority-data": _b64(authority)},
            }
        ],
        "users": [{"name": name, "user": dict(user)} for name, user in users.items()],
        "contexts": [
            {
                "name": _context_of(name, cluster),
                "context": {"cluster": cluster, "user": name, "namespace": "default"},
            }
            for name in users
        ],
        "current-context": _context_of(next(iter(users)), cluster),
    }


def server_tls_context(credentials: Credentials) -> ssl.SSLContext:
    """Return the TLS settings of the server: 1.2 or newer, client certificates optional."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_OPTIONAL
    context.options |= ssl.OP_NO_RENEGOTIATION
    with _convert_errors(credentials.directory):
        context.load_verify_locations(cadata=credentials.authority.certificate.decode())
        context.load_cert_chain(
            credentials.directory / "server.crt", credentials.directory / "server.key"
        )
    return context


@contextmanager
def _convert_errors(directory: Path) -> Iterator[None]:
    """Convert errors about a key, certificate or token file to BadConfiguration."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, msgspec.MsgspecError) as wrong:
        raise BadConfiguration(
            f"the credentials in {directory} cannot be used ({wrong}): restore them from a copy, "
            "or move the directory away; then new ones are created, and clients need the new "
            "kubeconfig"
        ) from wrong


def _context_of(user: str, cluster: str) -> str:
    prefix = "holdfast-admin-"
    return user.replace(prefix, "holdfast-") if user.startswith(prefix) else f"{user}@{cluster}"


def _cluster_id(authority: bytes) -> str:
    """Return a few characters that distinguish the clusters of a user."""
    return hashlib.sha256(authority).hexdigest()[:8]


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _save(directory: Path, name: str, pair: KeyPair) -> KeyPair:
    write_private(directory / f"{name}.key", pair.key)
    write_private(directory / f"{name}.crt", pair.certificate)
    return pair


def _load(directory: Path, name: str) -> KeyPair | None:
    certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
    if not (certificate.exists() and key.exists()):
        return None
    return KeyPair(certificate.read_bytes(), key.read_bytes())


def _load_tokens(directory: Path) -> dict[str, User]:
    path = directory / "tokens.json"
    if not path.exists():
        return {}
    entries = msgspec.json.decode(path.read_bytes())
    return {e["sha256"]: User(e["user"], tuple(e["groups"])) for e in entries}
