"""``holdfast status``: whether the embedded cluster runs, whether it is ready, what is in it.

It asks with the standard library alone, and with the admin's certificate from the data directory:
starting a whole client would take longer than the answer.
"""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.cli import running

ASK_SECONDS = 5.0
_SHOWN = 200
_COUNTED = (("node", "/api/v1/nodes"), ("pod", "/api/v1/pods"))


class _NotReady(Exception):
    """The server answers, and not with what was asked for."""


def show(directory: Path) -> int:
    """Print how the cluster of a data directory is; 0 if it runs and is ready."""
    found = running.find(directory)
    if found is None:
        print(f"nothing runs on {directory}: start it with `holdfast up`")
        return 1
    print(f"running: pid {found.pid}, {found.url}")
    print(f"export KUBECONFIG={found.kubeconfig}")
    try:
        print(_condition(found.url, directory / "pki"))
    except _NotReady as wrong:
        print(f"not ready: {wrong}; see {directory / running.LOG}")
        return 1
    except (OSError, http.client.HTTPException, ValueError) as wrong:
        print(f"not ready: {found.url} does not answer ({wrong}); see {directory / running.LOG}")
        return 1
    if found.pages:
        print(f"scheduler: {found.pages}/metrics")
    return 0


def _condition(url: str, pki: Path) -> str:
    context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    where = urlsplit(url)
    connection = http.client.HTTPSConnection(
        where.hostname or "", where.port, timeout=ASK_SECONDS, context=context
    )
    try:
        _get(connection, "/readyz")
        counts = [(_count(connection, path), word) for word, path in _COUNTED]
    finally:
        connection.close()
    return "ready: " + ", ".join(f"{n} {word}{'' if n == 1 else 's'}" for n, word in counts)


def _count(connection: http.client.HTTPConnection, path: str) -> int:
    """How many objects there are: one of them, and how many remain."""
    listing = json.loads(_get(connection, f"{path}?limit=1"))
    return len(listing["items"] or ()) + int(listing["metadata"].get("remainingItemCount") or 0)


def _get(connection: http.client.HTTPConnection, path: str) -> bytes:
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        words = " ".join(body.decode(errors="replace").split())
        raise _NotReady(f"{path.partition('?')[0]} says {answer.status}: {words[:_SHOWN]}")
    return body
