"""Which fields ``?fieldSelector=`` may name, and how they are read out of an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.apiserver.kinds.policies import Id
from holdfast.store import Stored

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
    if path in _ALREADY_INDEXED.get((stored.key.group, stored.key.plural), ()):
        return stored.indexed.fields.get(path, "")
    absent = SELECTABLE.get((stored.key.group, stored.key.plural), _NOTHING).get(path, "")
    return read_path(msgspec.json.decode(stored.value), path.lstrip("."), absent)
