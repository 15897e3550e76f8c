"""Random snapshots with the features of devices, one to three of them at a time.

A theme changes the devices, and adds to the requests of the pod's claims. ``devices`` lists what is
not generated, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.testing import a_claim, a_device, a_device_class, a_slice
from real.differential import devices
from real.differential.devices import GPU, NIC, owned_by, use_claims
from real.differential.dice import Dice, Raw, identified
from real.differential.nodes import ZONE, ZONES, some_nodes
from real.differential.pods import a_random_pod, placed_pods

ROOT = "resource.kubernetes.io/pcieRoot"
TAINT_KEYS = ("broken", "example.com/old", "hot")
EFFECTS = ("NoSchedule", "NoExecute", "None")
POLICIES: tuple[Raw, ...] = (
    {"default": "2Gi"},
    {"default": "1Gi", "validRange": {"min": "1Gi"}},
    {"default": "1Gi", "validRange": {"min": "1Gi", "max": "8Gi"}},
    {"default": "2Gi", "validRange": {"min": "2Gi", "max": "8Gi", "step": "2Gi"}},
    {"default": "1Gi", "validValues": ["1Gi", "2Gi", "4Gi"]},
)


@dataclass
class Scene:
    """What the themes of a case work on."""

    nodes: list[Raw]
    slices: list[Raw]
    themes: tuple[str, ...] = ()
    taken: set[Any] = field(default_factory=set)

    @property
    def devices(self) -> list[Raw]:
        return [device for piece in self.slices for device in piece["spec"].get("devices", ())]


def device_themes(dice: Dice) -> tuple[list[Raw], Raw]:
    """Claims with every feature of devices."""
    nodes = some_nodes(dice, most=5, plain=dice.chance(0.9), roomy=dice.chance(0.9))
    themes = _some_themes(dice)
    scene = Scene(nodes, _plain_slices(dice, nodes), themes)
    for theme in themes:
        _CHANGES.get(theme, _no_change)(dice, scene)
    pods = placed_pods(dice, nodes, 5, namespace="default", odd=False)
    made = _busy_claims(dice, scene, pods)
    pod = identified(a_random_pod(dice, "x", namespace="default"))
    names = [f"mine{i}" for i in range(dice.pick(1, 1, 1, 2))]
    for name in names:
        claim = _claim(dice, scene, name)
        if dice.chance(0.5):
            owned_by(claim, pod)
        if "conditions" in themes and dice.chance(0.5):
            _allocate_with_conditions(dice, scene, claim, pod)
        made.append(claim)
    if made and dice.chance(0.1):
        names.append(made[0]["metadata"]["name"])
    use_claims(dice, pod, list(dict.fromkeys(names)))
    return [*nodes, *pods, *scene.slices, *_classes(dice), *made], pod


def _some_themes(dice: Dice) -> tuple[str, ...]:
    chosen = [theme for theme in THEMES if dice.chance(0.25)] or [dice.choice(THEMES)]
    if "counters" in chosen:
        # See ``devices``: kube-scheduler does not undo what it recorded for a rejected device.
        without = ("constraints", "taints", "capacity", "generations")
        chosen = [theme for theme in chosen if theme not in without]
    if "capacity" in chosen:
        chosen = [theme for theme in chosen if theme != "constraints"]
    return tuple(chosen)


def _classes(dice: Dice) -> list[Raw]:
    rules = {
        "gpu": [f'device.driver == "{GPU}"'],
        "nic": [f'device.driver == "{NIC}"'],
        "any": [],
        "two": [f'device.driver == "{GPU}"', f'has(device.attributes["{GPU}"].model)'],
    }
    made = []
    for name, selectors in rules.items():
        one = a_device_class(name, selectors=selectors)
        if dice.chance(0.2):
            one["spec"]["config"] = [_config(dice)]
        made.append(one)
    return made


def _config(dice: Dice) -> Raw:
    parameters = {"kind": "Settings", "apiVersion": "v1", "level": dice.randint(1, 3)}
    return {"opaque": {"driver": dice.pick(GPU, NIC), "parameters": parameters}}


def _plain_slices(dice: Dice, nodes: Sequence[Raw]) -> list[Raw]:
    made = []
    for node in nodes:
        name = node["metadata"]["name"]
        for driver, likelihood in ((GPU, 0.9), (NIC, 0.5)):
            if dice.chance(likelihood):
                one = [_device(dice, f"d{i}", driver) for i in range(dice.randint(1, 5))]
                piece = a_slice(f"{name}-{driver[:3]}", driver=driver, node=name, devices=one)
                made.append(piece)
    if dice.chance(0.3):
        shared = [_device(dice, f"s{i}", GPU) for i in range(dice.randint(1, 3))]
        wanted = [{"key": ZONE, "operator": "In", "values": dice.some(ZONES, 2) or [ZONES[0]]}]
        selector = {"nodeSelectorTerms": [{"matchExpressions": wanted}]}
        where: Raw = dice.pick({"all_nodes": True}, {"node_selector": selector})
        made.append(
            a_slice("fabric", driver=GPU, node=None, pool="fabric", devices=shared, **where)
        )
    return made


def _device(dice: Dice, name: str, driver: str) -> Raw:
    attributes: Raw = {"numa": dice.pick(0, 1), "fast": dice.chance(0.5)}
    if dice.chance(0.9):
        attributes["model"] = dice.pick("a", "b", "c")
    if dice.chance(0.7):
        attributes[ROOT] = dice.pick("pci0", "pci1")
    if dice.chance(0.5):
        attributes["driverVersion"] = {"version": dice.pick("1.0.0", "1.2.0-rc.1", "2.0.1")}
    return a_device(name, attributes=attributes, capacity={"memory": dice.pick("8Gi", "16Gi")})


# --- devices, by theme


def _no_change(_dice: Dice, _scene: Scene) -> None:
    """Leave the devices as they are."""


def _taints(dice: Dice, scene: Scene) -> None:
    for device in scene.devices:
        found = {
            (key, effect): {
                "key": key, "effect": effect, "timeAdded": "2026-01-01T00:00:00Z",
                **dice.maybe(0.6, value=dice.pick("yes", "no")),
            }
            for key in TAINT_KEYS for effect in EFFECTS if dice.chance(0.08)
        }  # fmt: skip
        if found:
            device["taints"] = list(found.values())[:4]


def _counters(dice: Dice, scene: Scene) -> None:
    """Let devices consume counters of one or two sets, which are in slices of their own."""
    for piece in list(scene.slices):
        spec = piece["spec"]
        if spec["driver"] != GPU or dice.chance(0.2):
            continue
        sets = [f"set{i}" for i in range(dice.randint(1, 2))]
        where = ("nodeName", "allNodes", "nodeSelector", "perDeviceNodeSelection")
        shared = {key: spec[key] for key in where if key in spec}
        pool = dict(spec["pool"], resourceSliceCount=2)
        counters = a_slice(f"{piece['metadata']['name']}-counters", driver=GPU, node=None)
        counters["spec"] = {"driver": GPU, "pool": pool, **shared}
        counters["spec"]["sharedCounters"] = [
            {"name": one, "counters": {
                name: {"value": dice.pick("4", "8")} for name in ("units", "links")}}
            for one in sets
        ]  # fmt: skip
        spec["pool"] = pool
        for device in spec["devices"]:
            consumed = [
                {"counterSet": one, "counters": {
                    name: {"value": dice.pick("1", "2", "4")}
                    for name in dice.some(("units", "links")) or ["units"]}}
                for one in sets if dice.chance(0.8)
            ]  # fmt: skip
            if consumed:
                device["consumesCounters"] = consumed
        if dice.chance(0.9):
            scene.slices.append(counters)


def _capacity(dice: Dice, scene: Scene) -> None:
    for device in scene.devices:
        if dice.chance(0.6):
            device["allowMultipleAllocations"] = True
            if dice.chance(0.7):
                device["capacity"]["memory"]["requestPolicy"] = dice.choice(POLICIES)
            if dice.chance(0.3):
                device["capacity"]["slots"] = {"value": "2"}


def _conditions(dice: Dice, scene: Scene) -> None:
    for device in scene.devices:
        if dice.chance(0.5):
            device["bindingConditions"] = dice.some(("ready", "attached"), 2) or ["ready"]
            device["bindingFailureConditions"] = ["failed"]
            if dice.chance(0.5):
                device["bindsToNode"] = True


def _per_device_nodes(dice: Dice, scene: Scene) -> None:
    """Move the node selection of some slices to their devices."""
    names = [node["metadata"]["name"] for node in scene.nodes]
    for piece in scene.slices:
        spec = piece["spec"]
        if not spec.get("devices") or dice.chance(0.4):
            continue
        for key in ("nodeName", "allNodes", "nodeSelector"):
            spec.pop(key, None)
        spec["perDeviceNodeSelection"] = True
        for device in spec["devices"]:
            values = dice.some(names, 2) or [names[0]]
            term = {"matchFields": [{"key": "metadata.name", "operator": "In",
                                     "values": values[:1]}]}  # fmt: skip
            zone = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [ZONES[0]]}]}
            device |= dice.pick(
                {"nodeName": dice.choice(names)},
                {"nodeName": dice.choice(names)},
                {"allNodes": True},
                {"nodeSelector": {"nodeSelectorTerms": [dice.pick(term, zone)]}},
            )


def _generations(dice: Dice, scene: Scene) -> None:
    """Split pools into slices, add older generations, forget slices and publish names twice."""
    for piece in list(scene.slices):
        if not piece["spec"].get("devices") or dice.chance(0.5):
            continue
        scene.slices += devices.second_slice(dice, piece, piece["metadata"]["name"])
    pools = dict.fromkeys((p["spec"]["driver"], p["spec"]["pool"]["name"]) for p in scene.slices)
    for driver, pool in pools:
        if dice.chance(0.05):
            _forget_slice(scene, driver, pool)


def _forget_slice(scene: Scene, driver: str, pool: str) -> None:
    """Let all slices of a pool say that there is one more."""
    for piece in scene.slices:
        spec = piece["spec"]
        if (spec["driver"], spec["pool"]["name"]) == (driver, pool):
            count = spec["pool"]["resourceSliceCount"] + 1
            spec["pool"] = dict(spec["pool"], resourceSliceCount=count)


_CHANGES: dict[str, Callable[[Dice, Scene], None]] = {
    "taints": _taints,
    "capacity": _capacity,
    "conditions": _conditions,
    "per-device nodes": _per_device_nodes,
    "generations": _generations,
    "counters": _counters,
}
THEMES = (*_CHANGES, "alternatives", "constraints", "admin", "all")


# --- claims


def _claim(dice: Dice, scene: Scene, name: str) -> Raw:
    count = dice.pick(1, 1, 2, 3) if "constraints" in scene.themes else dice.pick(1, 1, 1, 2)
    requests = [_request(dice, scene, f"r{i}") for i in range(count)]
    constraints = _constraints(dice, requests) if "constraints" in scene.themes else []
    claim = a_claim(
        name, requests=requests, constraints=constraints, metadata={"uid": f"claim-{name}"}
    )
    if dice.chance(0.15):
        entry = _config(dice) | dice.maybe(0.5, requests=["r0"])
        claim["spec"]["devices"]["config"] = [entry]
    return claim


def _constraints(dice: Dice, requests: list[Raw]) -> list[Raw]:
    made: list[Raw] = []
    for _ in range(dice.pick(1, 1, 2)):
        names = [request["name"] for request in requests]
        attribute = dice.pick(f"{GPU}/model", f"{GPU}/numa", f"{GPU}/fast", ROOT, ROOT)
        if dice.chance(0.3):
            # Of several devices of one request kube-scheduler compares neighbours only.
            devices.ask_for_single_devices(requests)
            made.append({"distinctAttribute": attribute})
        else:
            made.append({"matchAttribute": attribute})
        if dice.chance(0.4):
            made[-1]["requests"] = dice.some(names, len(names)) or names[:1]
    return made


def _request(dice: Dice, scene: Scene, name: str) -> Raw:
    if "alternatives" in scene.themes and dice.chance(0.7):
        count = dice.pick(1, 2, 2, 3, 4, 8)
        subs = [{"name": f"s{i}", **_exactly(dice, scene)} for i in range(count)]
        return {"name": name, "firstAvailable": subs}
    exactly = _exactly(dice, scene)
    if "admin" in scene.themes and dice.chance(0.5):
        exactly["adminAccess"] = True
    return {"name": name, "exactly": exactly}


def _exactly(dice: Dice, scene: Scene) -> Raw:
    made: Raw = {"deviceClassName": dice.pick("gpu", "gpu", "gpu", "nic", "any", "two")}
    if "all" in scene.themes and dice.chance(0.5):
        made["allocationMode"] = "All"
    elif dice.chance(0.6):
        made |= {"allocationMode": "ExactCount", "count": dice.pick(1, 1, 2, 2, 3, 5)}
    if dice.chance(0.2):
        made["selectors"] = [{"cel": {"expression": devices.SELECTORS[dice.choice(devices.SAFE)]}}]
    if "taints" in scene.themes:
        made |= dice.maybe(0.6, tolerations=[_toleration(dice) for _ in range(dice.randint(1, 2))])
    if "capacity" in scene.themes and dice.chance(0.6):
        amounts = {"memory": dice.pick("1Gi", "1500Mi", "3Gi", "5Gi", "9Gi", "20Gi")}
        made["capacity"] = {"requests": amounts | dice.maybe(0.2, slots="1")}
    return made


def _toleration(dice: Dice) -> Raw:
    made: Raw = dice.maybe(0.8, key=dice.choice(TAINT_KEYS))
    if made and dice.chance(0.5):
        made |= {"operator": "Equal", "value": dice.pick("yes", "no")}
    else:
        made["operator"] = "Exists"
    made |= dice.maybe(0.5, effect=dice.pick("NoSchedule", "NoExecute"))
    if made.get("effect") == "NoExecute":
        made |= dice.maybe(0.4, tolerationSeconds=300)
    return made


# --- claims that are allocated already


def _busy_claims(dice: Dice, scene: Scene, pods: list[Raw]) -> list[Raw]:
    made = []
    for i in range(dice.randint(0, 4)):
        claim = _claim(dice, Scene(scene.nodes, scene.slices, _without_groups(scene)), f"busy{i}")
        users = [identified(pod) for pod in dice.some(pods, 1)]
        devices.allocate(dice, claim, scene.slices, scene.taken, users)
        if "capacity" in scene.themes:
            _share(dice, scene, claim)
        for user in users:
            use_claims(dice, user, [f"busy{i}"])
        made.append(claim)
    return made


def _without_groups(scene: Scene) -> tuple[str, ...]:
    return tuple(theme for theme in scene.themes if theme not in ("constraints", "alternatives"))


def _share(dice: Dice, scene: Scene, claim: Raw) -> None:
    """Give a claim without devices a share of one."""
    found = [
        (piece["spec"], device)
        for piece in scene.slices
        for device in piece["spec"].get("devices", ())
        if device.get("allowMultipleAllocations") and piece["spec"].get("nodeName")
    ]
    if "status" in claim or not found:
        return
    spec, device = dice.choice(found)
    uid = f"00000000-0000-4000-8000-0000000000{dice.randint(10, 99)}"
    result = {
        "request": claim["spec"]["devices"]["requests"][0]["name"], "driver": spec["driver"],
        "pool": spec["pool"]["name"], "device": device["name"], "shareID": uid,
        "consumedCapacity": {"memory": dice.pick("1Gi", "2Gi", "6Gi")},
    }  # fmt: skip
    claim["status"] = {"allocation": {"devices": {"results": [result]}}}


def _allocate_with_conditions(dice: Dice, scene: Scene, claim: Raw, pod: Raw) -> None:
    """Allocate the pod's claim; its devices are ready, wait, have failed or took too long."""
    devices.allocate(dice, claim, scene.slices, scene.taken, [pod] if dice.chance(0.6) else [])
    if "status" not in claim:
        return
    allocation = claim["status"]["allocation"]
    allocation |= dice.maybe(
        0.8, allocationTimestamp=dice.pick("2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z")
    )
    statuses: list[Raw] = []
    for result in allocation["devices"]["results"]:
        if dice.chance(0.8):
            result["bindingConditions"] = ["ready"]
            # kube-scheduler does not see the failure of a device after one that is not ready.
            result["bindingFailureConditions"] = ["later" if statuses else "failed"]
        conditions = [
            {"type": kind, "status": dice.pick("True", "True", "False", "Unknown"), "reason": "R",
             "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            for kind in dice.some(("ready", "failed"), 2)
        ]  # fmt: skip
        identity = {key: result[key] for key in ("driver", "pool", "device")}
        statuses.append(identity | ({"conditions": conditions} if conditions else {}))
    if dice.chance(0.8):
        claim["status"]["devices"] = statuses
