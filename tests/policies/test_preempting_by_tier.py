"""Preemption and the order of units: better tiers first, and preemption before the next unit."""

import pytest

from holdfast.scheduling.engine.preparation import prepare_in_steps
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing import typed
from policies.objects import (
    WEB,
    classes,
    create_each,
    edit_policy,
    node_of,
    pod,
    policy,
)


def low(name, **more):
    return pod(name, priority_class_name="low", stops_after=20, **more)


def high(name="x", **more):
    return pod(name, priority_class_name="high", **more)


async def fill(cluster, *nodes, cpu="8"):
    """Fill nodes with one pod each of low priority, outside of the group."""
    await create_each(cluster, *(low(f"on-{n}", app="other", cpu=cpu, node=n) for n in nodes))


async def nominated(cluster, name="x"):
    return (await cluster.pod(name, WEB)).status.nominated_node_name


@pytest.mark.parametrize("order", [("a1", "a2", "b1", "b2", "c1"), ("c1", "b2", "b1", "a2", "a1")])
async def test_of_equal_candidates_one_in_the_better_unit_is_chosen(cluster, order):
    """The victims differ only in their start: upstream would choose the latest."""
    await cluster.create(*classes(low=1, high=1000), policy())
    for n in order:
        await fill(cluster, n)
        await cluster.advance(2)
    await cluster.create(high())
    assert (await nominated(cluster))[0] == "a"


async def test_a_candidate_with_fewer_victims_wins_over_a_better_unit(cluster):
    await cluster.create(*classes(low=1, high=1000), policy())
    await fill(cluster, "b1", "b2", "c1")
    for n in ("a1", "a2"):
        await create_each(
            cluster, *(low(f"{i}-on-{n}", app="other", cpu="4", node=n) for i in range(2))
        )
    await cluster.create(high(cpu="8"))
    assert (await nominated(cluster))[0] == "b"


async def test_a_waiting_pod_is_placed_when_the_policy_no_longer_wants_preemption(cluster):
    await cluster.create(*classes(low=1, high=1000), policy(preempt_policy="BeforeNextUnit"))
    await fill(cluster, "a1", "a2")
    await cluster.create(high())
    assert (await nominated(cluster))[0] == "a"
    await cluster.advance(3)
    assert await node_of(cluster, "x") == ""
    await edit_policy(cluster, preemptPolicy="AfterAllUnits")
    await cluster.advance(2)
    assert (await node_of(cluster, "x"))[0] == "b"


@pytest.mark.parametrize("policy_of_preemption", ["BeforeNextUnit", "AfterAllUnits"])
async def test_preemption_of_a_pod_that_fits_in_a_lower_unit_is_prepared(
    cluster, policy_of_preemption
):
    await cluster.create(*classes(low=1, high=1000), policy(preempt_policy=policy_of_preemption))
    await fill(cluster, "a1", "a2")
    raw = high()
    raw["spec"]["priority"] = 1000
    pod, profile = cluster.world.pod_info(typed(raw)), default_profiles()["default-scheduler"]
    steps = [*prepare_in_steps(profile, pod, cluster.world, cluster.clock.now())]
    assert bool(steps) is (policy_of_preemption == "BeforeNextUnit")


async def test_pods_without_a_policy_are_not_concerned(cluster):
    await cluster.create(*classes(low=1, high=1000), policy())
    for n in ("a1", "a2", "b1", "b2", "c1"):
        await fill(cluster, n)
        await cluster.advance(2)
    await cluster.create(high(app="other"))
    assert await nominated(cluster) == "c1"
    assert await node_of(cluster, "x") == ""
