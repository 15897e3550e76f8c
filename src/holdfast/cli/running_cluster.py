"""The data directory of an embedded cluster, and how commands find the cluster that runs on it.

It is found by its state file, or by the kubeconfig that KUBECONFIG names.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import socket
import stat
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from holdfast.runtime.errors import Refused
from holdfast.runtime.private_files import PRIVATE_DIRECTORY, writable_by_others, write_private

FILE = "running.json"
STARTING = "starting.json"
"""The state file of a cluster that is starting."""
LOG = "holdfast.log"
_CONNECT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """The state file: process id and start time, URL and kubeconfig of a running cluster.

    ``config`` is the configuration file of its scheduler, ``pages`` the URL of the scheduler's
    health checks and metrics, ``feature_gates`` the flag of this name; "" for none.
    """

    pid: int
    url: str
    kubeconfig: str
    started: str = ""
    config: str = ""
    pages: str = ""
    feature_gates: str = ""

    @property
    def alive(self) -> bool:
        """Whether this process is running; a later process with the same id does not count."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return not self.started or self.started == started_at(self.pid)


def started_at(pid: int) -> str:
    """Return the start time of a process in the kernel's clock ticks; "" if it is not available."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    state, *_rest = fields = text.rpartition(")")[2].split()
    return "" if state == "Z" else fields[19]


def data_dir(path: Path | None) -> Path:
    """Return the data directory as an absolute path; None: the default directory."""
    if path is not None:
        return path.expanduser().absolute()
    share = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(share) / "holdfast"


def flag_for(directory: Path) -> str:
    """Return the flag, with a space before it, that makes a command use a data directory.

    >>> flag_for(data_dir(None)), flag_for(Path("/tmp/hf"))
    ('', ' --data-dir /tmp/hf')
    """
    return "" if directory == data_dir(None) else f" --data-dir {shlex.quote(str(directory))}"


def flag_beside(kubeconfig: Path | None) -> str:
    """Return that flag for the cluster whose data directory contains a kubeconfig, else ""."""
    used = _used(kubeconfig)
    directory = used.parent if used else data_dir(None)
    return flag_for(directory) if (directory / "pki").is_dir() else ""


def prepare_data_dir(directory: Path) -> None:
    """Create the directory with mode 0700; raise Refused if a cluster is running on it."""
    if other := find(directory):
        raise Refused(
            f"a cluster is already running on {directory} (pid {other.pid}, {other.url}): "
            f"use it, or stop it with `holdfast down{flag_for(directory)}`"
        )
    starting = find_starting(directory)
    # The process that starts the cluster, and its API server, also use the directory.
    if starting and starting.pid not in (os.getpid(), os.getppid()):
        raise Refused(
            f"a cluster is starting on {directory} (pid {starting.pid}): wait for it, or stop it "
            f"with `holdfast down{flag_for(directory)}`"
        )
    try:
        directory.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError as error:
        raise Refused(
            f"cannot write to {directory} ({error.strerror}): "
            "choose another directory with --data-dir DIR"
        ) from error


def warn_if_shared(*directories: Path) -> None:
    """Warn about directories in which other users could replace the credentials."""
    for directory in dict.fromkeys(directories):
        if directory.is_dir() and writable_by_others(directory):
            print(
                f"warning: other users can replace the files in {directory}: `chmod 700` it, "
                "or choose another directory",
                file=sys.stderr, flush=True,
            )  # fmt: skip


def warn_if_readable(directory: Path) -> None:
    """Warn about keys and tokens of a data directory that other users can read or replace."""
    pki = directory / "pki"
    for path in (*sorted(pki.glob("*.key")), pki / "tokens.json", directory / "kubeconfig"):
        with suppress(OSError):
            mode = stat.S_IMODE(path.stat().st_mode)
            if mode & 0o077:
                print(
                    f"warning: {path} has mode {mode:04o}: `chmod 600` it; if another user may "
                    f"have read it, stop the cluster and move {pki} away for new credentials",
                    file=sys.stderr, flush=True,
                )  # fmt: skip


def find(directory: Path) -> RunningCluster | None:
    """Return the cluster running on a data directory; None if its process has ended."""
    return _read(directory / FILE)


def find_starting(directory: Path) -> RunningCluster | None:
    """Return the cluster that is starting on a data directory, without an address."""
    return _read(directory / STARTING)


def _read(path: Path) -> RunningCluster | None:
    try:
        cluster = RunningCluster(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
    return cluster if cluster.alive else None


def find_named() -> Path | None:
    """Return the data directory of the running cluster whose kubeconfig KUBECONFIG names."""
    kubeconfig = _used(None)
    cluster = find(kubeconfig.parent) if kubeconfig else None
    if kubeconfig is None or cluster is None or Path(cluster.kubeconfig) != kubeconfig:
        return None
    return kubeconfig.parent


def other_cluster(directory: Path) -> str:
    """Return the URL of the cluster that KUBECONFIG names if it is another one of Holdfast.

    Returns "" if it is a data directory's cluster, not a cluster of Holdfast, or not running.
    """
    name, cluster = _current_cluster()
    url = str(cluster.get("server", ""))
    if not name.startswith("holdfast") or _authority(cluster) == _authority_of(directory):
        return ""
    return url if _listens(url) else ""


def _current_cluster() -> tuple[str, dict[str, Any]]:
    """Return name and entry of the current context's cluster; several files count as in kubectl."""
    files = [each for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    if not files:
        return "", {}
    import yaml  # noqa: PLC0415 - loaded only if there is a file to read

    contexts: dict[str, Any] = {}
    clusters: dict[str, Any] = {}
    current = ""
    for file in files:
        with suppress(OSError, ValueError, yaml.YAMLError, AttributeError, KeyError, TypeError):
            config = yaml.safe_load(Path(file).expanduser().read_text())
            current = current or str(config.get("current-context") or "")
            contexts = _by_name(config.get("contexts"), "context") | contexts
            clusters = _by_name(config.get("clusters"), "cluster") | clusters
    name = str(contexts.get(current, {}).get("cluster", ""))
    return name, clusters.get(name, {})


def _by_name(entries: Any, key: str) -> dict[str, Any]:
    return {str(one["name"]): dict(one[key]) for one in entries or ()}


def _authority(cluster: dict[str, Any]) -> bytes:
    try:
        return base64.b64decode(cluster.get("certificate-authority-data", ""))
    except (ValueError, TypeError):
        return b""


def _authority_of(directory: Path) -> bytes:
    try:
        return (directory / "pki" / "ca.crt").read_bytes()
    except OSError:
        return b"none"


def _listens(url: str) -> bool:
    try:
        parts = urlsplit(url)
        address = parts.hostname or "", parts.port or 443
        socket.create_connection(address, _CONNECT_SECONDS).close()
    except (OSError, ValueError):
        return False
    return True


def find_by_url(url: str, kubeconfig: Path | None) -> RunningCluster | None:
    """Return this user's running cluster with this URL, or None.

    The directory of the kubeconfig and the default data directory are searched.
    """
    used = _used(kubeconfig)
    directories = (*([used.parent] if used else []), data_dir(None))
    clusters = (find(directory) for directory in directories)
    return next((cluster for cluster in clusters if cluster and cluster.url == url), None)


def _used(kubeconfig: Path | None) -> Path | None:
    """Return the absolute path of a kubeconfig; the default is the first one in KUBECONFIG."""
    named = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    path = kubeconfig or (Path(named) if named else None)
    return path.expanduser().absolute() if path else None


def write_file(
    directory: Path,
    url: str,
    kubeconfig: Path,
    *,
    config: Path | None = None,
    pages: str = "",
    feature_gates: str = "",
) -> None:
    """Write the state file of a cluster that runs in this process."""
    since = started_at(os.getpid())
    me = RunningCluster(
        os.getpid(), url, str(kubeconfig), since, str(config or ""), pages, feature_gates
    )
    write_private(directory / FILE, json.dumps(asdict(me)).encode())


def write_starting(directory: Path, pid: int) -> None:
    """Write the state file of a cluster that a process of this user is starting."""
    starting = RunningCluster(pid, "", "", started_at(pid))
    write_private(directory / STARTING, json.dumps(asdict(starting)).encode())


def remove_starting(directory: Path) -> None:
    """Remove the file of a starting cluster: it runs, or has ended."""
    (directory / STARTING).unlink(missing_ok=True)


def remove_file(directory: Path) -> None:
    """Remove the state file."""
    with suppress(FileNotFoundError):
        (directory / FILE).unlink()
