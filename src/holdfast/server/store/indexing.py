"""Read the indexed fields of a Kubernetes object without decoding the rest of it."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.server.store.objects import IndexEntry, ObjectKey


class _Owner(msgspec.Struct, gc=False):
    uid: str = ""


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str | None = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None


class _Object(msgspec.Struct):
    metadata: _Metadata


class _PodSpec(msgspec.Struct, rename="camel", gc=False):
    node_name: str = ""


class _Pod(_Object):
    spec: _PodSpec | None = None


class _ClaimReference(msgspec.Struct, gc=False):
    namespace: str = ""
    name: str = ""


class _VolumeSpec(msgspec.Struct, rename="camel", gc=False):
    claim_ref: _ClaimReference | None = None


class _Volume(_Object):
    spec: _VolumeSpec | None = None


class _Reference(msgspec.Struct, gc=False):
    kind: str = ""
    name: str = ""
    uid: str = ""


class _KubernetesEvent(_Object, rename="camel"):
    involved_object: _Reference | None = None


_OBJECT = msgspec.json.Decoder(_Object)
_POD = msgspec.json.Decoder(_Pod)
_VOLUME = msgspec.json.Decoder(_Volume)
_EVENT = msgspec.json.Decoder(_KubernetesEvent)


def index_object(key: ObjectKey, value: bytes) -> IndexEntry:
    """Return uid, labels, owners and indexed fields of an object, given as JSON.

    Fields of wrong types are left out, so that a store with such an object can be opened.

    >>> key = ObjectKey("", "pods", "default", "web")
    >>> index_object(key, b'{"metadata":{"uid":"u"},"spec":{"nodeName":"n1"}}').fields
    {'spec.nodeName': 'n1'}
    """
    try:
        return _index(key, value)
    except msgspec.ValidationError:
        return _index_loosely(value)


def _index(key: ObjectKey, value: bytes) -> IndexEntry:
    decoded: _Object
    fields: dict[str, Any] = {}
    if key[:2] == ("", "pods"):
        decoded = pod = _POD.decode(value)
        if pod.spec and pod.spec.node_name:
            fields = {"spec.nodeName": pod.spec.node_name}
    elif key[:2] == ("", "persistentvolumes"):
        decoded = volume = _VOLUME.decode(value)
        if volume.spec and (claim := volume.spec.claim_ref):
            fields = {"spec.claimRef": f"{claim.namespace}/{claim.name}"}
    elif key[:2] == ("", "events"):
        decoded = event = _EVENT.decode(value)
        reference = event.involved_object or _Reference()
        fields = {
            f"involvedObject.{name}": v for name, v in msgspec.structs.asdict(reference).items()
        }
    else:
        decoded = _OBJECT.decode(value)
    meta = decoded.metadata
    owners = tuple(owner.uid for owner in meta.owner_references or ())
    named = (meta.namespace or "", meta.name) == (key.namespace, key.name) and bool(meta.uid)
    return IndexEntry(meta.uid, meta.labels or {}, fields, owners, not named)


def _index_loosely(value: bytes) -> IndexEntry:
    obj = msgspec.json.decode(value)
    meta = obj.get("metadata") if isinstance(obj, dict) else None
    meta = meta if isinstance(meta, dict) else {}
    uid, labels, owners = (meta.get(part) for part in ("uid", "labels", "ownerReferences"))
    return IndexEntry(
        metadata_mismatch=True,
        uid=uid if isinstance(uid, str) else "",
        labels={k: v for k, v in labels.items() if isinstance(v, str)}
        if isinstance(labels, dict)
        else {},
        owners=tuple(
            owner["uid"]
            for owner in (owners if isinstance(owners, list) else ())
            if isinstance(owner, dict) and isinstance(owner.get("uid"), str)
        ),
    )
