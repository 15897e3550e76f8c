"""Pods of a real cluster: their classic claims in an annotation, with shadows in the spec.

All functions take metadata and spec of a pod or of its template as JSON, and return copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.api import field_errors
from holdfast.api.classic_dra.claim_sources import AnnotationEntry
from holdfast.api.classic_dra.forms import with_typed_claims
from holdfast.api.classic_dra.names import MAX_ENTRIES, POD_CLAIMS
from holdfast.api.classic_dra.validation import check_classic_source
from holdfast.api.decode import JsonMapping, JsonObject
from holdfast.api.field_errors import child
from holdfast.api.json_fields import list_at, map_at, maps_at, text_at
from holdfast.api.meta import Struct
from holdfast.api.validation.names import check_label, check_subdomain
from holdfast.api.validation.pod_claims import check_pod_claims
from holdfast.runtime.errors import BadRequest, Cause

_CONTAINERS = ("initContainers", "containers")
Parts = tuple[JsonObject, JsonObject]
"""Metadata and spec."""


def with_annotation(metadata: JsonObject, spec: JsonObject, path: str) -> Parts:
    """Move classic claims from the KEP's fields to the annotation.

    ``path`` is that of the object with ``metadata`` and ``spec``, for errors. Raises BadRequest.
    """
    at = child(path, "spec")
    typed = with_typed_claims(spec)
    _check_types({"metadata": metadata, "spec": typed}, _Pod, path)
    listed = list_at(typed, "resourceClaims")
    classic = [entry for entry in listed if entry.get("claim") is not None]
    if not classic:
        return metadata, typed
    field_errors.raise_if_any(check_pod_claims(typed, at))
    annotations = map_at(metadata, "annotations")
    if POD_CLAIMS in annotations:
        raise BadRequest(
            f"{_annotation(path)}: the classic claims are in {at}.resourceClaims already: "
            "remove one of both"
        )
    names = {entry["name"] for entry in classic}
    entries = [{**entry, "containers": _users(typed, entry["name"])} for entry in classic]
    kept = [entry for entry in listed if entry["name"] not in names]
    changed = _without_references({**typed, "resourceClaims": kept}, names)
    if not kept:
        del changed["resourceClaims"]
    return {**metadata, "annotations": {**annotations, POD_CLAIMS: _encoded(entries)}}, changed


def with_shadows(
    metadata: JsonObject, spec: JsonObject, name_of: Callable[[str], str], path: str = ""
) -> Parts:
    """Add a shadow for each classic claim of the annotation, and the references of containers.

    ``name_of`` returns the shadow name for the name of an entry. What is there already stays, so
    that a second call changes nothing. The annotation gets its typed form. Raises BadRequest.
    """
    entries = read_annotation(metadata, spec, path)
    if not entries:
        return metadata, spec
    listed = [*list_at(spec, "resourceClaims")]
    known = {text_at(entry, "name") for entry in maps_at(spec, "resourceClaims")}
    listed += [
        {"name": entry["name"], "resourceClaimName": name_of(entry["name"])}
        for entry in entries
        if entry["name"] not in known
    ]
    changed = {**spec, "resourceClaims": listed}
    for part in _CONTAINERS:
        if part in spec:
            changed[part] = [_with_references(each, entries) for each in list_at(spec, part)]
    text = map_at(metadata, "annotations")[POD_CLAIMS]
    if entries != msgspec.json.decode(text):
        metadata = {
            **metadata,
            "annotations": {**metadata["annotations"], POD_CLAIMS: _encoded(entries)},
        }
    return metadata, changed


def read_annotation(metadata: JsonMapping, spec: JsonMapping, path: str = "") -> list[JsonObject]:
    """Return the entries of the annotation in their typed form; raises BadRequest."""
    text = map_at(metadata, "annotations").get(POD_CLAIMS)
    if text is None:
        return []
    at = _annotation(path)
    try:
        value = msgspec.json.decode(text if isinstance(text, str) else "")
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequest(f"{at}: not the JSON of a list: {error}") from error
    if not isinstance(value, list):
        raise BadRequest(f"{at}: not the JSON of a list")
    entries: list[JsonObject] = with_typed_claims({"resourceClaims": value})["resourceClaims"]
    _check_types(entries, list[AnnotationEntry], at)
    field_errors.raise_if_any(_check_entries(entries, spec, at, child(path, "spec")))
    return entries


def _check_entries(
    entries: Sequence[JsonMapping], spec: JsonMapping, path: str, spec_path: str
) -> Iterator[Cause]:
    in_spec = {
        text_at(entry, "name"): (f"{spec_path}.resourceClaims[{i}]", entry)
        for i, entry in enumerate(maps_at(spec, "resourceClaims"))
    }
    containers = {text_at(c, "name") for part in _CONTAINERS for c in maps_at(spec, part)}
    if len(entries) > MAX_ENTRIES:
        yield field_errors.too_many(path, len(entries), MAX_ENTRIES)
    seen: set[str] = set()
    for i, entry in enumerate(entries):
        name, at = entry.get("name", ""), f"{path}[{i}]"
        if name in seen:
            yield field_errors.duplicate(f"{at}.name", name)
        seen.add(name)
        yield from check_label(name, f"{at}.name")
        yield from check_classic_source(map_at(entry, "claim"), f"{at}.claim")
        for j, container in enumerate(list_at(entry, "containers")):
            if container not in containers:
                message = "must be the name of a container or init container"
                yield field_errors.not_found(f"{at}.containers[{j}]", container, message)
        where, shadow = in_spec.get(name, ("", {}))
        if where and not text_at(shadow, "resourceClaimName"):
            message = f"the entry of a classic claim in {path} needs a name of its own claim"
            yield field_errors.required(f"{where}.resourceClaimName", message)


def shadow_name(pod: str, entry: str) -> str:
    """Return the name of the shadow of a pod that has a name itself; raises BadRequest.

    >>> shadow_name("web", "gpu")
    'web-gpu-shadow'
    """
    name = f"{pod}-{entry}-shadow"
    for cause in check_subdomain(name, "metadata.name"):
        raise BadRequest(f"{cause}: it is the name of a claim for the kubelet")
    return name


class _Resources(Struct, frozen=True):
    claims: list[dict[str, Any]] | None = None


class _Container(Struct, frozen=True):
    name: str | None = None
    resources: _Resources | None = None


class _Metadata(Struct, frozen=True):
    annotations: dict[str, Any] | None = None


class _Spec(Struct, frozen=True):
    resource_claims: list[AnnotationEntry] | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None


class _Pod(Struct, frozen=True):
    """The types of the fields that are read from a manifest that no API server has checked."""

    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()


def _check_types(value: Any, wanted: Any, path: str) -> None:
    """Raise BadRequest if a field has the wrong type."""
    try:
        msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        words, _, where = str(error).partition(" - at `$")
        raise BadRequest(f"{(path + where.rstrip('`')).lstrip('.')}: {words}") from error


def _users(spec: JsonMapping, name: str) -> list[str]:
    """Return the containers that use a claim, init containers first."""
    return [
        text_at(container, "name")
        for part in _CONTAINERS
        for container in maps_at(spec, part)
        if any(text_at(one, "name") == name for one in _references(container))
    ]


def _references(container: JsonMapping) -> list[dict[str, Any]]:
    return maps_at(map_at(container, "resources"), "claims")


def _without_references(spec: JsonObject, names: set[str]) -> JsonObject:
    changed = dict(spec)
    for part in _CONTAINERS:
        if part in spec:
            changed[part] = [_without(container, names) for container in list_at(spec, part)]
    return changed


def _without(container: Any, names: set[str]) -> Any:
    if not isinstance(container, dict) or not _references(container):
        return container
    resources = {**container["resources"]}
    resources["claims"] = [one for one in _references(container) if one.get("name") not in names]
    kept = {key: value for key, value in resources.items() if key != "claims" or value}
    if kept:
        return {**container, "resources": kept}
    return {key: value for key, value in container.items() if key != "resources"}


def _with_references(container: Any, entries: Sequence[Mapping[str, Any]]) -> Any:
    if not isinstance(container, dict):
        return container
    used = {text_at(one, "name") for one in _references(container)}
    added = [
        {"name": entry["name"]}
        for entry in entries
        if container.get("name") in list_at(entry, "containers") and entry["name"] not in used
    ]
    if not added:
        return container
    resources = map_at(container, "resources")
    claims = [*list_at(resources, "claims"), *added]
    return {**container, "resources": {**resources, "claims": claims}}


def _annotation(path: str) -> str:
    return f"{child(path, 'metadata.annotations')}[{POD_CLAIMS}]"


def _encoded(entries: Sequence[Mapping[str, Any]]) -> str:
    return msgspec.json.encode(entries).decode()
