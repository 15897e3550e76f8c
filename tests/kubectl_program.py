"""Find and check the kubectl that the tests run.

It is the program that HOLDFAST_KUBECTL names, else the one on PATH, else the newest that
tests/real/build or tests/real/build-kubectl has put into the user's cache.
"""

import json
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

OLDEST_MINOR = 30
"""Kubernetes 1.30: the oldest version that the tests pass with, as the README states."""
QUICK = {"GOGC": "off", "GOMAXPROCS": "1"}
"""For the environment of a kubectl that soon exits: no garbage collector, no spinning threads."""


def binaries() -> Path:
    """Return the folder of the programs built by tests/real, with one folder per version."""
    user_cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    root = os.environ.get("HOLDFAST_BINARIES") or str(Path(user_cache) / "holdfast" / "bin")
    return Path(root)


def find_kubectl() -> str:
    """Return the absolute path of the kubectl to use, or ""."""
    if chosen := os.environ.get("HOLDFAST_KUBECTL") or shutil.which("kubectl"):
        return os.path.abspath(chosen)
    built = sorted(binaries().glob("*/kubectl"), key=_numbers)
    return str(built[-1]) if built else ""


@cache
def minor_version(path: str) -> int | None:
    """Return MINOR of a kubectl's version 1.MINOR; None if it prints no version."""
    command = [path, "version", "--client", "-o", "json"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, check=True)
        version = json.loads(done.stdout)["clientVersion"]["gitVersion"]
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError):
        return None
    found = re.match(r"v1\.(\d+)\.", version)
    return int(found[1]) if found else None


def problem_of(path: str) -> str:
    """Return why tests cannot use a kubectl, in one sentence; "" if they can."""
    if not path:
        return (
            "tests marked kubectl need kubectl: put it on PATH, name it in HOLDFAST_KUBECTL, or "
            "run `make binaries` (needs Go)"
        )
    minor = minor_version(path)
    if minor is None:
        return f"{path} does not answer `kubectl version --client -o json`"
    if minor < OLDEST_MINOR:
        return f"{path} is kubectl 1.{minor}: Holdfast needs kubectl 1.{OLDEST_MINOR} or newer"
    return ""


def _numbers(path: Path) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", path.parent.name)]
