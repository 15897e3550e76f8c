"""Read a kubeconfig with embedded credentials without the slow import of kubernetes_asyncio.

`holdfast up`, kubeadm and kind write such files: one file with a server, certificates as data and
perhaps a token. Anything else in the selected cluster or user is left to the full loader.
"""

from __future__ import annotations

import atexit
import base64
import os
import shutil
import tempfile
from pathlib import Path
from typing import TypeGuard

import yaml

from holdfast.client.endpoint import Endpoint

CLUSTER_FIELDS = frozenset({"server", "certificate-authority-data"})
USER_FIELDS = frozenset({"client-certificate-data", "client-key-data", "token"})
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_embedded_credentials(files: str, context: str | None) -> Endpoint | None:
    """Return the endpoint of a context, or None if the full loader has to read the file."""
    if os.pathsep in files:
        return None
    try:
        config = yaml.load(Path(files).read_bytes(), _Loader)
        chosen = _entry(config, "context", context or config["current-context"])
        cluster = _entry(config, "cluster", chosen["cluster"])
        user = _entry(config, "user", chosen["user"])
        if not (cluster.keys() <= CLUSTER_FIELDS and user.keys() <= USER_FIELDS):
            return None
        data = {key: base64.b64decode(text, validate=True)
                for key, text in {**cluster, **user}.items() if key.endswith("-data")}  # fmt: skip
    except (AttributeError, KeyError, OSError, TypeError, ValueError, yaml.YAMLError):
        return None  # the full loader says what is wrong
    url, token = cluster.get("server"), user.get("token", "")
    if not (_is_text(url) and url.startswith("https://") and isinstance(token, str)):
        return None
    if not data.get("certificate-authority-data") or not all(data.values()):
        return None
    if ("client-certificate-data" in data) != ("client-key-data" in data):
        return None
    return _endpoint(url.rstrip("/"), token, data)


def _entry(config: dict[str, object], kind: str, name: object) -> dict[str, str]:
    """Return the only entry of a name; raise ValueError if it is not a map of texts."""
    entries = config[f"{kind}s"]
    if not isinstance(entries, list):
        raise ValueError(f"{kind}s is not a list")
    found = [entry[kind] for entry in entries if entry["name"] == name]
    if len(found) != 1 or not isinstance(found[0], dict):
        raise ValueError(f"{len(found)} entries {name}")
    if not all(_is_text(value) for value in found[0].values()):
        raise ValueError(f"a field of {name} is not a text")
    return found[0]


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value)


def _endpoint(url: str, token: str, data: dict[str, bytes]) -> Endpoint:
    """Write the certificates to private files, because TLS contexts read files."""
    directory = Path(tempfile.mkdtemp(prefix="holdfast-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    paths: dict[str, Path] = {}
    for key, content in data.items():
        paths[key] = directory / key.removesuffix("-data")
        paths[key].write_bytes(content)
    return Endpoint(
        url=url,
        authorization=f"Bearer {token}" if token else "",
        ca=paths["certificate-authority-data"],
        cert=paths.get("client-certificate-data"),
        key=paths.get("client-key-data"),
    )
