"""The paths of a pod's files on its node."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from holdfast.runtime.errors import Refused
from holdfast.runtime.private_files import PRIVATE_DIRECTORY

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


@dataclass(frozen=True, slots=True)
class ContainerDirectory:
    """The files of one container of a pod."""

    pod: Path
    name: str

    @property
    def _states(self) -> Path:
        return self.pod / "containers" / self.name

    @property
    def work(self) -> Path:
        """The working directory, shared by the containers of the pod."""
        return self.pod / "work"

    @property
    def lock(self) -> Path:
        """Locked as long as the container runs."""
        return self._states / "lock"

    def state(self, attempt: int) -> Path:
        """Process ids, start and end of an attempt."""
        return self._states / f"{attempt}.json"

    def log(self, attempt: int) -> Path:
        """The output of an attempt."""
        return self.pod / "logs" / self.name / f"{attempt}.log"

    def create(self) -> None:
        """Create the directories."""
        for path in (self._states, self.log(0).parent, self.work):
            path.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)

    def attempts(self) -> list[int]:
        """Return the attempts that have a state, in order."""
        return sorted(int(p.stem) for p in self._states.glob("*.json") if p.stem.isdigit())

    def remove_attempts_before(self, attempt: int) -> None:
        """Remove the files of older attempts."""
        for old in self.attempts():
            if old < attempt:
                for path in (self.state(old), self.log(old), Path(f"{self.log(old)}.1")):
                    path.unlink(missing_ok=True)


class PodDirectories:
    """The directories ``pods/UID`` of a node."""

    def __init__(self, node_dir: Path) -> None:
        self._pods = node_dir / "pods"

    def pod(self, uid: str) -> Path:
        """Return the directory of a pod."""
        return self._pods / _checked(uid)

    def container(self, uid: str, name: str) -> ContainerDirectory:
        """Return the files of a container."""
        return ContainerDirectory(self.pod(uid), _checked(name))

    def containers(self, uid: str) -> list[ContainerDirectory]:
        """Return the files of all containers of a pod that have any."""
        directory = self.pod(uid) / "containers"
        return [self.container(uid, name) for name in _names(directory)]

    def uids(self) -> list[str]:
        """Return the pods that have a directory."""
        return _names(self._pods)


def _names(directory: Path) -> list[str]:
    """Return the names in a directory that can be ours; processes may have left others."""
    paths = directory.iterdir() if directory.is_dir() else ()
    return sorted(path.name for path in paths if _SAFE.fullmatch(path.name))


def _checked(name: str) -> str:
    """Return a name that is safe as a file name; the API server is not trusted with paths."""
    if not _SAFE.fullmatch(name):
        raise Refused(f"{name!r} is not the name of a container or the uid of a pod")
    return name
