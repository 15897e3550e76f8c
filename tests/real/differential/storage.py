"""Random volumes, claims, classes and limits; few names, so that they refer to each other."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.api import scheme
from holdfast.testing.builders import an_object
from real.differential.dice import Dice, Raw
from real.differential.nodes import HOST, REGION, ZONE, ZONES

DRIVER, OTHER_DRIVER = "disk.example.com", "file.example.com"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
FEW = 5
MODES = ("ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany", "ReadWriteMany")
MIGRATED = ("kubernetes.io/gce-pd,kubernetes.io/aws-ebs,kubernetes.io/cinder",
            "kubernetes.io/gce-pd", "")  # fmt: skip
CLASSES = {
    "wait": (DRIVER, "WaitForFirstConsumer"),
    "now": (DRIVER, "Immediate"),
    "static": ("kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
    "old": ("kubernetes.io/gce-pd", "WaitForFirstConsumer"),
}


def some_storage(dice: Dice, nodes: Sequence[Raw]) -> list[Raw]:
    """Return all storage objects of a cluster."""
    names = [node["metadata"]["name"] for node in nodes]
    made = [_class(dice, name) for name in CLASSES if dice.chance(0.9)]
    made += [_volume(dice, f"v{i}", names) for i in range(FEW) if dice.chance(0.85)]
    claims = [_claim(dice, f"c{i}", names) for i in range(FEW) if dice.chance(0.9)]
    for volume in made:
        if volume["kind"] == "PersistentVolume" and dice.chance(0.5):
            _refer(dice, volume, claims)
    made += claims
    made += [_drivers(dice, name) for name in names if dice.chance(0.8)]
    made += [_attachment(dice, f"a{i}", names) for i in range(dice.randint(0, 3))]
    for driver in (DRIVER, OTHER_DRIVER):
        if dice.chance(0.4):
            spec = {"storageCapacity": dice.pick(True, False)}
            made.append(an_object(scheme.CSI_DRIVERS, driver, spec))
    made += [_capacity(dice, f"room{i}") for i in range(dice.randint(0, 3))]
    return made


def grow_volumes(dice: Dice, pod: Raw, most: int = 2) -> None:
    """Add volumes: claims, ephemeral claims and disks that cannot be shared."""
    volumes: list[Raw] = []
    for i in range(dice.randint(1, most)):
        volumes.append({"name": f"v{i}", **_source(dice)})
    if dice.chance(0.2):
        volumes.append({"name": "scratch", "emptyDir": {}})
    pod["spec"]["volumes"] = volumes


def ephemeral_claims(dice: Dice, pods: Sequence[Raw]) -> list[Raw]:
    """Return most of the claims of the pods' ephemeral volumes."""
    made = []
    for pod in pods:
        meta = pod["metadata"]
        for volume in pod["spec"].get("volumes", ()):
            if "ephemeral" not in volume or dice.chance(0.15):
                continue
            claim = _claim(dice, f"{meta['name']}-{volume['name']}", [])
            claim["metadata"]["namespace"] = meta["namespace"]
            if dice.chance(0.9):
                claim["metadata"]["ownerReferences"] = [
                    {"apiVersion": "v1", "kind": "Pod", "name": meta["name"],
                     "uid": meta["uid"], "controller": True}
                ]  # fmt: skip
            made.append(claim)
    return made


def _source(dice: Dice) -> Raw:
    claim = {"persistentVolumeClaim": {"claimName": f"c{dice.randrange(FEW + 1)}"}}
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "wait",
                         "resources": {"requests": {"storage": "1Gi"}}}}  # fmt: skip
    return dice.pick(
        claim, claim, claim, claim,
        {"ephemeral": {"volumeClaimTemplate": template}},
        {"gcePersistentDisk": {"pdName": dice.pick("a", "b"), "readOnly": dice.pick(True, False)}},
        {"awsElasticBlockStore": {"volumeID": dice.pick("a", "b")}},
        {"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2026-01.com.example:a",
                   "lun": 0, "readOnly": dice.pick(True, False)}},
        {"rbd": {"monitors": ["m1", dice.pick("m2", "m3")], "image": "img",
                 "pool": dice.pick("rbd", "pool"), "readOnly": dice.pick(True, False)}},
        {"csi": {"driver": DRIVER}},
        {"secret": {"secretName": "s"}},
    )  # fmt: skip


def _class(dice: Dice, name: str) -> Raw:
    provisioner, mode = CLASSES[name]
    made = an_object(scheme.STORAGE_CLASSES, name, {})
    made |= {"provisioner": provisioner, "volumeBindingMode": mode, "reclaimPolicy": "Delete"}
    if dice.chance(0.25):
        zone = {"key": ZONE, "values": dice.some(ZONES, 2) or [ZONES[0]]}
        made["allowedTopologies"] = [{"matchLabelExpressions": [zone]}]
    return made


def _volume(dice: Dice, name: str, nodes: Sequence[str]) -> Raw:
    source = dice.pick(
        {"csi": {"driver": DRIVER, "volumeHandle": name}},
        {"csi": {"driver": DRIVER, "volumeHandle": name}},
        {"csi": {"driver": OTHER_DRIVER, "volumeHandle": name}},
        {"gcePersistentDisk": {"pdName": name}},
        {"awsElasticBlockStore": {"volumeID": f"vol-{name}"}},
        {"cinder": {"volumeID": name}},
        {"nfs": {"server": "s", "path": "/p"}},
    )
    spec: Raw = {
        "capacity": {"storage": dice.pick("1Gi", "5Gi", "5Gi", "10Gi")},
        "accessModes": sorted({dice.choice(MODES) for _ in range(dice.pick(1, 2))}),
        "persistentVolumeReclaimPolicy": "Retain", **source,
        **dice.maybe(0.9, storageClassName=dice.choice([*CLASSES, "gone"])),
        **dice.maybe(0.15, volumeMode=dice.pick("Block", "Filesystem")),
    }  # fmt: skip
    if spec["accessModes"] != ["ReadWriteOncePod"] and "ReadWriteOncePod" in spec["accessModes"]:
        spec["accessModes"] = ["ReadWriteOncePod"]
    if dice.chance(0.5):
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [_reach(dice, nodes)]}}
    if "csi" in spec:
        spec |= dice.maybe(0.05, volumeAttributesClassName="gold")
    labels = {}
    if dice.chance(0.3):
        labels[dice.pick(ZONE, ZONE, BETA_ZONE)] = dice.pick(
            ZONES[0], ZONES[1], f"{ZONES[0]}__{ZONES[1]}"
        )
    if dice.chance(0.1):
        labels[REGION] = dice.pick("east", "west")
    if dice.chance(0.3):
        labels["speed"] = dice.pick("fast", "slow")
    made = an_object(scheme.PERSISTENT_VOLUMES, name, spec, labels=labels)
    return made | {"status": {"phase": dice.pick("Available", "Available", "Released", "Bound")}}


def _reach(dice: Dice, nodes: Sequence[str]) -> Raw:
    expression = dice.pick(
        {"key": ZONE, "operator": "In", "values": dice.some(ZONES, 2) or [ZONES[0]]},
        {"key": ZONE, "operator": "NotIn", "values": [ZONES[1]]},
        {"key": HOST, "operator": "In", "values": [dice.choice([*nodes, "gone"])]},
    )
    return {"matchExpressions": [expression]}


def _refer(dice: Dice, volume: Raw, claims: Sequence[Raw]) -> None:
    """Set the claim reference of a volume, sometimes with the uid of an earlier claim."""
    name = f"c{dice.randrange(FEW)}"
    ref = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name}
    there = [c for c in claims if c["metadata"]["name"] == name]
    if there and dice.chance(0.7):
        ref["uid"] = there[0]["metadata"]["uid"]
    elif dice.chance(0.3):
        ref["uid"] = "earlier"
    volume["spec"]["claimRef"] = ref
    if there and dice.chance(0.5):
        there[0]["spec"]["volumeName"] = volume["metadata"]["name"]


def _claim(dice: Dice, name: str, nodes: Sequence[str]) -> Raw:
    modes = [dice.choice(MODES)]
    spec: Raw = {
        "resources": {"requests": {"storage": dice.pick("1Gi", "5Gi", "7Gi")}},
        "accessModes": modes,
        **dice.maybe(0.95, storageClassName=dice.choice(["wait", "wait", *CLASSES, "gone", ""])),
        **dice.maybe(0.1, volumeMode=dice.pick("Block", "Filesystem")),
        **dice.maybe(0.05, volumeAttributesClassName="gold"),
        **dice.maybe(0.15, selector=dice.pick({"matchLabels": {"speed": "fast"}}, {})),
    }
    marks = {}
    if dice.chance(0.45):
        spec["volumeName"] = f"v{dice.randrange(FEW + 1)}"
        if dice.chance(0.85):
            marks["pv.kubernetes.io/bind-completed"] = "yes"
    elif nodes and dice.chance(0.15):
        marks["volume.kubernetes.io/selected-node"] = dice.choice(nodes)
    made = an_object(scheme.PERSISTENT_VOLUME_CLAIMS, name, spec, namespace="default",
                     annotations=marks, metadata={"uid": f"claim-{name}"})  # fmt: skip
    if dice.chance(0.04):
        made["metadata"]["deletionTimestamp"] = "2026-01-10T00:00:00Z"
    if dice.chance(0.05) and "storageClassName" in spec:
        made["metadata"].setdefault("annotations", {})[BETA_CLASS] = spec.pop("storageClassName")
    phase = "Bound" if spec.get("volumeName") else "Pending"
    return made | {"status": {"phase": "Lost" if dice.chance(0.04) else phase}}


def _drivers(dice: Dice, name: str) -> Raw:
    drivers = []
    for driver in (DRIVER, OTHER_DRIVER, "pd.csi.storage.gke.io", "ebs.csi.aws.com"):
        if dice.chance(0.6):
            one: Raw = {"name": driver, "nodeID": name, "topologyKeys": []}
            drivers.append(one | dice.maybe(0.8, allocatable={"count": dice.randint(0, 3)}))
    made = an_object(scheme.CSI_NODES, name, {"drivers": drivers})
    if dice.chance(0.2):
        key = "storage.alpha.kubernetes.io/migrated-plugins"
        made["metadata"]["annotations"] = {key: dice.choice(MIGRATED)}
    return made | {"spec": {"drivers": drivers}}


def _attachment(dice: Dice, name: str, nodes: Sequence[str]) -> Raw:
    spec = {
        "attacher": dice.pick(DRIVER, OTHER_DRIVER), "nodeName": dice.choice([*nodes, "gone"]),
        "source": {"persistentVolumeName": f"v{dice.randrange(FEW)}"},
    }  # fmt: skip
    made = an_object(scheme.VOLUME_ATTACHMENTS, name, spec)
    return made | {"status": {"attached": dice.pick(True, False)}}


def _capacity(dice: Dice, name: str) -> Raw:
    made = an_object(scheme.CSI_STORAGE_CAPACITIES, name, {}, namespace="default")
    made |= {"storageClassName": dice.pick("wait", "wait", "now")}
    made |= dice.maybe(0.9, nodeTopology=dice.pick({"matchLabels": {ZONE: ZONES[0]}}, {},
                                                   {"matchLabels": {ZONE: ZONES[1]}}))  # fmt: skip
    made |= dice.maybe(0.85, capacity=dice.pick("2Gi", "6Gi", "20Gi", "0"))
    return made | dice.maybe(0.2, maximumVolumeSize=dice.pick("1Gi", "10Gi"))
