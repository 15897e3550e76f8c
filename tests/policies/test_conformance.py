"""The plugin with policies that use every field: the conformance suite, and exact totals."""

from random import Random

import pytest

from holdfast.scheduling.plugins.resource_policy import ResourcePolicyPlugin
from holdfast.state.resource_policies.unit_totals import UnitTotalsCache, amounts_of
from holdfast.testing import conformance
from policies.random_policies import PolicyCluster, selected
from soak_size import SEED, TIMES, rounds


@pytest.mark.parametrize(
    "args",
    [{}, {"order": "Score"}, {"missingMatchLabelKey": "Reject", "reservations": "First"}],
    ids=str,
)
def test_the_plugin_conforms(monkeypatch, args):
    monkeypatch.setattr(conformance, "RandomCluster", PolicyCluster)
    conformance.check_plugin(
        lambda: ResourcePolicyPlugin(args), pods=selected, seed=SEED, clusters=rounds(2), steps=40
    )


def test_the_plugin_conforms_on_many_nodes(monkeypatch):
    monkeypatch.setattr(conformance, "RandomCluster", PolicyCluster)
    conformance.check_plugin(
        ResourcePolicyPlugin, pods=selected, seed=SEED + 1, clusters=TIMES, steps=12, nodes=100
    )


def test_totals_of_units_equal_a_recount_of_all_pods():
    """Over assumed, confirmed, forgotten, resized and relabelled pods, nodes and policies."""
    for number in range(rounds(10)):
        cluster = PolicyCluster(Random(SEED * 1000 + number), nodes=6)
        cache = UnitTotalsCache(cluster.world.nodes)
        seen = 0
        for _ in range(80):
            cluster.step()
            for policy in cluster.world.policies:
                labels = {"app": policy.object.name[-1], "version": cluster.random.choice("12")}
                totals = cache.of(policy, labels)
                totals.refresh()
                expected = recounted(cluster.world, policy, labels, totals)
                assert [unit[: len(expected[0])] for unit in totals.totals] == expected
                seen += sum(unit[0] for unit in expected)
        assert seen, "no pod was counted"


def recounted(world, policy, labels, totals):
    """Count the pods of a group in each unit from the objects alone."""
    group = dict(policy.group_key(labels))
    found = [[0] * (1 + len(totals.resources)) for _ in policy.units]
    for info, row in world.nodes.pods():
        same = group.items() <= info.labels.items()
        if info.is_reserve_pod or not same or not policy.counts_pod(info.pod):
            continue
        for unit in policy.units_of(world.nodes.nodes[row].metadata.labels):
            for i, amount in enumerate((1, *amounts_of(info, totals.resources))):
                found[unit][i] += amount
    return found
