"""Resolve the names of CDI devices from the files of some directories."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from holdfast.node.cdi.checks import qualified_name_error
from holdfast.node.cdi.files import SUFFIXES, InvalidSpec, read_spec
from holdfast.node.cdi.spec import CdiDevice, CdiSpec, ContainerEdits
from holdfast.runtime.errors import Refused

log = logging.getLogger(__name__)


class UnresolvableDevice(Refused):
    """CDI devices are in no file, or in two files of one directory; ``names`` lists them."""

    def __init__(self, message: str, names: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.names = names


class CdiRegistry:
    """The devices in the files of directories; a later directory takes precedence.

    Files are read when names are resolved; unchanged files (inode, size, time) are not read again.
    """

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = tuple(directories)
        self._files: dict[Path, tuple[tuple[int, int, int], CdiSpec | InvalidSpec]] = {}

    def resolve(self, names: Iterable[str]) -> ContainerEdits:
        """Return the merged edits of devices, in order; raises UnresolvableDevice.

        The edits of a spec are added once, before those of its first device.
        """
        names = tuple(dict.fromkeys(names))
        devices, problems = self._devices()
        missing = tuple(name for name in names if name not in devices)
        if missing:
            raise UnresolvableDevice(self._message(missing, problems), missing)
        merged = ContainerEdits()
        applied: set[int] = set()
        for name in names:
            spec, device = devices[name]
            if id(spec) not in applied:
                applied.add(id(spec))
                merged += spec.container_edits
            merged += device.container_edits
        return merged

    def invalid_files(self) -> dict[Path, str]:
        """Return the files that are not used, with the reason."""
        self._devices()
        return {
            path: str(spec)
            for path, (_, spec) in self._files.items()
            if isinstance(spec, InvalidSpec)
        }

    def _devices(self) -> tuple[dict[str, tuple[CdiSpec, CdiDevice]], dict[str, str]]:
        """Return the devices by qualified name, and why some names in files are missing."""
        devices: dict[str, tuple[CdiSpec, CdiDevice]] = {}
        problems: dict[str, str] = {}
        specs = self._read()
        for directory in self._directories:
            files_of: dict[str, list[Path]] = {}
            for path in sorted(p for p in specs if p.parent == directory):
                spec = specs[path]
                for device in spec.devices:
                    name = spec.qualified(device)
                    files_of.setdefault(name, []).append(path)
                    devices[name] = (spec, device)
                    problems.pop(name, None)
            for name, paths in files_of.items():
                if len(paths) > 1:
                    del devices[name]
                    problems[name] = f"conflicting files {' and '.join(map(str, paths))}"
        return devices, problems

    def _message(self, missing: tuple[str, ...], problems: dict[str, str]) -> str:
        reasons = [
            f"{name}: {reason}"
            for name in missing
            if (reason := qualified_name_error(name) or problems.get(name))
        ]
        # A device that is missing may be in a file that is not used.
        reasons += [str(spec) for _, spec in self._files.values() if isinstance(spec, InvalidSpec)]
        text = f"unresolvable CDI devices {', '.join(missing)}"
        return f"{text} ({'; '.join(reasons)})" if reasons else text

    def _read(self) -> dict[Path, CdiSpec]:
        """Read the files that changed and return those that are valid."""
        files = {}
        for path in self._paths():
            try:
                stat = path.stat()
            except OSError:
                continue  # removed since then
            version = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
            known = self._files.get(path)
            files[path] = (version, known[1] if known and known[0] == version else _read(path))
        self._files = files
        return {path: spec for path, (_, spec) in files.items() if isinstance(spec, CdiSpec)}

    def _paths(self) -> list[Path]:
        paths: list[Path] = []
        for directory in dict.fromkeys(self._directories):
            try:
                paths += (p for p in directory.iterdir() if p.suffix in SUFFIXES and p.is_file())
            except OSError as error:
                if not isinstance(error, FileNotFoundError):
                    log.warning("the CDI directory %s cannot be read: %s", directory, error)
        return paths


def _read(path: Path) -> CdiSpec | InvalidSpec:
    try:
        return read_spec(path)
    except InvalidSpec as error:
        return error
