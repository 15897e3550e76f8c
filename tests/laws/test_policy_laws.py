"""Laws of resource policies in a whole cluster, through random events, faults and restarts."""

import math
import os
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from holdfast.api.resource_policy import NEXT_UNITS_POLICIES
from holdfast.api.scheme import NODES, PODS, RESOURCE_POLICIES
from holdfast.client.informer import Informer
from holdfast.scheduling.configuration.reading import Configuration
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.scheduler import scheduling_queue
from holdfast.state.resource_policies.unit_headroom import UnitHeadrooms
from holdfast.testing.harness import Harness
from laws.cluster_steps import Network
from laws.deletion_cost_recount import CostRecount
from laws.policy_recount import Recount, in_unit
from laws.policy_steps import PolicyLife
from laws.policy_witness import Witness
from soak_size import SEED, rounds

_SEEDS = os.environ.get("HOLDFAST_SEEDS", f"{SEED}:{SEED + rounds(2)}")
SEEDS = range(*map(int, _SEEDS.split(":")))
"""Use other seeds: ``HOLDFAST_SEEDS=1000:1100 pytest tests/laws/test_policy_laws.py``."""
STEPS = 20
BACKOFF = 11.0
"""Longer than the longest backoff of a pod; seconds."""
WRITE_BACKOFF = 400.0
"""Longer than the longest backoff of a controller; seconds."""


@pytest.fixture
def no_flush(monkeypatch):
    """Let only events requeue pods, never the flush after five minutes."""
    monkeypatch.setattr(scheduling_queue, "MAX_UNSCHEDULABLE_SECONDS", math.inf)


async def read(cluster):
    """Return all objects as the API has them."""
    kinds = (NODES, PODS, RESOURCE_POLICIES)
    nodes, pods, policies = [list((await cluster.client.list(kind)).items) for kind in kinds]
    return Recount({n.name: n for n in nodes}, pods, policies, {}, cluster.clock.now())


def left_waiting(recount):
    """Describe pods that wait although a node has room and the policies allow it.

    Nominated pods have their places: after a failed write the nomination of a pod that fits no more
    stays until the pod is tried again.
    """
    nominated = {p.uid: p.status.nominated_node_name for p in recount.pods}
    recount = replace(recount, assumed=nominated)
    for pod in recount.pods:
        if pod.spec.node_name or pod.finished or pod.terminating:
            continue
        nodes = [node.name for node in recount.possible_nodes(pod)]
        if nodes:
            said = [c.message for c in pod.status.conditions]
            yield f"{pod.key} {pod.metadata.labels} waits, {nodes} are open: {said}"


@asynccontextmanager
async def a_life(tmp_path, seed, **life):
    """Start a cluster on a faulty network, and yield (random events, network, witness)."""
    network, witness = Network(seed), Witness()
    stock = default_profiles()["default-scheduler"]
    profile = replace(stock, plugins=(*stock.plugins, witness))
    configuration = Configuration({"default-scheduler": profile})
    async with Harness(
        tmp_path, wrap=network.wrap, seed=seed, configuration=configuration
    ) as cluster:
        witness.cluster = cluster
        events = PolicyLife(cluster, seed, **life)
        try:
            await events.begin()
            yield events, network, witness
        except AssertionError as broken:
            broken.add_note("\n".join([*events.log, *map(str, network.injected_faults[-12:])]))
            raise


async def run(events, network, witness):
    """Apply random events; after every other step heal the network and wait for an idle cluster."""
    for number in range(STEPS):
        await events.step()
        assert not witness.faults, witness.faults
        if number % 2:
            network.trouble(False)
            await check_no_pod_is_left_waiting(events.cluster)
            assert not witness.faults, witness.faults
            network.trouble(True)
    assert witness.placements > STEPS / 6
    network.heal()
    await events.cluster.advance(WRITE_BACKOFF)
    costs = await CostRecount.of(events.cluster.client)
    assert [*costs.wrong_costs({}, drain_excess=False), *costs.wrong_statuses()] == []


async def check_no_pod_is_left_waiting(cluster):
    """Wait for backoffs; what a pod that has stopped meanwhile leaves needs another backoff."""
    for _ in range(4):
        await cluster.advance(BACKOFF)
        recount = await read(cluster)
        waiting = [*left_waiting(recount)]
        if not waiting:
            check_counts(cluster, recount)
            return
    raise AssertionError(waiting)


def check_counts(cluster, recount):
    """Compare the scheduler's counts, as its metrics list them, with the recount."""
    found = {
        policy.key: [(unit.pods, unit.pods_left) for unit in units]
        for policy, units in UnitHeadrooms(cluster.world.nodes).of(cluster.world.policies)
    }
    assert found == {
        policy.key: [recount.headroom(policy, unit) for unit in policy.spec.units]
        for policy in recount.policies
    }


@pytest.mark.parametrize("seed", SEEDS)
async def test_no_placement_takes_a_unit_beyond_its_cap(tmp_path, seed, repeatable, no_flush):
    """Also when nodes and pods are relabelled, policies edited and pods bound by others.

    Every placement goes to the best tier, and no pod that fits is left waiting.
    """
    async with a_life(tmp_path, seed) as life:
        await run(*life)


@pytest.mark.parametrize("seed", SEEDS)
async def test_the_laws_hold_for_every_rule_of_trying_the_next_units(
    tmp_path, seed, repeatable, no_flush
):
    """With caps on resources, and pods that wait for units of higher priority or for a time-out."""
    async with a_life(tmp_path, seed, resources=True, rules=NEXT_UNITS_POLICIES) as life:
        await run(*life)


@pytest.mark.parametrize("seed", SEEDS)
async def test_caps_hold_in_the_api_at_every_instant(tmp_path, seed, repeatable, no_flush):
    """Whatever fails or is delayed, the API never has a pod bound beyond a cap."""
    async with a_life(tmp_path, seed, changes=False) as life:
        cluster = life[0].cluster
        known = await read(cluster)
        faults = []

        def on_pod(_kind, old, new):
            known.pods = list(informer.cache.values())
            if new is None or not new.spec.node_name or (old is not None and old.spec.node_name):
                return
            [policy] = known.policies_of(new) or [None]
            if policy is None or not {*policy.spec.match_label_keys} <= {*new.metadata.labels}:
                # Pods with the key that were placed later, but bound earlier, did not count it.
                return
            for unit in policy.spec.units:
                there = known.nodes[new.spec.node_name]
                if in_unit(unit, there) and (why := known.full(policy, unit, new)):
                    faults.append(f"{new.name} is bound to {there.name}: {why}")

        informer = Informer(cluster.client, PODS, clock=cluster.clock, on_event=on_pod)
        informer.start()
        try:
            await run(*life)
        finally:
            await informer.stop()
        assert not faults, faults
