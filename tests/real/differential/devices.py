"""Random devices, device classes and resource claims (dynamic resource allocation).

Some cases are not generated, because Holdfast differs on purpose: kube-scheduler's behaviour looks
accidental, and in most of them it allocates a device twice or does not find a free one.

- ``distinctAttribute`` over several devices of one request: it compares each with the latest only.
- Constraints or taints with counters, constraints with shared devices: if it rejects a device
  because of tolerations, attributes or capacity, it keeps what it recorded for that device.
- Counters of two drivers whose pools have the same name: it treats them as one pool.
- A device that failed after one that is not ready yet, in one claim: it waits for the first.
- The implicit resource name of a class whose explicit name another class has, too: it forgets the
  implicit name if the class is not preferred and comes later.
- Slices of one pool that disagree about their number: it reads the number from any one of them.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from holdfast.testing import a_claim, a_device, a_device_class, a_slice
from real.differential.dice import Dice, Raw
from real.differential.nodes import ZONE, ZONES

GPU, NIC = "gpu.example.com", "nic.example.com"
SELECTORS = (
    'device.driver == "gpu.example.com"',
    'device.attributes["gpu.example.com"].model == "a"',
    'device.attributes["gpu.example.com"].model in ["a", "b"]',
    'device.attributes["gpu.example.com"].cores > 4',
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("10Gi")) >= 0',
    'device.attributes["gpu.example.com"].driverVersion.isGreaterThan(semver("1.2.0"))',
    '"gpu.example.com" in device.attributes',
    'has(device.attributes["gpu.example.com"].numa)',
    "true",
)
SAFE = (0, 6, 7, 8)
"""Indices of the selectors that never fail, whatever attributes a device has."""


def some_classes(dice: Dice) -> list[Raw]:
    """Return device classes, some of them with an extended resource name."""
    made = []
    for name, rule in (("gpu", SELECTORS[0]), ("nic", f'device.driver == "{NIC}"'),
                       ("any", "true"), ("big", SELECTORS[4])):  # fmt: skip
        if dice.chance(0.93):
            one = a_device_class(name, selectors=[rule])
            if name in ("gpu", "nic") and dice.chance(0.5):
                resource = dice.pick("example.com/gpu", "example.com/nic")
                one["spec"]["extendedResourceName"] = resource
            stamp = f"2026-01-0{dice.randint(1, 9)}T00:00:00Z"
            one["metadata"]["creationTimestamp"] = stamp
            made.append(one)
    return made


def some_slices(dice: Dice, nodes: Sequence[Raw]) -> list[Raw]:
    """Return slices with devices of single nodes and of many nodes."""
    made = []
    for node in nodes:
        name = node["metadata"]["name"]
        if dice.chance(0.8):
            made += _pool(dice, f"{name}-gpu", GPU, node=name, pool=name)
        if dice.chance(0.4):
            made += _pool(dice, f"{name}-nic", NIC, node=name, pool=name)
    if dice.chance(0.3):
        made += _pool(dice, "everywhere", GPU, node=None, pool="net", all_nodes=True)
    if dice.chance(0.25):
        wanted = [{"key": ZONE, "operator": "In", "values": dice.some(ZONES, 2) or [ZONES[0]]}]
        selector = {"nodeSelectorTerms": [{"matchExpressions": wanted}]}
        made += _pool(dice, "zonal", GPU, node=None, pool="zonal", node_selector=selector)
    if nodes and dice.chance(0.2):
        made += _pool_of_nodes(dice, [node["metadata"]["name"] for node in nodes])
    return made


def _pool_of_nodes(dice: Dice, names: Sequence[str]) -> list[Raw]:
    """Return a pool with devices of several nodes that consume the same counters."""
    chosen = dice.some(names, 3) or [names[0]]
    total, count = dice.pick("4", "8"), len(chosen) + 1
    where: Raw = dice.pick({"node": chosen[0]}, {"node": None, "all_nodes": True})
    counters = a_slice("fabric", driver=GPU, pool="fabric", devices=[], slices=count, **where)
    del counters["spec"]["devices"]
    counters["spec"]["sharedCounters"] = [{"name": "set", "counters": {"units": {"value": total}}}]
    made = [counters]
    for name in chosen:
        amounts = [dice.pick("1", "2", "4") for _ in range(dice.randint(1, 3))]
        devices = [
            a_device(
                f"{name}-{i}",
                consumesCounters=[{"counterSet": "set", "counters": {"units": {"value": amount}}}],
            )
            for i, amount in enumerate(amounts)
        ]
        one = a_slice(
            f"fabric-{name}", driver=GPU, node=name, pool="fabric", devices=devices, slices=count
        )
        made.append(one)
    if dice.chance(0.1):
        made.remove(dice.choice(made))  # not published yet
    return made


def are_shared(slices: Sequence[Raw]) -> bool:
    """Return whether devices share counters or may be shared by claims."""
    every = [device for s in slices for device in s["spec"].get("devices", ())]
    counters = any("sharedCounters" in s["spec"] for s in slices)
    return counters or any(device.get("allowMultipleAllocations") for device in every)


def a_leftover(pod: Raw) -> Raw:
    """Return the special claim of an earlier attempt to schedule a pod with extended resources."""
    meta = pod["metadata"]
    claim = a_claim("leftover", namespace=meta["namespace"])
    claim["metadata"]["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
    owned_by(claim, pod)
    return claim


def _pool(dice: Dice, name: str, driver: str, **fields: Any) -> list[Raw]:
    devices = [_device(dice, f"d{i}", driver) for i in range(dice.randint(1, 4))]
    slices = 1
    if dice.chance(0.05):
        slices = 2  # one of them is not published yet
    made = [a_slice(name, driver=driver, devices=devices, slices=slices, **fields)]
    if dice.chance(0.06):
        made += second_slice(dice, made[0], name)
    if dice.chance(0.05):
        _part_by_node(dice, made[0])
    if len(made) == 1 and dice.chance(0.15) and slices == 1 and driver == GPU:
        _partition(dice, made, name, driver, fields)
    return made


def second_slice(dice: Dice, first: Raw, name: str) -> list[Raw]:
    """Return another slice of the pool: its rest, another generation, or duplicate devices."""
    spec = first["spec"]
    more = copy.deepcopy(first)
    more["metadata"]["name"] = f"{name}-more"
    kind = dice.pick("rest", "rest", "older", "newer", "twice")
    if kind != "twice":
        for device in more["spec"]["devices"]:
            device["name"] += "-more"
    if kind in ("rest", "twice"):
        spec["pool"]["resourceSliceCount"] = more["spec"]["pool"]["resourceSliceCount"] = 2
    else:
        more["spec"]["pool"]["generation"] = 0 if kind == "older" else 2
    return [more]


def _part_by_node(dice: Dice, piece: Raw) -> None:
    """Move the node selection of a slice to its devices."""
    spec = piece["spec"]
    for key in ("nodeName", "allNodes", "nodeSelector"):
        spec.pop(key, None)
    spec["perDeviceNodeSelection"] = True
    for device in spec["devices"]:
        device |= dice.pick({"nodeName": "n0"}, {"nodeName": "n1"}, {"allNodes": True})


def _partition(dice: Dice, made: list[Raw], name: str, driver: str, fields: Raw) -> None:
    """Let the devices consume shared counters, which are in a separate slice."""
    total = dice.pick("4", "8")
    counters = [{"name": "set", "counters": {"units": {"value": total}}}]
    one = a_slice(f"{name}-counters", driver=driver, devices=[], **fields)
    del one["spec"]["devices"]
    one["spec"]["sharedCounters"] = counters
    made.append(one)
    for piece in made:
        piece["spec"]["pool"]["resourceSliceCount"] = 2
        for device in piece["spec"].get("devices", ()):
            device.pop("taints", None)
            if dice.chance(0.8) and not device.get("allowMultipleAllocations"):
                amount = {"units": {"value": dice.pick("1", "2", "4")}}
                device["consumesCounters"] = [{"counterSet": "set", "counters": amount}]


def _device(dice: Dice, name: str, driver: str) -> Raw:
    attributes: Raw = {}
    if dice.chance(0.9):
        attributes["model"] = dice.pick("a", "b", "c")
    if dice.chance(0.8):
        attributes["cores"] = dice.pick(2, 4, 8)
    if dice.chance(0.5):
        attributes["numa"] = dice.pick(0, 1)
    if dice.chance(0.6):
        attributes["driverVersion"] = {"version": dice.pick("1.0.0", "1.2.0", "2.0.1")}
    capacity: Raw = {"memory": dice.pick("8Gi", "16Gi")} if dice.chance(0.8) else {}
    made = a_device(name, attributes=attributes, capacity=capacity)
    if dice.chance(0.1):
        effect = dice.pick("NoSchedule", "NoExecute", "None")
        made["taints"] = [{"key": "broken", "effect": effect, "value": "yes",
                           "timeAdded": "2026-01-01T00:00:00Z"}]  # fmt: skip
    if dice.chance(0.04):
        made["allowMultipleAllocations"] = True
        if capacity and dice.chance(0.6):
            policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
            made["capacity"]["memory"]["requestPolicy"] = policy
    return made


# --- claims


def a_random_claim(
    dice: Dice, name: str, namespace: str, *, safe: bool = True, constrained: bool = True
) -> Raw:
    """Return a claim with one or two requests."""
    requests = [_request(dice, f"r{i}", safe=safe) for i in range(dice.pick(1, 1, 1, 2))]
    constraints = []
    if constrained and dice.chance(0.2):
        kind = dice.pick("matchAttribute", "matchAttribute", "distinctAttribute")
        constraint: Raw = {kind: f"{GPU}/{dice.pick('model', 'numa')}"}
        constraint |= dice.maybe(0.4, requests=["r0"])
        constraints.append(constraint)
        if kind == "distinctAttribute":
            ask_for_single_devices(requests)
    return a_claim(name, namespace=namespace, requests=requests, constraints=constraints,
                   metadata={"uid": f"claim-{namespace}-{name}"})  # fmt: skip


def ask_for_single_devices(requests: Sequence[Raw]) -> None:
    """Change requests to one device each."""
    for request in requests:
        for body in (request.get("exactly"), *request.get("firstAvailable", ())):
            if body is not None:
                body.pop("allocationMode", None)
                body.pop("count", None)


def _request(dice: Dice, name: str, *, safe: bool) -> Raw:
    if dice.chance(0.15):
        subs = [{"name": f"s{i}", **_exactly(dice, safe=safe)} for i in range(dice.randint(1, 3))]
        return {"name": name, "firstAvailable": subs}
    exactly = _exactly(dice, safe=safe)
    return {"name": name, "exactly": exactly | dice.maybe(0.06, adminAccess=True)}


def _exactly(dice: Dice, *, safe: bool) -> Raw:
    made: Raw = {"deviceClassName": dice.pick("gpu", "gpu", "gpu", "nic", "any", "gone")}
    if made["deviceClassName"] == "gone" and dice.chance(0.7):
        made["deviceClassName"] = "gpu"
    if dice.chance(0.12):
        made["allocationMode"] = "All"
    elif dice.chance(0.5):
        made |= {"allocationMode": "ExactCount", "count": dice.pick(1, 2, 3)}
    if dice.chance(0.35):
        choice = SELECTORS[dice.choice(SAFE)] if safe else dice.choice(SELECTORS)
        made["selectors"] = [{"cel": {"expression": choice}}]
    if dice.chance(0.15):
        broken = {"key": "broken", "operator": "Exists"}
        made["tolerations"] = [dice.pick(broken, {"operator": "Exists", "effect": "NoSchedule"})]
    if dice.chance(0.1):
        made["capacity"] = {"requests": {"memory": dice.pick("1Gi", "9Gi", "20Gi")}}
    return made


def use_claims(dice: Dice, pod: Raw, claims: Sequence[str]) -> None:
    """Let a pod use claims by name, sometimes one generated from a template."""
    entries: list[Raw] = [{"name": f"use-{c}", "resourceClaimName": c} for c in claims]
    statuses = []
    for entry in entries:
        if dice.chance(0.1):
            del entry["resourceClaimName"]
            entry["resourceClaimTemplateName"] = "template"
            if dice.chance(0.8):
                name = entry["name"].removeprefix("use-")
                statuses.append({"name": entry["name"], "resourceClaimName": name})
    pod["spec"]["resourceClaims"] = entries
    uses = [{"name": entry["name"]} for entry in entries]
    pod["spec"]["containers"][0].setdefault("resources", {})["claims"] = uses
    if statuses:
        pod.setdefault("status", {})["resourceClaimStatuses"] = statuses


def owned_by(claim: Raw, pod: Raw) -> None:
    """Make a pod the controller of a claim."""
    meta = pod["metadata"]
    claim["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"],
         "controller": True}
    ]  # fmt: skip


def allocate(
    dice: Dice, claim: Raw, slices: Sequence[Raw], taken: set[Any], users: list[Raw]
) -> None:
    """Allocate free devices of one slice to a claim, if there are enough."""
    local = [s for s in slices if s["spec"].get("devices")]
    if not local:
        return
    chosen = dice.choice(local)["spec"]
    node = chosen.get("nodeName")
    results = []
    for request in claim["spec"]["devices"]["requests"]:
        free = [d for d in chosen["devices"]
                if (chosen["driver"], chosen["pool"]["name"], d["name"]) not in taken
                and not d.get("allowMultipleAllocations")]  # fmt: skip
        if not free:
            return
        device = dice.choice(free)["name"]
        taken.add((chosen["driver"], chosen["pool"]["name"], device))
        name = request["name"]
        if "firstAvailable" in request:
            name += "/" + request["firstAvailable"][0]["name"]
        admin = {"adminAccess": True} if request.get("exactly", {}).get("adminAccess") else {}
        results.append({"request": name, "driver": chosen["driver"], "device": device,
                        "pool": chosen["pool"]["name"], **admin})  # fmt: skip
    allocation: Raw = {"devices": {"results": results}}
    if node:
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    elif "nodeSelector" in chosen:
        allocation["nodeSelector"] = chosen["nodeSelector"]
    claim["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    claim["status"] = {"allocation": allocation}
    if users:
        claim["status"]["reservedFor"] = [
            {"resource": "pods", "name": u["metadata"]["name"], "uid": u["metadata"]["uid"]}
            for u in users
        ]
