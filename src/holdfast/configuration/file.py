"""Read a configuration from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from holdfast.configuration.catalog import Catalog
from holdfast.configuration.document import API_VERSION, KIND
from holdfast.configuration.reading import Configuration, read
from holdfast.errors import BadConfiguration, NotBuilt


def load(path: Path) -> Configuration:
    """Load a file; errors name the file, every invalid field and the reason.

    Modules of the user's own plugins are also searched in the file's directory.
    """
    try:
        return read(_parsed(path), Catalog(module_dir=path.parent.absolute()))
    except (BadConfiguration, NotBuilt) as error:
        causes = error.details.causes
        message = f" {error}"
        if len(causes) > 1:
            message = "".join(f"\n  {cause}" for cause in causes)
        raise type(error)(f"{path}:{message}", error.details) from error


def _parsed(path: Path) -> Any:
    try:
        documents = list(yaml.load_all(path.read_text(), _Loader))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadConfiguration(f"cannot be read: {why}") from error
    except yaml.YAMLError as error:
        raise BadConfiguration(f"is not YAML: {error}") from error
    if len(documents) != 1:
        raise BadConfiguration(f"expected one document, found {len(documents)}")
    found = documents[0]
    missing = [
        name for name in ("apiVersion", "kind") if isinstance(found, dict) and name not in found
    ]
    if missing:
        raise BadConfiguration(
            f"{' and '.join(missing)} missing: begin the file with "
            f"`apiVersion: {API_VERSION}` and `kind: {KIND}`"
        )
    return found


class _Loader(yaml.SafeLoader):
    """Rejects duplicate keys: PyYAML would silently drop one of the values."""


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    loader.flatten_mapping(node)
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node)
        if key in seen:
            raise yaml.MarkedYAMLError(
                problem=f'key "{key}" already set in map', problem_mark=key_node.start_mark
            )
        seen.add(key)
    return dict(loader.construct_mapping(node, deep=True))


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
