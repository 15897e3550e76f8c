"""``holdfast convert``: write manifests with classic claims for a real cluster."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from holdfast.api.classic_dra.names import KEP_GROUP, OWN_GROUP, POD_CLAIMS, VERSION
from holdfast.api.decode import JsonObject
from holdfast.api.field_errors import child
from holdfast.api.json_fields import list_at, map_at, text_at
from holdfast.cli.objects import parse_documents
from holdfast.runtime.errors import BadRequest
from holdfast.state.classic_dra.annotated_pods import (
    read_annotation,
    shadow_name,
    with_annotation,
    with_shadows,
)

MAX_DEPTH = 100
CLASSIC_QUOTA = "resourceclaims"
CLASS_QUOTA = ".resourceclass.node.k8s.io/resourceclaims"


class _Dumper(yaml.CSafeDumper):
    """Writes every value in full, without anchors."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def convert_files(files: Sequence[str], scheduler_name: str) -> None:
    """Print the converted objects of files as YAML; ``-`` is standard input.

    Nothing is printed if an object is wrong.
    """
    objects, notes = [], []
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
            objects.append(converted.obj)
            notes += [f"{named}: {path}" for path in converted.needs_webhook]
    yaml.dump_all(objects, sys.stdout, Dumper=_Dumper, sort_keys=False, width=10_000)
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


@dataclass(slots=True)
class Converted:
    """A converted object, and its pods that need the webhook."""

    obj: JsonObject
    needs_webhook: list[str] = field(default_factory=list)
    """Paths of templates whose pods get their shadows from the webhook."""


def convert_manifest(obj: JsonObject, scheduler_name: str = "") -> Converted:
    """Convert an object of any kind; pods and pod templates are found at any depth.

    ``scheduler_name`` is set in pods with classic claims. Raises BadRequest, which names the field.
    """
    api_version, kind = text_at(obj, "apiVersion"), text_at(obj, "kind")
    group = api_version.partition("/")[0]
    if group == KEP_GROUP:
        return Converted({**obj, "apiVersion": f"{OWN_GROUP}/{VERSION}"})
    if api_version == "v1" and kind == "ResourceQuota":
        return Converted(_converted_quota(obj))
    if group == "rbac.authorization.k8s.io":
        return Converted(_converted_role(obj))
    converted = Converted(obj)
    if api_version == "v1" and kind == "Pod":
        converted.obj = _converted_pod(obj, "", scheduler_name, converted.needs_webhook)
    else:
        converted.obj = _walk(obj, "", scheduler_name, converted.needs_webhook, MAX_DEPTH)
    return converted


def _walk(value: Any, path: str, scheduler: str, needs_webhook: list[str], depth: int) -> Any:
    """Convert the pod templates in a value: objects whose spec has containers."""
    if not depth:
        raise BadRequest(f"{path}: nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, list):
        return [
            _walk(item, f"{path}[{i}]", scheduler, needs_webhook, depth - 1)
            for i, item in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    if list_at(map_at(value, "spec"), "containers"):
        return _converted_pod(value, path, scheduler, needs_webhook)
    return {
        key: _walk(item, child(path, key), scheduler, needs_webhook, depth - 1)
        for key, item in value.items()
    }


def _converted_pod(
    pod: JsonObject, path: str, scheduler: str, needs_webhook: list[str]
) -> JsonObject:
    """Convert a pod, or a template at a path, whose pods must not share shadows."""
    for key in ("metadata", "spec"):
        if not isinstance(pod.get(key) or {}, dict):
            raise BadRequest(f"{child(path, key)}: Expected `object`")
    old = map_at(pod, "spec")
    metadata, spec = with_annotation(map_at(pod, "metadata"), old, path)
    if POD_CLAIMS not in map_at(metadata, "annotations"):
        return pod if spec is old else {**pod, "spec": spec}
    if scheduler:
        spec = {**spec, "schedulerName": scheduler}
    name = text_at(metadata, "name")
    if name and not path:
        metadata, spec = with_shadows(metadata, spec, lambda entry: shadow_name(name, entry))
    else:
        read_annotation(metadata, spec, path)
        needs_webhook.append(path or "metadata.generateName")
    return {**pod, "metadata": metadata, "spec": spec}


def _converted_quota(quota: JsonObject) -> JsonObject:
    """Convert the KEP's keys to those that a real API server counts."""
    spec = map_at(quota, "spec")
    hard = map_at(spec, "hard")
    for key in hard:
        if key.endswith(CLASS_QUOTA):
            raise BadRequest(
                f"spec.hard[{key}]: a real API server does not count the claims of one class: "
                f"limit count/resourceclaims.{OWN_GROUP}, or what the driver allocates"
            )
    if CLASSIC_QUOTA not in hard:
        return quota
    renamed = {
        f"count/{key}.{OWN_GROUP}" if key == CLASSIC_QUOTA else key: value
        for key, value in hard.items()
    }
    return {**quota, "spec": {**spec, "hard": renamed}}


def _converted_role(role: JsonObject) -> JsonObject:
    """Convert rules about the KEP's group."""
    if not isinstance(role.get("rules"), list):
        return role
    rules = [
        {**rule, "apiGroups": [OWN_GROUP if g == KEP_GROUP else g for g in rule["apiGroups"]]}
        if isinstance(rule, dict) and list_at(rule, "apiGroups")
        else rule
        for rule in role["rules"]
    ]
    return {**role, "rules": rules}
