"""Preemption with the limits of the plugin finds what it finds by trying every node."""

from random import Random

import msgspec
import numpy as np

from holdfast.scheduling.engine.decision import decide
from holdfast.scheduling.engine.post_filter import run_post_filter_plugins
from holdfast.scheduling.engine.profile import PluginEntry, build_profile
from holdfast.scheduling.framework.plugin import PreemptionRules
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.scheduling.plugins import REGISTRY
from holdfast.scheduling.plugins.resource_policy import ResourcePolicyPlugin
from holdfast.scheduling.plugins.resource_policy.plan import PolicyPlan
from policies.random_policies import PolicyCluster
from soak_size import SEED, rounds

NEEDED = ("NodeResourcesFit", "DefaultPreemption", "DefaultBinder")


class WithoutLimits(PolicyPlan):
    """The plan without limits."""

    pod_limits = PreemptionRules.pod_limits
    pod_limits_in_sets = PreemptionRules.pod_limits_in_sets


class TriesEveryNode(ResourcePolicyPlugin):
    """The plugin whose plans have no limits."""

    plan_classes = (WithoutLimits,)

    def pre_filter(self, pod, view):
        plan = super().pre_filter(pod, view)
        if isinstance(plan, PolicyPlan):
            plan.__class__ = WithoutLimits
            assert plan.pod_limits() is None
        return plan


def a_profile(plugin):
    entries = [entry for entry in REGISTRY if entry.name in NEEDED]
    return build_profile("test", [*entries, PluginEntry(plugin, "resourcepolicy")])


def preemptor(cluster):
    """Return a pod of high priority that a policy may select."""
    while True:
        found = cluster.a_waiting_pod()
        if found.namespace == "default" and not found.spec.volumes:
            spec = msgspec.structs.replace(found.spec, priority=500)
            return msgspec.structs.replace(found, spec=spec)


def attempt(profile, world, pod):
    """Return what preemption does for a pod, or None if the pod fits somewhere."""
    pod_info = world.pod_info(pod)
    found = decide(profile, profile.view(pod_info, world, 10.0**9), np.random.default_rng(0))
    if not isinstance(found, Rejection):
        return None
    result = run_post_filter_plugins(profile, found, world, 10.0**9)
    victims = sorted(victim.name for victim in result.victims)
    candidates = {(c.node, tuple(v.name for v in c.victims)) for c in result.candidates}
    return result.nominated_node, victims, candidates, result.message


def nominate(cluster, pod):
    """Nominate another pod to a node, so that it counts there and in the units of the node."""
    name = f"nominated-{cluster.random.randrange(3)}"
    meta = msgspec.structs.replace(pod.metadata, name=name, uid=name)
    status = msgspec.structs.replace(
        pod.status, nominated_node_name=cluster.random.choice(sorted(cluster.nodes))
    )
    cluster.world.upsert(msgspec.structs.replace(pod, metadata=meta, status=status))


def test_limits_find_the_same_victims_and_reasons():
    limited, trying = a_profile(ResourcePolicyPlugin), a_profile(TriesEveryNode)
    helped = failed = with_nominated = 0
    for number in range(rounds(12)):
        cluster = PolicyCluster(Random(SEED * 1000 + number), nodes=6)
        waiting = [preemptor(cluster) for _ in range(6)]
        for _ in range(50):
            cluster.step()
            if cluster.random.random() < 0.2:
                nominate(cluster, cluster.random.choice(waiting))
            pod = cluster.random.choice(waiting)
            expected = attempt(trying, cluster.world, pod)
            assert attempt(limited, cluster.world, pod) == expected
            if expected is not None:
                helped += bool(expected[0])
                failed += not expected[0]
                with_nominated += bool(cluster.world.nominations)
    assert helped and failed and with_nominated, (helped, failed, with_nominated)
