"""The cluster that KUBECONFIG names, wherever that file lies."""
# ruff: noqa: PLC0415 - yaml is loaded only if there is a file to read

from __future__ import annotations

import base64
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_CONNECT_SECONDS = 2.0


def other_cluster(directory: Path) -> str:
    """Return the URL of the cluster that KUBECONFIG names if it is another one of Holdfast.

    "" if it is that of a data directory, no cluster of Holdfast, or does not run.
    """
    name, cluster = _current_cluster()
    url = str(cluster.get("server", ""))
    if not name.startswith("holdfast") or _authority(cluster) == _authority_of(directory):
        return ""
    return url if _listens(url) else ""


def _current_cluster() -> tuple[str, dict[str, Any]]:
    """Return name and entry of the cluster of the current context; of several files as kubectl."""
    files = [each for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    if not files:
        return "", {}
    import yaml

    contexts: dict[str, Any] = {}
    clusters: dict[str, Any] = {}
    current = ""
    for file in files:
        with suppress(OSError, ValueError, yaml.YAMLError, AttributeError, KeyError, TypeError):
            config = yaml.safe_load(Path(file).expanduser().read_text())
            current = current or str(config.get("current-context") or "")
            contexts = _by_name(config.get("contexts"), "context") | contexts
            clusters = _by_name(config.get("clusters"), "cluster") | clusters
    name = str(contexts.get(current, {}).get("cluster", ""))
    return name, clusters.get(name, {})


def _by_name(entries: Any, key: str) -> dict[str, Any]:
    return {str(one["name"]): dict(one[key]) for one in entries or ()}


def _authority(cluster: dict[str, Any]) -> bytes:
    try:
        return base64.b64decode(cluster.get("certificate-authority-data", ""))
    except (ValueError, TypeError):
        return b""


def _authority_of(directory: Path) -> bytes:
    try:
        return (directory / "pki" / "ca.crt").read_bytes()
    except OSError:
        return b"none"


def _listens(url: str) -> bool:
    try:
        parts = urlsplit(url)
        address = parts.hostname or "", parts.port or 443
        socket.create_connection(address, _CONNECT_SECONDS).close()
    except (OSError, ValueError):
        return False
    return True
