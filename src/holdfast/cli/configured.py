"""``--config FILE``: the configuration of a command, and what is to be said about it."""

from __future__ import annotations

import sys
from pathlib import Path

from holdfast.cli import running
from holdfast.cli.snapshot import built_in_profiles
from holdfast.configuration.file import load
from holdfast.configuration.reading import Configuration


def configured(path: Path | None) -> Configuration:
    """Read a configuration file and say what in it may not be meant; None: the built-in one."""
    if path is None:
        return Configuration(built_in_profiles())
    found = load(path)
    for words in found.warnings:
        print(f"holdfast: warning: {path}: {words}", file=sys.stderr, flush=True)
    return found


def configured_for(url: str, kubeconfig: Path | None, path: Path | None) -> Configuration:
    """Read the configuration by which the cluster at an address decides, as far as that is known.

    A file that was named is taken. Else an embedded cluster of this user has left word which one
    it was started with; of any other cluster nothing is known, and the built-in one is taken.
    """
    cluster = None if path else running.serving(url, kubeconfig)
    left = cluster.config if cluster else ""
    return configured(Path(left) if left else path)
