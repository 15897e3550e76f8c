"""``holdfast status``: whether the embedded cluster is running and ready, and its object counts.

Requests are sent with the standard library and the admin certificate of the data directory:
importing the full client would take longer than the requests.
"""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.cli import running_cluster

REQUEST_TIMEOUT = 5.0
_SHOWN = 200
_COUNTED = (("node", "/api/v1/nodes"), ("pod", "/api/v1/pods"))


class _NotReady(Exception):
    """The server answered with an error status."""


def show(directory: Path) -> int:
    """Print the state of the cluster; return 0 if it is running and ready, else 1."""
    cluster = running_cluster.find(directory)
    if cluster is None:
        if starting := running_cluster.find_starting(directory):
            print(f"not ready: the cluster on {directory} is starting (pid {starting.pid})")
            return 1
        flag = running_cluster.flag_for(directory)
        print(f"no cluster is running on {directory}: start one with `holdfast up{flag}`")
        return 1
    print(f"running: pid {cluster.pid}, {cluster.url}")
    print(f"export KUBECONFIG={cluster.kubeconfig}")
    try:
        print(_condition(cluster.url, directory / "pki"))
    except _NotReady as error:
        print(f"not ready: {error}; see {directory / running_cluster.LOG}")
        return 1
    except (OSError, http.client.HTTPException, ValueError) as error:
        log = directory / running_cluster.LOG
        print(f"not ready: {cluster.url} does not answer ({error}); see {log}")
        return 1
    if cluster.pages:
        print(f"scheduler: {cluster.pages}/metrics")
    return 0


def _condition(url: str, pki: Path) -> str:
    context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    where = urlsplit(url)
    connection = http.client.HTTPSConnection(
        where.hostname or "", where.port, timeout=REQUEST_TIMEOUT, context=context
    )
    try:
        _get(connection, "/readyz")
        counts = [(_count(connection, path), word) for word, path in _COUNTED]
    finally:
        connection.close()
    return "ready: " + ", ".join(f"{n} {word}{'' if n == 1 else 's'}" for n, word in counts)


def _count(connection: http.client.HTTPConnection, path: str) -> int:
    """Count the objects of a collection by a list of one and its remainingItemCount."""
    listing = json.loads(_get(connection, f"{path}?limit=1"))
    return len(listing["items"] or ()) + int(listing["metadata"].get("remainingItemCount") or 0)


def _get(connection: http.client.HTTPConnection, path: str) -> bytes:
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        text = " ".join(body.decode(errors="replace").split())
        raise _NotReady(f"{path.partition('?')[0]} returned {answer.status}: {text[:_SHOWN]}")
    return body
