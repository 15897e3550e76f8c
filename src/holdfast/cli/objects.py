"""Read API objects from files and make a world of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import yaml

from holdfast.api import scheme
from holdfast.api.decode import convert_object
from holdfast.api.defaults import default_object
from holdfast.api.meta import Object
from holdfast.api.pod import Pod
from holdfast.api.resource import Resource
from holdfast.errors import BadRequest
from holdfast.framework.new_world import new_world
from holdfast.framework.world import World

TYPED: dict[tuple[str, str], type[Object]] = {
    (r.api_version, r.kind): r.type for r in vars(scheme).values() if isinstance(r, Resource)
}


def parse_documents(text: str) -> list[dict[str, Any]]:
    """Read a v1 List, or many YAML or JSON documents, as flat raw objects."""
    try:
        documents = [d for d in yaml.load_all(text, Loader=yaml.CSafeLoader) if d is not None]
    except yaml.YAMLError as wrong:
        raise BadRequest(f"the file cannot be read: {wrong}") from wrong
    return list(flatten(documents))


def flatten(documents: Iterable[Any]) -> Iterable[dict[str, Any]]:
    """Unpack lists; refuse what is not an object, naming which document it is."""
    for number, document in enumerate(documents, 1):
        if not isinstance(document, dict):
            raise BadRequest(f"document {number}: expected an object, found {document!r:.40}")
        if document.get("kind", "").endswith("List") and "items" in document:
            yield from document["items"] or ()
        else:
            yield document


def read_object(raw: Mapping[str, Any], number: int) -> Object | None:
    """Read one raw object by its kind, defaulted; None for kinds that play no part."""
    kind = TYPED.get((raw.get("apiVersion", ""), raw.get("kind", "")))
    if kind is None:
        return None
    copy = msgspec.json.decode(msgspec.json.encode(raw))
    try:
        default_object(copy)
        return convert_object(copy, kind)
    except (msgspec.ValidationError, TypeError, AttributeError, ValueError) as wrong:
        name = (raw.get("metadata") or {}).get("name", "?")
        raise BadRequest(f"document {number} ({raw.get('kind')} {name}): {wrong}") from wrong


def build_world(objects: Iterable[Object], besides: str = "") -> tuple[World, dict[str, Pod]]:
    """Make a world of the objects, and list every unfinished pod by ``namespace/name``.

    The pod ``besides`` is left out of the world even if it is bound: it is explained as if it
    were not on its node. Nodes go in first and pods last, whatever the order in the file.
    """
    world = new_world()
    pods: dict[str, Pod] = {}
    found = sorted(objects, key=lambda obj: _PASS.get(obj.kind, 1))
    for obj in found:
        if isinstance(obj, Pod):
            if obj.finished:
                continue
            pods[obj.key] = obj
            if obj.key == besides:
                continue
        world.upsert(obj)
    return world, pods


_PASS = {"Namespace": 0, "Node": 0, "Pod": 2}
