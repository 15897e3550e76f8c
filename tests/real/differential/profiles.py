"""Random scheduler configurations: strategies, weights, arguments, disabled plugins."""

from __future__ import annotations

from real.differential.dice import Dice, Raw
from real.differential.nodes import HOST, RACK, ZONE, ZONES
from real.differential.pods import PREFERRED, REQUIRED

SCORING = ("TaintToleration", "NodeAffinity", "NodeResourcesFit", "PodTopologySpread",
           "InterPodAffinity", "NodeResourcesBalancedAllocation", "ImageLocality")  # fmt: skip
FILTERING = ("NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts",
             "PodTopologySpread", "InterPodAffinity", "NodeDeclaredFeatures")  # fmt: skip
RESOURCES = ("cpu", "memory", "ephemeral-storage", "example.com/gpu", "example.com/nic")


def a_configuration(dice: Dice) -> Raw:
    """Return a configuration with one profile that both schedulers accept."""
    profile: Raw = {"schedulerName": "default-scheduler"}
    if plugins := _plugins(dice):
        profile["plugins"] = plugins
    if arguments := _arguments(dice):
        profile["pluginConfig"] = [{"name": name, "args": args} for name, args in arguments.items()]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }  # fmt: skip


def _plugins(dice: Dice) -> Raw:
    made: Raw = {}
    if dice.chance(0.4):
        heavy = dice.some(SCORING, 3)
        made["multiPoint"] = {
            "enabled": [{"name": name, "weight": dice.randint(1, 10)} for name in heavy]
        }
    if dice.chance(0.3):
        # Not NodeAffinity: kube-scheduler then still parses preferred terms and may fail on an
        # invalid one; Holdfast does not parse terms that are not scored (docs/configuration.md).
        off = dice.some([name for name in SCORING if name != "NodeAffinity"], 2)
        made["score"] = {"disabled": [{"name": name} for name in off]}
    if dice.chance(0.3):
        made["filter"] = {"disabled": [{"name": name} for name in dice.some(FILTERING, 2)]}
    return made


def _arguments(dice: Dice) -> dict[str, Raw]:
    made: dict[str, Raw] = {}
    if dice.chance(0.7):
        made["NodeResourcesFit"] = _fit(dice)
    if dice.chance(0.3):
        # kube-scheduler crashes here on extended resources that are served by devices.
        named = dice.some(RESOURCES[:3]) or ["cpu"]
        made["NodeResourcesBalancedAllocation"] = {
            "resources": [{"name": name, "weight": 1} for name in named]
        }
    if dice.chance(0.3):
        made["InterPodAffinity"] = {
            "hardPodAffinityWeight": dice.pick(0, 1, 7, 100),
            "ignorePreferredTermsOfExistingPods": dice.pick(True, False),
        }
    if dice.chance(0.4):
        made["PodTopologySpread"] = {
            "defaultingType": "List", "defaultConstraints": _default_constraints(dice)
        }  # fmt: skip
    if dice.chance(0.3):
        made["NodeAffinity"] = {"addedAffinity": _added_affinity(dice)}
    return made


def _fit(dice: Dice) -> Raw:
    made: Raw = {}
    if dice.chance(0.85):
        kind = dice.pick("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
        named = dice.some(RESOURCES) or ["memory"]
        strategy: Raw = {
            "type": kind,
            "resources": [{"name": name, "weight": dice.randint(1, 5)} for name in named],
        }
        if kind == "RequestedToCapacityRatio":
            points = sorted(dice.sample(range(101), dice.randint(1, 4)))
            shape = [{"utilization": at, "score": dice.randint(0, 10)} for at in points]
            strategy["requestedToCapacityRatio"] = {"shape": shape}
        made["scoringStrategy"] = strategy
    if dice.chance(0.2):
        made["ignoredResources"] = ["example.com/nic"]
    if dice.chance(0.2):
        made["ignoredResourceGroups"] = ["example.com"]
    return made


def _default_constraints(dice: Dice) -> list[Raw]:
    made = {}
    for _ in range(dice.randint(0, 3)):
        key, when = dice.pick(ZONE, HOST, RACK), dice.pick("DoNotSchedule", "ScheduleAnyway")
        made[key, when] = {
            "maxSkew": dice.randint(1, 3), "topologyKey": key, "whenUnsatisfiable": when
        }  # fmt: skip
    return list(made.values())


def _added_affinity(dice: Dice) -> Raw:
    within = [{"key": ZONE, "operator": "In", "values": list(ZONES[:2])}]
    made: Raw = {}
    if dice.chance(0.5):
        made[REQUIRED] = {"nodeSelectorTerms": [{"matchExpressions": within}]}
    if dice.chance(0.6) or not made:
        wish = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
        made[PREFERRED] = [{"weight": dice.randint(1, 100), "preference": wish}]
    return made
