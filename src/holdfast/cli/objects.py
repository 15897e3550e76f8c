"""Read API objects from files and lines, with the defaults that an API server would have stored.

Pods and nodes are decoded directly if defaulting would change nothing that scheduling reads,
because there are many of them. All other objects are defaulted first, as the API server does.
Errors name the document and the field.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import yaml

from holdfast.api import scheme
from holdfast.api.decode import convert_object
from holdfast.api.defaults import default_object
from holdfast.api.device_versions import V1BETA1
from holdfast.api.meta import Object
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.quantity import Quantity
from holdfast.api.resource import Resource
from holdfast.runtime.errors import BadRequest

_TYPED: dict[tuple[str, str], Resource[Any]] = {(r.group, r.kind): r for r in scheme.TYPED}
_OTHER_VERSIONS = {
    ("core.k8s.io", "v1"),
    ("resource.k8s.io", "v1"),
    ("resource.k8s.io", "v1beta1"),
    ("resource.k8s.io", "v1beta2"),
}
"""Versions that are read as well as those in ``scheme``; ``V1BETA1`` converts if they differ."""
_AMOUNTS = frozenset({
    "requests", "limits", "capacity", "allocatable", "allocated", "overhead", "maxResources",
    "allocatedResources",
})  # fmt: skip
_CLAIMS = b'"resourceClaims"'
_FAULTS = (msgspec.MsgspecError, BadRequest, TypeError, AttributeError, ValueError)


class Manifest(NamedTuple):
    """One object as text, and its position for messages: ``document 2``, ``objects[4]``."""

    where: str
    text: bytes | msgspec.Raw


class _Head(msgspec.Struct):
    api_version: str = msgspec.field(default="", name="apiVersion")
    kind: str = ""
    items: msgspec.Raw = msgspec.Raw(b"null")


_head = msgspec.json.Decoder(_Head)
_raw_items = msgspec.json.Decoder(list[msgspec.Raw] | None)
_fast = {kind: msgspec.json.Decoder(kind) for kind in (Pod, Node)}


def parse_documents(text: str) -> Iterator[Manifest]:
    """Yield every object of a v1 List, or of YAML or JSON documents."""
    try:
        for number, document in enumerate(_documents(text), 1):
            yield from unpack_list(Manifest(f"document {number}", document))
    except RecursionError as error:
        raise BadRequest("the file is nested too deeply") from error


def unpack_list(document: Manifest) -> Iterator[Manifest]:
    """Yield the items of a list of any kind; yield any other object itself."""
    head = _read_head(document)
    if not head.kind.endswith("List") or head.items == b"null":
        yield document
        return
    try:
        items = _raw_items.decode(head.items)
    except msgspec.MsgspecError as error:
        raise BadRequest(f"{document.where}: items: {_field_of(error)[1]}") from error
    for number, item in enumerate(items or ()):
        yield from unpack_list(Manifest(f"{document.where}, items[{number}]", item))


def read_object(document: Manifest) -> Object | None:
    """Decode one object by its kind; None for kinds that scheduling does not read."""
    head = _read_head(document)
    group, _, version = head.api_version.rpartition("/")
    for name, value in (("apiVersion", head.api_version), ("kind", head.kind)):
        if not value:
            raise BadRequest(f"{document.where}: {name}: Required value")
    resource = _TYPED.get((group, head.kind))
    if resource is None:
        return None
    if version != resource.version and (group, version) not in _OTHER_VERSIONS:
        raise BadRequest(
            f"{document.where} ({head.kind}): apiVersion: {head.api_version} is not supported, "
            f"only {resource.api_version} is: save it with "
            f"`kubectl get {resource.plural}.{resource.version}.{group}`"
        )
    return _identified(document, _read(_converted(document, head), resource), resource)


def object_error(document: Manifest, fault: Exception) -> BadRequest:
    """Return a precise error for an object that was decoded but is useless for scheduling."""
    try:
        head = _read_head(document)
        resource = _TYPED[head.api_version.rpartition("/")[0], head.kind]
        _read_in_full(_converted(document, head), resource)
    except BadRequest as precise:
        return precise
    return BadRequest(f"{document.where}: {fault or type(fault).__name__}")


def _converted(document: Manifest, head: _Head) -> Manifest:
    """Return a document in the version of ``scheme``, and claims of a pod in their stored form."""
    has_claims = (head.api_version, head.kind) == ("v1", "Pod") and _CLAIMS in bytes(document.text)
    is_old = head.api_version == "resource.k8s.io/v1beta1" and head.kind in V1BETA1
    if not has_claims and not is_old:
        return document
    raw = scheme.in_stored_form(msgspec.json.decode(document.text))
    return document._replace(text=msgspec.json.encode(raw))


def _documents(text: str) -> Iterator[bytes | msgspec.Raw]:
    if text.lstrip()[:1] in ("{", "["):
        try:
            yield from _json_documents(text)
            return
        except ValueError:
            pass  # YAML in braces, or invalid: the YAML parser reports the position
    try:
        for document in yaml.load_all(text, Loader=yaml.CSafeLoader):
            if document is not None:
                yield msgspec.json.encode(document)
    except (yaml.YAMLError, TypeError) as error:
        raise BadRequest(f"the file is neither YAML nor JSON: {error}") from error


def _json_documents(text: str) -> list[bytes]:
    """Split concatenated JSON documents; raise ValueError if the text is not JSON."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
        return [text.encode()]
    except msgspec.DecodeError:
        pass
    decoder, documents, at = json.JSONDecoder(), [], _past_blanks(text, 0)
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        documents.append(msgspec.json.encode(value))
        at = _past_blanks(text, at)
    return documents


def _past_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _read_head(document: Manifest) -> _Head:
    try:
        return _head.decode(document.text)
    except msgspec.ValidationError as error:
        field, words = _field_of(error)
        raise BadRequest(f"{document.where}: {field}: {words}") from error
    except msgspec.DecodeError as error:
        raise BadRequest(f"{document.where}: {error}") from error


def _read(document: Manifest, resource: Resource[Any]) -> Object:
    decoder = _fast.get(resource.type)
    if decoder is not None:
        try:
            obj: Object = decoder.decode(document.text)
        except msgspec.MsgspecError:
            return _read_in_full(document, resource)
        if _is_complete(obj):
            return obj
    return _read_in_full(document, resource)


def _is_complete(obj: Object) -> bool:
    """Return whether defaulting would change nothing that scheduling reads."""
    if isinstance(obj, Node):
        return bool(obj.status.allocatable) or not obj.status.capacity
    assert isinstance(obj, Pod)
    spec = obj.spec
    if spec.host_network or spec.resources is not None:
        return False
    return all(
        container.resources.limits.keys() <= container.resources.requests.keys()
        for container in (*spec.containers, *spec.init_containers)
    )


def _read_in_full(document: Manifest, resource: Resource[Any]) -> Object:
    raw = msgspec.json.decode(document.text)
    try:
        default_object(raw)
        obj: Object = convert_object(raw, resource.type)
    except _FAULTS as error:
        where = f"{document.where} ({resource.kind} {_name_of(raw)})"
        # The error of defaulting repeats the kind, which is already in the message.
        cause = error.__cause__ if isinstance(error.__cause__, BadRequest) else error
        field, words = _field_of(cause)
        raise BadRequest(f"{where}: {_bad_amount(raw) or field}: {words}") from error
    if amount := _bad_amount(raw):
        raise BadRequest(f"{document.where} ({resource.kind} {obj.key}): {amount}: not a quantity")
    return obj


def _identified(document: Manifest, obj: Object, resource: Resource[Any]) -> Object:
    """Require a name; set the namespace and uid that an API server would have set."""
    meta = obj.metadata
    if not meta.name:
        raise BadRequest(f"{document.where} ({resource.kind}): metadata.name: Required value")
    if (meta.namespace or not resource.namespaced) and meta.uid:
        return obj
    namespace = (meta.namespace or "default") if resource.namespaced else ""
    key = f"{namespace}/{meta.name}" if namespace else meta.name
    uid = meta.uid or (key if resource.type is Pod else f"{resource.kind}/{key}")
    named = msgspec.structs.replace(meta, namespace=namespace, uid=uid)
    return msgspec.structs.replace(obj, metadata=named)


def _field_of(fault: Exception) -> tuple[str, str]:
    """Split a message of msgspec into the field's path and the error.

    >>> _field_of(ValueError("Expected `int`, got `str` - at `$.spec.priority`"))
    ('spec.priority', 'Expected `int`, got `str`')
    """
    words, _, path = (str(fault) or type(fault).__name__).partition(" - at `")
    return path.rstrip("`").removeprefix("$").removeprefix(".") or "object", words


def _name_of(raw: Any) -> str:
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    if not isinstance(metadata, dict):
        return "without a name"
    namespace, name = metadata.get("namespace"), metadata.get("name")
    return f"{namespace}/{name}" if namespace else str(name)


def _bad_amount(value: Any, path: str = "") -> str:
    """Return the path of the first invalid quantity, "" if all are valid."""
    pairs: Mapping[Any, Any] = {}
    if isinstance(value, dict):
        pairs = {f"{path}.{k}" if path else str(k): v for k, v in value.items()}
    elif isinstance(value, list):
        pairs = {f"{path}[{i}]": v for i, v in enumerate(value)}
    for at, inner in pairs.items():
        if at.rpartition(".")[2] in _AMOUNTS and isinstance(inner, dict):
            for name, amount in inner.items():
                if isinstance(amount, str | int | float) and not _is_amount(amount):
                    return f"{at}.{name}"
        elif bad_path := _bad_amount(inner, at):
            return bad_path
    return ""


def _is_amount(amount: Any) -> bool:
    try:
        Quantity.parse(amount)
    except BadRequest:
        return False
    return True
