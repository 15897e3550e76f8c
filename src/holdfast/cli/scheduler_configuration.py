"""``--config FILE``: load the scheduler configuration of a command and print its warnings."""

from __future__ import annotations

import sys
from pathlib import Path

from holdfast.cli import running_cluster
from holdfast.cli.snapshot import built_in_profiles
from holdfast.client.client import Client
from holdfast.client.server_release import read_server_release
from holdfast.configuration.file import load
from holdfast.configuration.reading import Configuration
from holdfast.feature_gates import FeatureGates


def load_configuration(path: Path | None) -> Configuration:
    """Load a configuration file and print its warnings; None: the built-in configuration."""
    if path is None:
        return Configuration(built_in_profiles())
    configuration = load(path)
    for warning in configuration.warnings:
        print(f"holdfast: warning: {path}: {warning}", file=sys.stderr, flush=True)
    return configuration


def load_configuration_of_cluster(
    url: str, kubeconfig: Path | None, path: Path | None
) -> Configuration:
    """Load the configuration that the scheduler of the cluster at a URL probably uses.

    ``path`` comes first. Otherwise the state file of this user's embedded cluster names the file
    that it was started with. For any other cluster the built-in configuration is returned.
    """
    cluster = None if path else running_cluster.find_by_url(url, kubeconfig)
    recorded = cluster.config if cluster else ""
    return load_configuration(Path(recorded) if recorded else path)


async def feature_gates_of_cluster(
    client: Client, url: str, kubeconfig: Path | None, chosen: str = ""
) -> FeatureGates:
    """Return the gates that the scheduler of the cluster at a URL probably has.

    ``chosen`` comes first, then those of this user's embedded cluster, then the defaults of the
    server's release.
    """
    cluster = None if chosen else running_cluster.find_by_url(url, kubeconfig)
    gates = FeatureGates.parse(cluster.feature_gates if cluster else chosen)
    return gates.of_release(await read_server_release(client))
