"""OpenAPI v3 documents, one a group version: what kubectl create, apply, edit and explain read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.api.resource import Resource
from holdfast.errors import NotBuilt


def index(resources: Iterable[Resource[Any]], crds: Iterable[Mapping[str, Any]] = ()) -> bytes:
    """Write ``/openapi/v3``: every group version of the resources, with the hash of its document."""
    raise NotBuilt("OpenAPI is not built yet")


def document(
    group: str,
    version: str,
    resources: Iterable[Resource[Any]],
    crds: Iterable[Mapping[str, Any]] = (),
) -> bytes:
    """Write ``/openapi/v3/apis/<group>/<version>`` gzipped (``Content-Encoding: gzip``); cached.

    ``resources`` and ``crds`` may be of all groups: those of this one are picked.
    """
    raise NotBuilt("OpenAPI is not built yet")


def fingerprint(group: str, version: str, crds: Iterable[Mapping[str, Any]] = ()) -> str:
    """Name the document's content: the ``hash`` of the index and the ETag of the document."""
    raise NotBuilt("OpenAPI is not built yet")
