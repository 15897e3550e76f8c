"""Read a configuration from a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from holdfast.api.field_errors import invalid
from holdfast.runtime.errors import BadConfiguration, Details, NotBuilt
from holdfast.scheduling.configuration.catalog import Catalog
from holdfast.scheduling.configuration.document import API_VERSION, KIND
from holdfast.scheduling.configuration.reading import Configuration, read
from holdfast.state.migration.arguments import API_VERSION as DESCHEDULING_VERSION
from holdfast.state.migration.arguments import KIND as DESCHEDULING
from holdfast.state.migration.arguments import find_args, migration_settings

T = TypeVar("T")


def load(path: Path) -> Configuration:
    """Load a file; errors name the file, every invalid field and the reason.

    It contains a KubeSchedulerConfiguration, a DeschedulerConfiguration, or both. Modules of the
    user's own plugins are also searched in the file's directory.
    """
    with _named_file(path):
        raw, descheduling = _documents(path)
        configuration = read(raw, Catalog(module_dir=path.parent.absolute()))
        if not descheduling:
            return configuration
        return replace(configuration, migration=migration_settings(find_args(descheduling[0])))


def read_raw(path: Path) -> Any:
    """Return the KubeSchedulerConfiguration of a file as it is written; ``{}`` if it has none."""
    with _named_file(path):
        return _documents(path)[0]


def _documents(path: Path) -> tuple[Any, list[Any]]:
    """Return the KubeSchedulerConfiguration, ``{}`` if there is none, and the other document."""
    documents = [_checked(one) for one in _parsed(path)]
    descheduling = [one for one in documents if _is_descheduling(one)]
    scheduling = [one for one in documents if not _is_descheduling(one)]
    if not documents or len(scheduling) > 1:
        raise BadConfiguration(f"expected one document, found {len(scheduling)}")
    if len(descheduling) > 1:
        raise BadConfiguration(f"expected one {DESCHEDULING}, found {len(descheduling)}")
    return scheduling[0] if scheduling else {}, descheduling


def load_descheduling(path: Path, read_raw: Callable[[Any], T]) -> T | None:
    """Read the DeschedulerConfiguration of a file; None if it contains only the other document."""
    with _named_file(path):
        documents = [_checked(one) for one in _parsed(path)]
        descheduling_documents = [one for one in documents if _is_descheduling(one)]
        if len(descheduling_documents) > 1:
            raise BadConfiguration(
                f"expected one {DESCHEDULING}, found {len(descheduling_documents)}"
            )
        return read_raw(descheduling_documents[0]) if descheduling_documents else None


@contextmanager
def _named_file(path: Path) -> Iterator[None]:
    """Put the name of the file in front of errors."""
    try:
        yield
    except (BadConfiguration, NotBuilt) as error:
        causes = error.details.causes
        message = f" {error}"
        if len(causes) > 1:
            message = "".join(f"\n  {cause}" for cause in causes)
        raise type(error)(f"{path}:{message}", error.details) from error


def _is_descheduling(document: Any) -> bool:
    return isinstance(document, dict) and document.get("kind") == DESCHEDULING


def _parsed(path: Path) -> list[Any]:
    try:
        return list(yaml.load_all(path.read_text(), _Loader))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadConfiguration(f"cannot be read: {why}") from error
    except yaml.YAMLError as error:
        raise BadConfiguration(f"is not YAML: {error}") from error


def _checked(document: Any) -> Any:
    """Check the kind and apiVersion of a document."""
    if not isinstance(document, dict):
        return document
    missing = [name for name in ("apiVersion", "kind") if name not in document]
    if missing:
        raise BadConfiguration(
            f"{' and '.join(missing)} missing: begin the file with "
            f"`apiVersion: {API_VERSION}` and `kind: {KIND}`"
        )
    version = document["apiVersion"]
    if _is_descheduling(document) and version != DESCHEDULING_VERSION:
        wrong = invalid("apiVersion", version, f"write {DESCHEDULING_VERSION}")
        raise BadConfiguration(str(wrong), Details(kind=DESCHEDULING, causes=(wrong,)))
    return document


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
