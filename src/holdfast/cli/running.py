"""What a running embedded cluster leaves in its data directory so that others find it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

FILE = "running.json"


class Running(msgspec.Struct, frozen=True):
    """A running cluster: its process, its address, its kubeconfig."""

    pid: int
    url: str
    kubeconfig: str

    @property
    def alive(self) -> bool:
        """Whether the process is still there."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


def default_data_dir() -> Path:
    """Where the embedded cluster keeps its data unless told otherwise."""
    share = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(share) / "holdfast"


def find(data_dir: Path) -> Running | None:
    """The cluster running on a data directory; a leftover of a dead one counts as none."""
    try:
        found = msgspec.json.decode((data_dir / FILE).read_bytes(), type=Running)
    except (OSError, msgspec.MsgspecError):
        return None
    return found if found.alive else None


def announce(data_dir: Path, running: Running) -> None:
    """Leave word that a cluster runs here."""
    path = data_dir / FILE
    part = path.with_suffix(".part")
    part.write_bytes(msgspec.json.encode(running))
    part.replace(path)


def withdraw(data_dir: Path) -> None:
    """Take the word back."""
    with contextlib.suppress(FileNotFoundError):
        (data_dir / FILE).unlink()
