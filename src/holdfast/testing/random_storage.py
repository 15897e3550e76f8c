"""Random volumes, claims and the objects that limit them.

There are only a few names, so that claims find volumes and pods share claims.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from holdfast.api import scheme
from holdfast.api.meta import Object
from holdfast.testing.builders import an_object, typed

ZONE = "topology.kubernetes.io/zone"
DRIVER = "disk.example.com"
_FEW = 5
_WAITS = {"volumeBindingMode": "WaitForFirstConsumer"}


def some_storage(random: Random, nodes: Sequence[str]) -> Object:
    """Return a volume, claim, storage class, CSINode, VolumeAttachment or CSIStorageCapacity."""
    makers = (
        _volume, _volume, _claim, _claim, _claim, _claim, _class, _drivers, _drivers, _drivers,
        _drivers, _attachment, _driver, _capacity,
    )  # fmt: skip
    made: Object = typed(random.choice(makers)(random, nodes))
    return made


def some_volumes(random: Random) -> list[dict[str, Any]]:
    """Return volumes of a pod: claims, disks that cannot be shared, or a secret."""
    pick = random.choice
    volumes: list[dict[str, Any]] = [{"name": "secret", "secret": {}}]
    for i in range(random.randint(1, 2)):
        source: dict[str, Any] = pick(
            [
                {"persistentVolumeClaim": {"claimName": _name(random, "c")}},
                {"persistentVolumeClaim": {"claimName": _name(random, "c")}},
                {"ephemeral": {}},
                {"gcePersistentDisk": {"pdName": pick("ab"), "readOnly": pick([True, False])}},
                {"awsElasticBlockStore": {"volumeID": pick("ab")}},
            ]
        )
        volumes.append({"name": f"v{i}", **source})
    return volumes


def _name(random: Random, letter: str) -> str:
    return f"{letter}{random.randrange(_FEW)}"


def _volume(random: Random, _nodes: Sequence[str]) -> dict[str, Any]:
    pick, name = random.choice, _name(random, "v")
    expression = {"key": ZONE, "operator": "In", "values": [pick("abc"), pick("abc")]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    spec: dict[str, Any] = {
        "capacity": {"storage": pick(["1Gi", "5Gi", "10Gi"])},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": pick(["wait", "static"]),
        "csi": {"driver": DRIVER, "volumeHandle": name},
    }
    if random.random() < 0.6:
        spec["nodeAffinity"] = {"required": required}
    labels = {ZONE: pick(["a", "b", "a__b"])} if random.random() < 0.3 else None
    made = an_object(scheme.PERSISTENT_VOLUMES, name, spec, labels=labels)
    return made | {"status": {"phase": pick(["Available", "Available", "Released"])}}


def _claim(random: Random, _nodes: Sequence[str]) -> dict[str, Any]:
    pick = random.choice
    spec: dict[str, Any] = {
        "resources": {"requests": {"storage": pick(["1Gi", "5Gi"])}},
        "accessModes": [pick(["ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod"])],
        "storageClassName": pick(["wait", "wait", "static"]),
    }
    marks = None
    if random.random() < 0.5:
        spec["volumeName"] = _name(random, "v")
        marks = {"pv.kubernetes.io/bind-completed": "yes"}
    claims = scheme.PERSISTENT_VOLUME_CLAIMS
    name = _name(random, "c")
    return an_object(claims, name, spec, namespace="default", annotations=marks)


def _class(random: Random, _nodes: Sequence[str]) -> dict[str, Any]:
    name, provisioner = random.choice(
        [("wait", DRIVER), ("static", "kubernetes.io/no-provisioner")]
    )
    made = an_object(scheme.STORAGE_CLASSES, name, {}) | {"provisioner": provisioner} | _WAITS
    if random.random() < 0.3:
        zone = {"key": ZONE, "values": [random.choice("abc"), random.choice("abc")]}
        made["allowedTopologies"] = [{"matchLabelExpressions": [zone]}]
    return made


def _drivers(random: Random, nodes: Sequence[str]) -> dict[str, Any]:
    limit = random.choice([{"count": 0}, {"count": 1}, {"count": 2}, None])
    drivers = [{"name": DRIVER, "nodeID": "x", "allocatable": limit}]
    return an_object(scheme.CSI_NODES, random.choice(nodes), {"drivers": drivers})


def _attachment(random: Random, nodes: Sequence[str]) -> dict[str, Any]:
    spec = {
        "attacher": DRIVER, "nodeName": random.choice(nodes),
        "source": {"persistentVolumeName": _name(random, "v")},
    }  # fmt: skip
    return an_object(scheme.VOLUME_ATTACHMENTS, _name(random, "a"), spec)


def _driver(random: Random, _nodes: Sequence[str]) -> dict[str, Any]:
    return an_object(scheme.CSI_DRIVERS, DRIVER, {"storageCapacity": random.choice([True, False])})


def _capacity(random: Random, _nodes: Sequence[str]) -> dict[str, Any]:
    made = an_object(scheme.CSI_STORAGE_CAPACITIES, _name(random, "room"), {}, namespace="default")
    topology = {"matchLabels": {ZONE: random.choice("abc")}}
    amount = random.choice(["2Gi", "20Gi"])
    return made | {"storageClassName": "wait", "nodeTopology": topology, "capacity": amount}
