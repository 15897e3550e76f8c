"""How the scheduler of a cluster is set up: ``--config FILE``, ``--feature-gates``, the cluster."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from holdfast.cli import running_cluster
from holdfast.cli.published_setup import read_published
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


@dataclass(frozen=True, slots=True)
class SchedulerSetup:
    """What a cluster says about its scheduler, or what flags say instead."""

    client: Client
    url: str
    kubeconfig: Path | None = None

    async def read(self, config: Path | None, gates: str) -> tuple[Configuration, FeatureGates]:
        """Return the configuration and the gates of the cluster's scheduler.

        Flags come first, then the state file of this user's embedded cluster, then what the
        cluster publishes. Otherwise the defaults are assumed, and standard error says so.
        """
        local = running_cluster.find_by_url(self.url, self.kubeconfig)
        if local is not None:
            path = config or (Path(local.config) if local.config else None)
            return load_configuration(path), await self._gates(gates, local.feature_gates)
        published = None if config and gates else await read_published(self.client)
        if published is None:
            flags = {"configuration": config, "feature gates": gates}
            self._warn([name for name, flag in flags.items() if not flag])
            return load_configuration(config), await self._gates(gates)
        found = None if config else published.read_configuration(self.url)
        return found or load_configuration(config), await self._gates(
            gates, published.feature_gates
        )

    async def read_gates(self, gates: str) -> FeatureGates:
        """Return the gates alone, in the same order."""
        said = ""
        if not gates and (local := running_cluster.find_by_url(self.url, self.kubeconfig)):
            said = local.feature_gates
        elif not gates and (published := await read_published(self.client)):
            said = published.feature_gates
        elif not gates:
            self._warn(["feature gates"])
        return await self._gates(gates, said)

    async def _gates(self, chosen: str, said: str = "") -> FeatureGates:
        """Return the gates of the flag, else those that the cluster says it has."""
        if chosen:
            gates = FeatureGates.parse(chosen)
        else:
            gates, unknown = FeatureGates.parse_known(said)
            if unknown:
                print(
                    f"holdfast: the scheduler at {self.url} has feature gates that are not known "
                    f"here and are ignored: {', '.join(unknown)[:200]!r}; use the release of "
                    "Holdfast that the cluster runs",
                    file=sys.stderr, flush=True,
                )  # fmt: skip
        return gates.of_release(await read_server_release(self.client))

    def _warn(self, unknown: list[str]) -> None:
        flags = {"configuration": "--config FILE", "feature gates": "--feature-gates NAME=BOOL"}
        if unknown:
            print(
                f"holdfast: {self.url} does not say which {' and '.join(unknown)} its scheduler "
                f"has: the defaults are assumed ({', '.join(flags[name] for name in unknown)})",
                file=sys.stderr, flush=True,
            )  # fmt: skip
