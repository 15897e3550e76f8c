"""What a running embedded cluster leaves in its data directory so that others find it."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from holdfast.errors import Refused
from holdfast.private_files import PRIVATE_DIRECTORY, writable_by_others, write_private

FILE = "running.json"
LOG = "holdfast.log"


@dataclass(frozen=True, slots=True)
class Running:
    """A running cluster: its process (and since when), its address, its kubeconfig.

    ``config`` is the configuration its scheduler was started with, and ``pages`` where that
    scheduler shows its health and metrics; "" for none.
    """

    pid: int
    url: str
    kubeconfig: str
    started: str = ""
    config: str = ""
    pages: str = ""

    @property
    def alive(self) -> bool:
        """Whether that very process is still there, not another one of the same number."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return not self.started or self.started == started_at(self.pid)


def started_at(pid: int) -> str:
    """When a process began, in the kernel's own count; "" where the kernel does not say."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    state, *_rest = fields = text.rpartition(")")[2].split()
    return "" if state == "Z" else fields[19]


def data_dir(given: Path | None) -> Path:
    """The data directory that is meant, as an absolute path."""
    if given is not None:
        return given.expanduser().absolute()
    share = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(share) / "holdfast"


def claim(directory: Path) -> None:
    """Make the directory, private to its user; refuse one that a cluster runs on."""
    if other := find(directory):
        raise Refused(
            f"a cluster runs on {directory} already (pid {other.pid}, {other.url}): "
            "use it, or stop it with `holdfast down`"
        )
    try:
        directory.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError as wrong:
        raise Refused(
            f"cannot keep data in {directory} ({wrong.strerror}): "
            "choose another directory with --data-dir DIR"
        ) from wrong


def warn_if_shared(*directories: Path) -> None:
    """Say which directories let other users replace the credentials that are written there."""
    for directory in dict.fromkeys(directories):
        if directory.is_dir() and writable_by_others(directory):
            print(
                f"warning: other users can replace what is kept in {directory}: `chmod 700` it, "
                "or choose another directory",
                file=sys.stderr, flush=True,
            )  # fmt: skip


def find(directory: Path) -> Running | None:
    """The cluster running on a data directory; a leftover of a dead one counts as none."""
    try:
        found = Running(**json.loads((directory / FILE).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
    return found if found.alive else None


def serving(url: str, kubeconfig: Path | None) -> Running | None:
    """The running cluster that answers at an address; None if it is not one of this user's.

    Its data directory is where its kubeconfig stands, unless that was put elsewhere, or else the
    default one.
    """
    named = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    used = kubeconfig or (Path(named) if named else None)
    beside = [used.expanduser().absolute().parent] if used else []
    found = (find(directory) for directory in (*beside, data_dir(None)))
    return next((cluster for cluster in found if cluster and cluster.url == url), None)


def announce(
    directory: Path, url: str, kubeconfig: Path, *, config: Path | None = None, pages: str = ""
) -> None:
    """Leave word that this process runs a cluster here."""
    since = started_at(os.getpid())
    me = Running(os.getpid(), url, str(kubeconfig), since, str(config or ""), pages)
    write_private(directory / FILE, json.dumps(asdict(me)).encode())


def withdraw(directory: Path) -> None:
    """Take the word back."""
    with suppress(FileNotFoundError):
        (directory / FILE).unlink()
