"""Which fields ``?fieldSelector=`` may name, and how they are read out of an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.apiserver.policies import Id
from holdfast.store import Indexed, Key, Stored, index_object

# Each kind's fields with what an absent one reads as.
_POD = {
    "spec.nodeName": "", "spec.restartPolicy": "", "spec.schedulerName": "",
    "spec.serviceAccountName": "", "spec.hostNetwork": "false", "status.phase": "",
    "status.podIP": "", "status.nominatedNodeName": "",
}  # fmt: skip
_EVENT = {
    "involvedObject.kind": "", "involvedObject.namespace": "", "involvedObject.name": "",
    "involvedObject.uid": "", "involvedObject.apiVersion": "",
    "involvedObject.resourceVersion": "", "involvedObject.fieldPath": "", "reason": "",
    "reportingComponent": "", "source": "", "type": "",
}  # fmt: skip
SELECTABLE: Mapping[Id, Mapping[str, str]] = {
    ("", "pods"): _POD,
    ("", "events"): _EVENT,
    ("", "nodes"): {"spec.unschedulable": "false"},
    ("", "namespaces"): {"status.phase": ""},
    ("", "secrets"): {"type": ""},
    ("", "services"): {"spec.clusterIP": "", "spec.type": ""},
    ("", "replicationcontrollers"): {"status.replicas": "0"},
    ("apps", "replicasets"): {"status.replicas": "0"},
    ("batch", "jobs"): {"status.successful": "0"},
    ("certificates.k8s.io", "certificatesigningrequests"): {"spec.signerName": ""},
    ("resource.k8s.io", "resourceslices"): {"spec.driver": "", "spec.nodeName": ""},
}
ALWAYS = ("metadata.name", "metadata.namespace")
# What the store's own index reads in any case.
_ALREADY_INDEXED: Mapping[Id, tuple[str, ...]] = {
    ("", "pods"): ("spec.nodeName",),
    ("", "events"): ("involvedObject.kind", "involvedObject.name", "involvedObject.uid"),
}
_NOTHING: Mapping[str, str] = {}
_PLACES = {"source": ("source", "component"), "status.successful": ("status", "succeeded")}


class _Spec(msgspec.Struct, rename="camel", gc=False):
    node_name: str = ""
    restart_policy: str = ""
    scheduler_name: str = ""
    service_account_name: str = ""
    host_network: bool = False


class _Status(msgspec.Struct, rename="camel", gc=False):
    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    nominated_node_name: str = ""


class _Pod(msgspec.Struct):
    spec: _Spec | None = None
    status: _Status | None = None


_pod = msgspec.json.Decoder(_Pod)


def index_with_fields(key: Key, value: bytes) -> Indexed:
    """Index an object for the store, keeping its selectable fields read beside it.

    Give this to ``Store.open(index=...)``: field selectors then decode nothing. Without it they
    still work, by decoding the object each time.
    """
    plain = index_object(key, value)
    if (key.group, key.plural) not in SELECTABLE:
        return plain
    fields = _pod_fields(value) if key[:2] == ("", "pods") else read_fields(key, value)
    return Indexed(plain.uid, plain.labels, plain.fields, plain.owners, extra=fields)


def _pod_fields(value: bytes) -> Mapping[str, str]:
    pod = _pod.decode(value)
    spec, status = pod.spec or _Spec(), pod.status or _Status()
    return {
        "spec.nodeName": spec.node_name,
        "spec.restartPolicy": spec.restart_policy,
        "spec.schedulerName": spec.scheduler_name,
        "spec.serviceAccountName": spec.service_account_name,
        "spec.hostNetwork": "true" if spec.host_network else "false",
        "status.phase": status.phase,
        "status.podIP": status.pod_ip,
        "status.nominatedNodeName": status.nominated_node_name,
    }


def read_fields(key: Key, value: bytes) -> Mapping[str, str]:
    """Read all selectable fields of a built-in object."""
    paths = SELECTABLE.get((key.group, key.plural), _NOTHING)
    obj = msgspec.json.decode(value)
    return {path: read_path(obj, path, absent) for path, absent in paths.items()}


def read_path(obj: Any, path: str, absent: str = "") -> str:
    """Read one field as text, the way Go prints it.

    >>> read_path({"spec": {"unschedulable": True}}, "spec.unschedulable", "false")
    'true'
    """
    for part in _PLACES.get(path) or path.split("."):
        obj = obj.get(part) if isinstance(obj, dict) else None
    if obj is None:
        return absent
    if isinstance(obj, bool):
        return "true" if obj else "false"
    return str(obj)


def field_of(stored: Stored, path: str) -> str:
    """Read one selectable field of a stored object."""
    if path == "metadata.name":
        return stored.key.name
    if path == "metadata.namespace":
        return stored.key.namespace
    kept = stored.indexed.extra
    if isinstance(kept, Mapping) and path in kept:
        return str(kept[path])
    if path in _ALREADY_INDEXED.get((stored.key.group, stored.key.plural), ()):
        return stored.indexed.fields.get(path, "")
    absent = SELECTABLE.get((stored.key.group, stored.key.plural), _NOTHING).get(path, "")
    return read_path(msgspec.json.decode(stored.value), path.lstrip("."), absent)
