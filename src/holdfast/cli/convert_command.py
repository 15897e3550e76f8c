"""``holdfast convert``: write manifests with classic claims for a real cluster."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from holdfast.classic_dra.manifest_conversion import convert_manifest
from holdfast.cli.objects import parse_documents
from holdfast.errors import BadRequest


class _Dumper(yaml.CSafeDumper):
    """Writes every value in full, without anchors."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def convert_files(files: Sequence[str], scheduler_name: str) -> None:
    """Print the converted objects of files as YAML; ``-`` is standard input.

    Nothing is printed if an object is wrong.
    """
    found, notes = [], []
    for file in files:
        for document in parse_documents(_text_of(file)):
            obj = msgspec.json.decode(document.text)
            where = f"{file}, {document.where}"
            if not isinstance(obj, dict):
                raise BadRequest(f"{where}: not an object")
            named = f"{where} ({obj.get('kind')} {_name_of(obj)})"
            try:
                converted = convert_manifest(obj, scheduler_name)
            except BadRequest as error:
                raise BadRequest(f"{named}: {error}") from error
            found.append(converted.obj)
            notes += [f"{named}: {path}" for path in converted.needs_webhook]
    yaml.dump_all(found, sys.stdout, Dumper=_Dumper, sort_keys=False, width=10_000)
    if notes:
        print("Pods of these need the webhook (`holdfast webhook`):", *notes, sep="\n  ",
              file=sys.stderr)  # fmt: skip


def _text_of(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"cannot read {file}: {error}") from error


def _name_of(obj: dict[str, Any]) -> str:
    metadata = obj.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""
