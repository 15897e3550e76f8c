"""Find the setup of a cluster's scheduler: ``--config FILE``, ``--feature-gates``, the cluster."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from holdfast.cli import running_cluster
from holdfast.cli.published_setup import PublishedSetup, read_published
from holdfast.cli.running_cluster import RunningCluster
from holdfast.cli.snapshot import built_in_profiles
from holdfast.client.client import Client
from holdfast.client.discovery import read_server_release
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.scheduling.configuration.file import load
from holdfast.scheduling.configuration.reading import Configuration


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
    """The setup of a scheduler that a cluster publishes, or that flags replace."""

    client: Client
    url: str
    kubeconfig: Path | None = None

    async def read(self, config: Path | None, gates: str) -> tuple[Configuration, FeatureGates]:
        """Return the configuration and the gates of the cluster's scheduler.

        Flags take precedence, then the state file of this user's embedded cluster, then the setup
        that the cluster publishes. Otherwise the defaults are assumed, and a note is printed to
        standard error.
        """
        flags = {"configuration": config, "feature gates": gates}
        said = await self._said([name for name, flag in flags.items() if not flag])
        published = None
        if config is None and isinstance(said, PublishedSetup):
            published = said.read_configuration(self.url)
        elif config is None and isinstance(said, RunningCluster) and said.config:
            config = Path(said.config)
        return published or load_configuration(config), await self._gates(gates, said)

    async def read_gates(self, gates: str) -> FeatureGates:
        """Return the gates alone, in the same order."""
        return await self._gates(gates, await self._said([] if gates else ["feature gates"]))

    async def _said(self, wanted: list[str]) -> RunningCluster | PublishedSetup | None:
        """Return the published setup; if there is none, print to standard error what is missing."""
        if not wanted:
            return None
        local = running_cluster.find_by_url(self.url, self.kubeconfig)
        setup = local or await read_published(self.client)
        if setup is None:
            self._warn(wanted)
        return setup

    async def _gates(
        self, chosen: str, said: RunningCluster | PublishedSetup | None
    ) -> FeatureGates:
        """Return the gates of the flag, else those that the cluster publishes."""
        if chosen or said is None:
            gates = FeatureGates.parse(chosen)
        else:
            gates, unknown = FeatureGates.parse_known(said.feature_gates)
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
        print(
            f"holdfast: {self.url} does not say which {' and '.join(unknown)} its scheduler has: "
            f"the defaults are assumed ({', '.join(flags[name] for name in unknown)})",
            file=sys.stderr, flush=True,
        )  # fmt: skip
