"""Clusters as values, and the moves that policies plan in them."""

from dataclasses import replace

from holdfast.controllers.descheduler.configuration import (
    ConfiguredPolicy,
    DeschedulerConfiguration,
    DeschedulerProfile,
    read,
)
from holdfast.controllers.descheduler.plan import plan_moves
from holdfast.controllers.descheduler.policies import POLICIES
from holdfast.controllers.descheduler.simulation import (
    ClusterObjects,
    Simulation,
    predicting_profiles,
)
from holdfast.runtime.settings import MigrationSettings
from holdfast.testing import a_pod
from holdfast.testing.builders import typed

NOW = 1_700_000_000.0
SETTINGS = MigrationSettings(
    scheduler_names=frozenset(("default-scheduler",)),
    max_per_node=None,
    max_per_workload="100%",
    max_unavailable_per_workload="100%",
    skip_check_expected_replicas=True,
)
"""No limits but those that a test sets."""
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
TAINTS = "RemovePodsViolatingNodeTaints"
SPREAD = "RemovePodsViolatingTopologySpreadConstraint"
DUPLICATES = "RemoveDuplicates"
NO_SCHEDULE = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
ZONE = "topology.kubernetes.io/zone"


def owned(name, node, *, owner="web", kind="ReplicaSet", **pod):
    """Return a pod that a controller has created."""
    reference = {
        "apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": f"uid-{owner}",
        "controller": True,
    }  # fmt: skip
    metadata = {"ownerReferences": [reference], **pod.pop("metadata", {})}
    labels = {"app": owner, **(pod.pop("labels", None) or {})}
    return a_pod(name, node=node, labels=labels, metadata=metadata, status=READY, **pod)


def objects(*raw, local_storage=()):
    """Return the objects that a cycle reads."""
    by_kind = {}
    for each in map(typed, raw):
        by_kind.setdefault(type(each).__name__, []).append(each)
    known = {
        "replicasets": by_kind.pop("ReplicaSet", ()),
        "statefulsets": by_kind.pop("StatefulSet", ()),
        "pods": by_kind.pop("Pod", ()),
        "jobs": by_kind.pop("PodMigrationJob", ()),
    }
    others = [each for listed in by_kind.values() for each in listed]
    return ClusterObjects(others=others, **known, local_storage=frozenset(local_storage))


def configured(*policies, **arguments):
    """Return a configuration with these policies; arguments are raw, by the policy's name."""
    return DeschedulerConfiguration(
        profiles=(DeschedulerProfile(policies=tuple(_configured(p, arguments) for p in policies)),)
    )


def _configured(name, arguments):
    point = "balance" if POLICIES[name].balances else "deschedule"
    found = read({
        "profiles": [{
            "plugins": {point: {"enabled": [{"name": name}]}},
            "pluginConfig": [{"name": name, "args": arguments.get(name, {})}],
        }]
    })  # fmt: skip
    (policy,) = found.profiles[0].policies
    return ConfiguredPolicy(policy.policy, policy.args)


def plan(cluster, configuration, settings=SETTINGS, **changes):
    """Return the planned moves."""
    simulation = Simulation(cluster, replace(settings, **changes), predicting_profiles(), NOW)
    return [move for move in plan_moves(simulation, configuration) if move is not None]


def shown(moves):
    """Return (pod, target) of each move."""
    return [(move.pod.name, move.target) for move in moves]


def spread(skew=1, key=ZONE, when="DoNotSchedule"):
    constraint = {
        "maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": "web"}},
    }  # fmt: skip
    return {"topologySpreadConstraints": [constraint]}
