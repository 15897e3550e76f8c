"""How pods name their classic claims: names and templates; on a real cluster, an annotation."""

from __future__ import annotations

import msgspec

from holdfast.api.classic_dra.names import MAX_ENTRIES, POD_CLAIMS, WAIT_FOR_FIRST_CONSUMER
from holdfast.api.meta import ObjectMeta, Struct
from holdfast.api.pod_claim_errors import InvalidEntries


class ParametersReference(Struct, frozen=True):
    """An object with parameters for a driver; that of a claim is in the claim's namespace."""

    api_group: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    """Only in a class; empty for a cluster-scoped object."""


class ClassicClaimSpec(Struct, frozen=True):
    """The spec of a classic claim; immutable."""

    resource_class_name: str = ""
    parameters_ref: ParametersReference | None = None
    allocation_mode: str = WAIT_FOR_FIRST_CONSUMER


class ClassicClaimTemplate(Struct, frozen=True):
    """Labels, annotations and spec of the claim that is created for a pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClassicClaimSpec = ClassicClaimSpec()


class ClassicClaimSource(Struct, frozen=True):
    """A claim by name, or the template of one that is created for the pod."""

    resource_claim_name: str | None = None
    template: ClassicClaimTemplate | None = None


class AnnotationEntry(Struct, frozen=True):
    """An entry of the annotation; ``containers`` are the names of those that use the claim."""

    name: str = ""
    claim: ClassicClaimSource = ClassicClaimSource()
    containers: tuple[str, ...] = ()


class _Named(Struct, frozen=True):
    name: str = ""


_decode = msgspec.json.Decoder(tuple[AnnotationEntry, ...]).decode
_decode_names = msgspec.json.Decoder(tuple[_Named, ...]).decode
_UNREADABLE = (msgspec.DecodeError, RecursionError)


def decode_annotation(text: str) -> tuple[AnnotationEntry, ...]:
    """Return the entries of an annotation; raises InvalidEntries."""
    try:
        entries = _decode(text)
    except _UNREADABLE as error:
        raise InvalidEntries(f"annotation {POD_CLAIMS}: {error}") from error
    names = {entry.name for entry in entries}
    if len(entries) > MAX_ENTRIES or len(names) < len(entries):
        limit = f"at most {MAX_ENTRIES} entries, with different names"
        raise InvalidEntries(f"annotation {POD_CLAIMS}: must have {limit}")
    return entries


def annotated_names(text: str | None) -> frozenset[str]:
    """Return the names of the entries; none for text that ``decode_annotation`` cannot read.

    The names count although other parts of the entries are wrong.

    >>> sorted(annotated_names('[{"name": "gpu", "claim": 1}]'))
    ['gpu']
    """
    if text is None:
        return frozenset()
    try:
        return frozenset([entry.name for entry in _decode_names(text)])
    except _UNREADABLE:
        return frozenset()
