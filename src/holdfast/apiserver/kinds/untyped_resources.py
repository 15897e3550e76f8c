"""Resources whose objects Holdfast does not decode to types; the others are in ``api.scheme``."""

from __future__ import annotations

from holdfast.api.resource import VERBS, Resource, Untyped


def untyped_resource(
    group: str,
    plural: str,
    kind: str,
    *,
    version: str = "v1",
    namespaced: bool = True,
    short: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    parts: tuple[str, ...] = (),
    verbs: tuple[str, ...] = VERBS,
) -> Untyped:
    """Return a resource whose objects are dicts; ``parts`` are its subresources."""
    return Resource(
        group,
        version,
        plural,
        kind,
        dict,
        namespaced=namespaced,
        short_names=short,
        categories=categories,
        subresources=parts,
        verbs=verbs,
    )
