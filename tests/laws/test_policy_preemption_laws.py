"""Preemption with resource policies equals the simple reference, tier by tier where that is wanted.

Units have caps, pods are nominated to nodes of units, and some policies prefer preemption to nodes
of the next unit.
"""

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from holdfast.api.resource_policy import NEXT_UNITS_POLICIES
from holdfast.scheduling.engine.audit import Auditor
from holdfast.scheduling.engine.decision import feasible
from holdfast.scheduling.engine.feasible_rows import Feasible
from holdfast.scheduling.engine.post_filter import (
    preempt_in_better_tiers,
    run_post_filter_plugins_by_tier,
)
from holdfast.scheduling.engine.rejections import reject_by_row
from holdfast.scheduling.framework.plugin import Code
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing import a_node, a_pod, a_resource_policy, a_unit, typed
from holdfast.testing.reference_preemption import preempt
from soak_size import law

LAW = law(20)
NOW = 1_700_000_000.0
PROFILE = default_profiles()["default-scheduler"]
ZONES = "abcd"


def random_world(random):
    """Few nodes in up to four zones, nearly full, and a policy with units of zones and disks."""
    world, pick = World(), random.choice
    for i in range(random.randrange(2, 7)):
        labels = {"zone": pick(ZONES), "disk": pick(["hdd", "ssd"])}
        world.upsert(typed(a_node(f"n{i}", cpu="4", labels=labels)))
    places = [{"zone": zone} for zone in random.sample(ZONES, random.randrange(1, 4))]
    places += [{"disk": "ssd"}] if random.random() < 0.3 else []
    units = [
        a_unit(
            f"unit-{i}",
            random.randrange(4),
            nodes=place,
            max_count=pick([None, 1, 2]),
            max_resources=pick([None, None, {"cpu": "3"}]),
        )
        for i, place in enumerate(places)
    ]
    policy = a_resource_policy(
        "web",
        pods={"app": "web"},
        units=units,
        strategy=pick(["prefer", "required"]),
        preempt_policy=pick(["AfterAllUnits", "BeforeNextUnit", "BeforeNextUnit"]),
        when_try_next_units=pick([None, None, *NEXT_UNITS_POLICIES]),
        match_policy={"ignoreTerminatingPod": pick([True, False])},
    )
    world.upsert(typed(policy))
    for i in range(random.randrange(4, 14)):
        pod = a_pod(
            f"b{i}",
            cpu=pick(["1", "2", "3"]),
            labels={"app": pick(["web", "other"])},
            node=pick([*world.nodes.row_of]),
            priority=pick([0, 0, 5, 100]),
            status={"startTime": f"2023-11-14T0{random.randrange(3)}:00:00Z"},
            metadata={"deletionTimestamp": pick([None, None, None, "2023-11-14T22:13:20Z"])},
        )
        world.upsert(typed(pod))
    for i in range(pick([0, 0, 1, 2])):
        pod = a_pod(f"y{i}", labels={"app": "web"}, priority=pick([5, 10, 100]))
        world.nominations.set(world.pod_info(typed(pod)), pick([*world.nodes.row_of]))
    return world


def tiers_of(world, policy):
    """Return the tier of each node by the policy, without the plugin's arrays."""
    priorities = {
        name: max(
            [
                u.priority
                for u in policy.units
                if u.selector.matches(world.nodes.nodes[row].metadata.labels)
            ],
            default=-1,
        )
        for name, row in world.nodes.row_of.items()
    }
    order = sorted(set(priorities.values()), reverse=True)
    return {name: order.index(priority) for name, priority in priorities.items()}


def only(rejection, world, nodes):
    """Return the rejection of these nodes alone."""
    codes = np.zeros_like(rejection.codes)
    rows = [world.nodes.row_of[name] for name in nodes]
    codes[rows] = rejection.codes[rows]
    return replace(rejection, codes=codes)


def expected_by_tier(rejection, view, tiers, end):
    """Return the best nodes of the first tier before ``end`` in which preemption helps."""
    for tier in range(end):
        names = [name for name, of_node in tiers.items() if of_node == tier]
        found = preempt(only(rejection, view.world, names), view)
        if found.best:
            return set(found.best)
    return set()


def check(seed):
    random = Random(seed)
    world = random_world(random)
    world.auditor = Auditor(world)
    pod = a_pod("x", cpu=random.choice(["1", "3"]), labels={"app": "web"}, priority=10)
    info = world.pod_info(typed(pod))
    view = View(world, info, NOW)
    [policy] = world.policies.governing(info)
    tiers = tiers_of(world, policy)
    found = feasible(PROFILE, PROFILE.view(info, world, NOW))
    if isinstance(found, Rejection):
        return check_rejection(found, view, tiers, policy)
    decided = preempt_in_better_tiers(PROFILE, found, NOW)
    world.auditor.raise_faults()
    if not policy.preempts_before_next_unit:
        assert decided is None
        return "after all"
    best = min(tiers[world.nodes.names[row]] for row in found.rows.tolist())
    whole = reject_by_row(view, found.outcomes, found.statuses)
    assert isinstance(found, Feasible)
    nodes = expected_by_tier(whole, view, tiers, best)
    assert (decided is None) is (not nodes)
    if decided is None:
        return "placed"
    assert decided.result.nominated_node in nodes
    assert decided.rejection.nodes == sum(tier < best for tier in tiers.values())
    assert {Code.PASS, Code.UNSCHEDULABLE, Code.UNRESOLVABLE} >= set(
        decided.rejection.codes.tolist()
    )
    return "preempted in a better tier"


def check_rejection(rejection, view, tiers, policy):
    result = run_post_filter_plugins_by_tier(PROFILE, rejection, NOW)
    view.world.auditor.raise_faults()
    wanted = preempt(rejection, view)
    nodes = set(wanted.best)
    if policy.preempts_before_next_unit:
        nodes = expected_by_tier(rejection, view, tiers, len(tiers))
    assert bool(result.nominated_node) is bool(nodes)
    if nodes:
        assert result.nominated_node in nodes
        return "preempted, nowhere feasible"
    assert result.message.endswith(wanted.message)
    return "rejected"


@LAW
@given(st.integers(0, 2**32))
def test_preemption_by_tiers_equals_the_reference(seed):
    check(seed)


def test_the_random_worlds_have_every_outcome():
    outcomes = Counter(check(seed) for seed in range(110))
    assert len(outcomes) == 5, outcomes
    assert min(outcomes.values()) >= 3, outcomes
