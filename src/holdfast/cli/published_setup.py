"""The ConfigMap in which ``holdfast up`` publishes the setup of its cluster's scheduler.

Commands read it through the API, so that they do not need the data directory. Credentials of
extenders and arguments of users' own plugins are left out.
"""
# ruff: noqa: PLC0415 - the API server's process loads no plugins

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.cli.connection import connect
from holdfast.client.client import Client
from holdfast.runtime.errors import (
    AlreadyExists,
    BadConfiguration,
    Forbidden,
    HoldfastError,
    NotBuilt,
    NotFound,
    Refused,
)
from holdfast.runtime.settings import SchedulerSettings

if TYPE_CHECKING:
    from holdfast.scheduling.configuration.reading import Configuration

NAMESPACE, NAME = "kube-system", "holdfast-scheduler"
_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
_MAP = f"{_MAPS}/{NAME}"
log = logging.getLogger(__name__)


class PublishedSetup(msgspec.Struct, frozen=True, rename="camel"):
    """The data of the ConfigMap; without ``configuration`` the built-in one is in effect."""

    feature_gates: str = ""
    configuration: str | None = None

    def read_configuration(self, url: str) -> Configuration | None:
        """Return the configuration, None: the built-in one; Refused: it cannot be used here."""
        if self.configuration is None:
            return None
        from holdfast.scheduling.configuration.catalog import Catalog
        from holdfast.scheduling.configuration.reading import read

        try:
            # A right to write the ConfigMap must not be a right to run code in this command.
            return read(msgspec.json.decode(self.configuration), Catalog(load_user_code=False))
        except (BadConfiguration, NotBuilt, msgspec.DecodeError) as wrong:
            raise Refused(
                f"the configuration of the scheduler at {url} cannot be used here ({wrong}): "
                "name its file with --config FILE"
            ) from wrong


class _ConfigMap(msgspec.Struct, frozen=True):
    data: PublishedSetup = PublishedSetup()


async def read_published(client: Client) -> PublishedSetup | None:
    """Return a cluster's published setup; None: there is none, or the user may not read it."""
    try:
        return msgspec.json.decode(await client.raw(_MAP), type=_ConfigMap).data
    except (NotFound, Forbidden, msgspec.MsgspecError):
        return None


async def publish(kubeconfig: Path, settings: SchedulerSettings) -> None:
    """Write the ConfigMap with the rights of a kubeconfig; a failure is only logged."""
    from holdfast.scheduling.configuration.file import read_raw

    data = {"featureGates": str(settings.feature_gates)}
    if settings.config is not None:
        data["configuration"] = msgspec.json.encode(_public(read_raw(settings.config))).decode()
    meta = {"name": NAME, "namespace": NAMESPACE}
    body = msgspec.json.encode(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
    )
    try:
        async with connect(kubeconfig, "holdfast-up") as (client, _):
            try:
                await client.write("POST", _MAPS, body)
            except AlreadyExists:
                await client.write("PUT", _MAP, body)
    except HoldfastError as failure:
        log.warning("ConfigMap %s/%s is not written: %s", NAMESPACE, NAME, failure)


async def withdraw(client: Client) -> None:
    """Delete the ConfigMap of an earlier process, whose scheduler does not run."""
    with suppress(NotFound):
        await client.write("DELETE", _MAP, b"")


def _public(document: dict[str, Any]) -> dict[str, Any]:
    """Return a valid KubeSchedulerConfiguration without secrets and settings of the process."""
    from holdfast.scheduling.configuration.catalog import Catalog

    built_in = Catalog(load_user_code=False).is_built_in
    left_out = ("clientConnection", "leaderElection")
    public = {key: value for key, value in document.items() if key not in left_out}
    if "extenders" in public:
        public["extenders"] = [
            {
                key: _without_user(value) if key == "urlPrefix" else value
                for key, value in one.items()
                if key != "tlsConfig"
            }
            for one in public["extenders"] or ()
        ]
    for profile in public.get("profiles") or ():
        if "pluginConfig" in profile:
            profile["pluginConfig"] = [
                one for one in profile["pluginConfig"] or () if built_in(one["name"])
            ]
    return public


def _without_user(url: str) -> str:
    """Return a URL without name and password."""
    scheme, mark, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}"
