"""Read and write CDI files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import yaml

from holdfast.api.strict_decode import decode_struct
from holdfast.node.cdi.checks import check_spec
from holdfast.node.cdi.spec import CdiSpec, lowest_version
from holdfast.runtime.errors import Cause, Refused
from holdfast.runtime.private_files import replace_file, sync_directory

SUFFIXES = (".json", ".yaml")
"""Files with another suffix are not read."""
_MODE = 0o644


class InvalidSpec(Refused):
    """A CDI spec is wrong; the message names the file and every wrong field."""


def read_spec(path: Path) -> CdiSpec:
    """Read a file strictly: unknown fields, wrong values and too old versions raise InvalidSpec."""
    try:
        text = path.read_bytes()
        raw = msgspec.json.decode(text) if path.suffix == ".json" else yaml.safe_load(text)
    except OSError as error:
        raise InvalidSpec(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise InvalidSpec(f"{path}: cannot be parsed: {error}") from error
    return decode_spec(raw, str(path))


def decode_spec(raw: Any, source: str) -> CdiSpec:
    """Decode a spec from JSON values and check it; ``source`` is named in the error."""
    causes: list[Cause] = []
    if not isinstance(raw, dict):
        raise InvalidSpec(f"{source}: must be an object")
    spec = decode_struct(CdiSpec, raw, "", causes)
    # The rules would repeat the type error of a field that could not be decoded.
    _raise_if_any(causes or list(check_spec(spec)), source)
    return spec


def file_name(driver: str, claim_uid: str) -> str:
    """Return the name of the file of a claim's devices."""
    name = f"{driver}-{claim_uid}.json"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise InvalidSpec(f"{name!r} cannot be the name of a CDI file")
    return name


def write_spec(spec: CdiSpec, path: Path) -> CdiSpec:
    """Write a file of mode 0644 atomically, with the lowest sufficient version; return the spec."""
    written = msgspec.structs.replace(spec, cdi_version=lowest_version(spec))
    _raise_if_any(list(check_spec(written)), str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    data = msgspec.json.format(msgspec.json.encode(written), indent=2)
    replace_file(path, data + b"\n", _MODE)
    return written


def remove_spec(path: Path) -> None:
    """Remove a file; it may be gone already."""
    path.unlink(missing_ok=True)
    if path.parent.is_dir():
        sync_directory(path.parent)


def _raise_if_any(causes: list[Cause], source: str) -> None:
    if causes:
        raise InvalidSpec(f"{source}: {'; '.join(map(str, causes))}")
