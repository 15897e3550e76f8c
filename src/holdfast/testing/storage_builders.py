"""Builders of volumes, claims and storage classes for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.api import scheme
from holdfast.api.decode import JsonObject
from holdfast.api.storage import BIND_COMPLETED, WAIT_FOR_FIRST_CONSUMER
from holdfast.testing.builders import Labels, an_object, camel


def a_storage_class(
    name: str = "wait", *, provisioner: str = "disk.example.com", wait: bool = True, **fields: Any
) -> JsonObject:
    """A storage class, by default with WaitForFirstConsumer; keywords are top-level fields."""
    mode = WAIT_FOR_FIRST_CONSUMER if wait else "Immediate"
    made = an_object(scheme.STORAGE_CLASSES, name, {})
    return made | {"provisioner": provisioner, "volumeBindingMode": mode} | camel(fields)


def a_volume(
    name: str = "v",
    *,
    size: str = "10Gi",
    storage_class: str = "wait",
    nodes: Mapping[str, str] | None = None,
    labels: Labels = None,
    phase: str = "Available",
    **spec: Any,
) -> JsonObject:
    """An available volume for nodes with the labels ``nodes``, or for all nodes."""
    body: JsonObject = {
        "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class, "csi": {"driver": "disk.example.com",
                                                   "volumeHandle": name},
    }  # fmt: skip
    if nodes:
        wanted = [{"key": k, "operator": "In", "values": [v]} for k, v in nodes.items()]
        terms = [{"matchExpressions": wanted}]
        body["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    made = an_object(scheme.PERSISTENT_VOLUMES, name, body | camel(spec), labels=labels)
    return made | {"status": {"phase": phase}}


def a_volume_claim(
    name: str = "data",
    *,
    namespace: str = "default",
    size: str = "1Gi",
    storage_class: str | None = "wait",
    volume: str | None = None,
    mode: str = "ReadWriteOnce",
    **more: Any,
) -> JsonObject:
    """A claim, bound to ``volume`` if given; other keywords are those of ``an_object``."""
    body: JsonObject = {"accessModes": [mode], "resources": {"requests": {"storage": size}}}
    body |= camel({"storage_class_name": storage_class, "volume_name": volume})
    if volume is not None:
        more["annotations"] = {**more.get("annotations", {}), BIND_COMPLETED: "yes"}
    claims = scheme.PERSISTENT_VOLUME_CLAIMS
    return an_object(claims, name, body, namespace=namespace, **more)


def a_csi_node(name: str, **limits: int | None) -> JsonObject:
    """The drivers of a node with their volume limits: ``disk_example_com=2``."""
    drivers = []
    for driver, limit in limits.items():
        allocatable = None if limit is None else {"count": limit}
        made = {"name": driver.replace("_", "."), "nodeID": name, "allocatable": allocatable}
        drivers.append({key: value for key, value in made.items() if value is not None})
    return an_object(scheme.CSI_NODES, name, {"drivers": drivers})


def mounting(*claims: str) -> list[JsonObject]:
    """The ``volumes`` of a pod that uses these claims: ``a_pod(volumes=mounting("data"))``."""
    return [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
