"""Which resources the keys of a quota are about."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.quota.evaluators import evaluator_of
from holdfast.quota.standard_keys import PLAIN_COUNTS

GroupResource = tuple[str, str]
_SPECIAL: tuple[GroupResource, ...] = (
    ("", "pods"),
    ("", "services"),
    ("", "persistentvolumeclaims"),
    ("resource.k8s.io", "resourceclaims"),
    ("core.k8s.io", "resourceclaims"),
    *(("", plural) for plural in PLAIN_COUNTS),
)
"""The resources with keys other than an object count."""


def counted_resource(key: str) -> GroupResource | None:
    """Return the resource of an object count, None for any other key.

    >>> counted_resource("count/jobs.batch"), counted_resource("cpu")
    (('batch', 'jobs'), None)
    """
    if not key.startswith("count/"):
        return None
    plural, _, group = key.removeprefix("count/").partition(".")
    return group, plural


def resources_of(keys: Iterable[str]) -> dict[GroupResource, None]:
    """Return the resources whose objects are charged on the keys, in a fixed order."""
    listed = list(keys)
    found = dict.fromkeys(
        resource for resource in _SPECIAL if any(map(evaluator_of(*resource).tracks, listed))
    )
    return found | dict.fromkeys(r for key in listed if (r := counted_resource(key)) is not None)


def is_tracked(key: str) -> bool:
    """Return whether anything is charged on a key."""
    return bool(resources_of((key,)))
