"""Find the API server and its credentials in a kubeconfig or in the pod's service account.

The loader of kubernetes_asyncio reads them (exec plugins, certificates, OIDC, rotating service
account tokens). Importing it is slow, so it is imported on demand, and not at all for a file with
embedded credentials.
"""

from __future__ import annotations

import atexit
import base64
import logging
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

import yaml

from holdfast.client.endpoint import Endpoint
from holdfast.runtime.errors import BadConfiguration

CLUSTER_FIELDS = frozenset({"server", "certificate-authority-data"})
USER_FIELDS = frozenset({"client-certificate-data", "client-key-data", "token"})
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PARSE_ERRORS = (
    AssertionError,
    AttributeError,
    KeyError,
    OSError,
    TypeError,
    ValueError,
    yaml.YAMLError,
)


async def load(kubeconfig: Path | None = None, context: str | None = None) -> Endpoint:
    """Return the Endpoint that kubectl would use.

    The order is: the given file, the files in KUBECONFIG, inside a pod its service account,
    ~/.kube/config. BadConfiguration names the file and what to do.
    """
    named = os.environ.get("KUBECONFIG", "")
    if kubeconfig is None and not named and not context and _in_pod():
        return _from_service_account()
    if kubeconfig is not None:
        files = str(kubeconfig.expanduser())
    else:
        files = named or str(Path.home() / ".kube" / "config")
    endpoint = read_embedded_credentials(files, context)
    if endpoint is None:
        return await _from_files(files, context)
    return replace(endpoint, renew=lambda: _from_files(files, context))


async def _from_files(files: str, context: str | None) -> Endpoint:
    if not any(Path(part).expanduser().is_file() for part in files.split(os.pathsep) if part):
        raise BadConfiguration(
            f"no kubeconfig at {files}: give --kubeconfig FILE, set KUBECONFIG, or start an "
            "embedded cluster with `holdfast up`"
        )
    from kubernetes_asyncio import client, config  # noqa: PLC0415 - half a second

    settings = client.Configuration()
    settings.host = ""
    _silence_loader()

    async def read() -> Any:
        try:
            return await config.load_kube_config(files, context, settings, persist_config=False)
        except (config.ConfigException, *_PARSE_ERRORS) as wrong:
            raise BadConfiguration(_describe(files, context, wrong)) from wrong

    loader = await read()
    return _endpoint(settings, files, _renewal_of(loader, settings, files))


def _renewal_of(loader: Any, settings: Any, files: str) -> Callable[[], Awaitable[Endpoint]]:
    async def renew() -> Endpoint:
        # The loader caches an exec plugin's credentials until they expire; a 401 invalidates them.
        loader.__dict__.pop("exec_plugin_expiry", None)
        try:
            await loader.load_and_set(settings)
        except Exception as failure:  # any exception of the exec plugin or auth provider
            raise BadConfiguration(
                f"kubeconfig {files}: credentials could not be renewed: {failure}"
            ) from failure
        return _endpoint(settings, files, renew)

    return renew


def _from_service_account() -> Endpoint:
    from kubernetes_asyncio import client, config  # noqa: PLC0415 - half a second

    settings = client.Configuration()
    load_incluster: Callable[..., None] = config.load_incluster_config

    async def renew() -> Endpoint:
        return read()

    def read() -> Endpoint:
        try:
            load_incluster(settings, try_refresh_token=False)
        except (config.ConfigException, OSError) as wrong:
            raise BadConfiguration(
                f"the pod's service account in {SERVICE_ACCOUNT} cannot be used: {wrong}; mount "
                "one (automountServiceAccountToken: true) or give --kubeconfig FILE"
            ) from wrong
        return _endpoint(settings, str(SERVICE_ACCOUNT), renew)

    return read()


def _endpoint(settings: Any, files: str, renew: Callable[[], Awaitable[Endpoint]]) -> Endpoint:
    if not settings.host:
        raise BadConfiguration(f"kubeconfig {files}: the cluster of the context has no `server`")
    return Endpoint(
        url=settings.host,
        authorization=settings.api_key.get("BearerToken", "").strip(),
        ca=_path(settings.ssl_ca_cert),
        cert=_path(settings.cert_file),
        key=_path(settings.key_file),
        server_name=settings.tls_server_name or "",
        insecure=not settings.verify_ssl,
        proxy=settings.proxy or "",
        renew=renew,
    )


def _path(name: str | None) -> Path | None:
    return Path(name) if name else None


def _in_pod() -> bool:
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and (SERVICE_ACCOUNT / "token").is_file()


def _describe(files: str, context: str | None, wrong: BaseException) -> str:
    what = str(wrong) or type(wrong).__name__
    if isinstance(wrong, (AssertionError, AttributeError, KeyError, TypeError)):
        what = f"a section is missing or not of the right form ({type(wrong).__name__}: {wrong})"
    which = f", context {context}" if context else ""
    return (
        f"kubeconfig {files}{which}: {what}; "
        f"check it with `kubectl --kubeconfig {files} config view`"
    )


def _silence_loader() -> None:
    # The loader logs what it also raises.
    logging.getLogger("kubernetes_asyncio.config.kube_config").setLevel(logging.CRITICAL)


def read_embedded_credentials(files: str, context: str | None) -> Endpoint | None:
    """Return the endpoint of a context, or None if the full loader has to read the file.

    ``holdfast up``, kubeadm and kind write such files: one file with a server, certificates as data
    and perhaps a token. Anything else in the selected cluster or user is left to the full loader.
    """
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
        return None  # the full loader reports what is wrong
    url, token = cluster.get("server"), user.get("token", "")
    if not (_is_text(url) and url.startswith("https://") and isinstance(token, str)):
        return None
    if not data.get("certificate-authority-data") or not all(data.values()):
        return None
    if ("client-certificate-data" in data) != ("client-key-data" in data):
        return None
    return _embedded_endpoint(url.rstrip("/"), token, data)


def _entry(config: dict[str, object], kind: str, name: object) -> dict[str, str]:
    """Return the only entry of a name; raise ValueError if it is not a map of texts."""
    entries = config[f"{kind}s"]
    if not isinstance(entries, list):
        raise ValueError(f"{kind}s is not a list")
    named_entries = [entry[kind] for entry in entries if entry["name"] == name]
    if len(named_entries) != 1 or not isinstance(named_entries[0], dict):
        raise ValueError(f"{len(named_entries)} entries {name}")
    if not all(_is_text(value) for value in named_entries[0].values()):
        raise ValueError(f"a field of {name} is not a text")
    return named_entries[0]


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value)


def _embedded_endpoint(url: str, token: str, data: dict[str, bytes]) -> Endpoint:
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
