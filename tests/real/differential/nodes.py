"""Random nodes."""

from __future__ import annotations

from holdfast.testing import a_node
from real.differential.dice import Dice, Raw

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES = ("eu-w-a", "eu-w-b", "eu-w-c")
REGION, RACK = "topology.kubernetes.io/region", "rack"
FEATURES = ("Other", "RestartAllContainersOnContainerExits")
TAINTS = (
    {"key": "dedicated", "value": "db", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "web", "effect": "NoExecute"},
    {"key": "dedicated", "effect": "NoSchedule"},
    {"key": "slow", "effect": "PreferNoSchedule"},
    {"key": "old", "value": "yes", "effect": "PreferNoSchedule"},
    {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
    {"key": "gen", "value": "5", "effect": "NoSchedule"},
)
IMAGES = (
    (("registry.k8s.io/pause:3.10",), 300 << 20),
    (("docker.io/library/big:1", "docker.io/library/big@sha256:" + "a" * 64), 900 << 20),
    (("busybox:latest",), 40 << 20),
    (("registry.example.com:5000/team/app:v2", "registry.example.com:5000/team/app"), 2100 << 20),
    (("example.com/tiny:1",), 4 << 20),
)


def some_nodes(
    dice: Dice, least: int = 1, most: int = 9, *, plain: bool = False, roomy: bool = False
) -> list[Raw]:
    """Return nodes n0, n1, …; plain ones differ only in labels and size, roomy ones are large."""
    count = dice.randint(least, most)
    return [a_random_node(dice, f"n{i}", plain=plain, roomy=roomy) for i in range(count)]


def a_random_node(dice: Dice, name: str, *, plain: bool = False, roomy: bool = False) -> Raw:
    """Return one node."""
    made = a_node(
        name,
        cpu=dice.pick("32", "64") if roomy else dice.pick("2", "4", "4", "8", "3500m", "16"),
        memory="128Gi" if roomy else dice.pick("4Gi", "8Gi", "16Gi", "7999Mi", "32G"),
        pods="110" if roomy else dice.pick("110", "110", "110", "3", "5"),
        labels=_labels(dice, name),
        allocatable=_more_resources(dice),
    )
    if dice.chance(0.04):
        del made["metadata"]["labels"][HOST]
    if plain:
        return made
    if taints := _taints(dice):
        made["spec"] = {"taints": taints}
    if dice.chance(0.07):
        made.setdefault("spec", {})["unschedulable"] = True
    if dice.chance(0.06):
        amounts = made["status"]["allocatable"]
        amounts[dice.pick("cpu", "memory", "pods")] = "0"
    if dice.chance(0.4):
        made["status"]["images"] = some_images(dice)
    if dice.chance(0.6):
        made["status"]["declaredFeatures"] = sorted(dice.some(FEATURES))
    return made


def _taints(dice: Dice) -> list[Raw]:
    """Return taints, at most one for each key and effect."""
    found = {(t["key"], t["effect"]): dict(t) for t in TAINTS if dice.chance(0.07)}
    return list(found.values())


def _labels(dice: Dice, name: str) -> dict[str, str]:
    labels = {HOST: name}
    if dice.chance(0.85):
        labels[ZONE] = dice.choice(ZONES)
    if dice.chance(0.5):
        labels[REGION] = dice.pick("east", "west")
    if dice.chance(0.5):
        labels[RACK] = dice.pick("r1", "r2", "r3")
    if dice.chance(0.5):
        labels["size"] = dice.pick("1", "5", "10", "big", "007")
    if dice.chance(0.3):
        labels["disk"] = dice.pick("ssd", "hdd", "")
    return labels


def _more_resources(dice: Dice) -> dict[str, str]:
    return {
        **dice.maybe(0.6, **{"ephemeral-storage": dice.pick("20Gi", "100Gi")}),
        **dice.maybe(0.3, **{"hugepages-2Mi": dice.pick("0", "128Mi")}),
        **dice.maybe(0.4, **{"example.com/gpu": dice.pick("0", "1", "4")}),
        **dice.maybe(0.2, **{"example.com/nic": dice.pick("2", "8")}),
    }


def some_images(dice: Dice) -> list[Raw]:
    """Return images of a node; an image has the same size on all nodes."""
    return [{"names": list(names), "sizeBytes": size} for names, size in IMAGES if dice.chance(0.4)]
