"""Invariants hold through random events, faults and restarts; an idle cluster is consistent."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.api.reservation import Reservation
from holdfast.scheduling.configuration.reading import Configuration
from holdfast.scheduling.engine.invariants import check_invariants
from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.scheduler.cycle import SchedulingFailure, unreserve_and_forget
from holdfast.testing.harness import Harness
from laws import random_worlds as worlds
from laws.cluster_audit import broken_promises, take_census
from laws.cluster_steps import Life, Network
from laws.cluster_truth import left_waiting, stale_statuses, wrong_phases, wrong_sizes
from laws.decided_worlds import (
    PROFILE,
    RESERVING_PROFILE,
    confirmed,
    edit,
    inherited,
    requested,
    the_world,
    told,
    tried,
)
from laws.deletion_cost_recount import CostRecount
from laws.ledger_shape import rebuilt, shape_of
from soak_size import SEED, law, rounds

_SEEDS = os.environ.get("HOLDFAST_SEEDS", f"{SEED}:{SEED + rounds(2)}")
SEEDS = range(*map(int, _SEEDS.split(":")))
"""Use other seeds: ``HOLDFAST_SEEDS=1000:1100 pytest tests/laws/test_promises.py``."""
STEPS = 30
LONG_ENOUGH = 400.0
"""Seconds after which every unschedulable pod has been tried again."""


@pytest.mark.parametrize("seed", SEEDS)
async def test_invariants_hold_through_faults_and_restarts(tmp_path, seed, repeatable):
    network = Network(seed)
    profile = RESERVING_PROFILE if seed % 2 else PROFILE
    configuration = Configuration({"default-scheduler": profile})
    async with Harness(
        tmp_path, wrap=network.wrap, seed=seed, configuration=configuration
    ) as cluster:
        life, nodes_of = Life(cluster, seed), {}
        try:
            await life.begin()
            for _ in range(STEPS):
                await life.step()
                await audit(cluster, nodes_of)
            network.heal()
            await cluster.advance(LONG_ENOUGH)
            await audit(cluster, nodes_of)
            await check_idle_cluster(cluster)
        except AssertionError as broken:
            broken.add_note("\n".join([*life.log, *map(str, network.injected_faults[-12:])]))
            raise


async def audit(cluster, nodes_of):
    census = await take_census(cluster.client)
    broken = broken_promises(census)
    assert not broken, broken
    for pod in census.pods:
        if pod.spec.node_name:
            known = nodes_of.setdefault(pod.uid, pod.spec.node_name)
            assert known == pod.spec.node_name, f"{pod.name} moved"


async def check_idle_cluster(cluster):
    """Statuses are right, all pods that fit are placed, and a new world equals the old one."""
    census = await take_census(cluster.client)
    now = cluster.clock.now()
    costs = await CostRecount.of(cluster.client)
    faults = [
        *stale_statuses(census), *wrong_phases(census, now), *wrong_sizes(census),
        *left_waiting(census), *costs.wrong_costs({}, drain_excess=False), *costs.wrong_statuses(),
    ]  # fmt: skip
    assert not faults, faults
    assert shape_of(cluster.world) == shape_of(await rebuilt(cluster.client))


@law(40)
@given(
    objects=worlds.clusters(),
    asking=st.one_of(worlds.pods("asking"), worlds.reservations("asking")),
)
def test_reserve_and_unreserve_change_nothing(objects, asking):
    world = the_world(objects)
    if isinstance(asking, Reservation):
        world.upsert(asking)
    before = shape_of(world)
    outcome = tried(world, asking)
    if isinstance(outcome, Placement):
        assert shape_of(world) != before
        unreserve_and_forget(PROFILE, world, outcome)
    assert shape_of(world) == before


@law(40)
@given(data=st.data(), objects=worlds.clusters())
def test_events_in_any_order_make_the_same_world(data, objects):
    expected = shape_of(the_world(objects))
    world = the_world(data.draw(st.permutations(objects)))
    for detour in data.draw(st.lists(st.sampled_from(objects), max_size=4)):
        world.delete(detour)
        world.upsert(detour)
    assert shape_of(world) == expected


deeds = st.lists(
    st.one_of(
        worlds.pods("p").map(lambda pod: ("try", pod)),
        worlds.reservations("r").map(lambda reservation: ("try", reservation)),
        st.integers(0, 30).map(lambda number: ("gone", number)),
        st.tuples(st.just("edit"), st.tuples(st.integers(0, 30), worlds.edits)),
    ),
    min_size=4,
    max_size=14,
)


@law(30)
@given(there=st.tuples(*map(worlds.nodes, worlds.NODES)), deeds=deeds)
def test_invariants_hold_after_every_decision_and_confirming_changes_nothing(there, deeds):
    world, living = the_world(there), []
    for number, (deed, what) in enumerate(deeds):
        if deed == "gone":
            if living:
                world.delete(living.pop(what % len(living)))
        elif deed == "edit":
            edit(world, living, *what)
        else:
            asking = worlds.renamed(what, f"{what.name}{number}")
            outcome = tried(world, asking)
            if isinstance(outcome, SchedulingFailure):
                assert not outcome.error, outcome.message
                continue
            check_invariants(world)
            assumed = requested(world)
            stored = confirmed(asking, outcome)
            world.upsert(stored)
            living.append(stored)
            for pod in told(living, outcome):
                world.upsert(pod)
            # Resources that pods still use count once from now on; test_heirs checks how much.
            assert inherited(outcome).pods or requested(world) == assumed
        check_invariants(world)
