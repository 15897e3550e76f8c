"""Devices through random events, faults and restarts: one device one claim, and nothing is left."""

from collections import defaultdict

import pytest

from holdfast.api.devices import EXTENDED_CLAIM
from holdfast.api.node_selection import compile_selector
from holdfast.api.quantity import Quantity
from holdfast.api.scheme import DEVICE_TAINT_RULES, NODES, PODS, RESOURCE_CLAIMS
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.scheduling.engine.decision import feasible
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing.harness import Harness
from laws.cluster_steps import Network
from laws.device_steps import DeviceLife
from laws.ledger_shape import rebuilt, shape_of
from soak_size import SEED, rounds

STEPS = 24
LONG_ENOUGH = 700.0
"""Seconds after which binding has timed out and every unschedulable pod has been tried again."""
SHARED = Quantity.parse("8Gi")
"""The memory of each card that claims share."""
GATES = FeatureGates.parse("DRADeviceTaintRules=true")


@pytest.mark.parametrize("seed", range(SEED, SEED + rounds(2)))
async def test_devices_are_never_allocated_twice_and_nothing_is_left(tmp_path, seed, repeatable):
    network = Network(seed)
    async with Harness(tmp_path, wrap=network.wrap, seed=seed, feature_gates=GATES) as cluster:
        life = DeviceLife(cluster, seed)
        try:
            await life.begin()
            for _ in range(STEPS):
                await life.step()
                await check_allocations(cluster)
            network.heal()
            await cluster.advance(LONG_ENOUGH)
            await life.finish()
            await check_allocations(cluster)
            await check_idle_cluster(cluster)
        except AssertionError as broken:
            broken.add_note("\n".join([*life.log, *map(str, network.injected_faults[-12:])]))
            raise


async def check_allocations(cluster):
    """A device serves one claim (I3); a bound pod has its devices, on its node."""
    pods, claims = await listed(cluster)
    holders, shares = defaultdict(list), defaultdict(lambda: Quantity(0))
    for claim in claims.values():
        allocation = claim.status.allocation
        for result in allocation.devices.results if allocation is not None else ():
            device = (result.driver, result.pool, result.device)
            if result.share_id is None:
                holders[device].append(claim.name)
            else:
                shares[device] += Quantity.parse(result.consumed_capacity["memory"])
    twice = {device: names for device, names in holders.items() if len(names) > 1}
    assert not twice, twice
    assert all(amount <= SHARED for amount in shares.values()), dict(shares)
    parts = [device for device in holders if device[1].endswith("-parts")]
    for pool in {device[1] for device in parts}:
        # Each of the partitions consumes 2 of 4 units.
        assert sum(device[1] == pool for device in parts) <= 2, parts
    nodes = {node.name: node for node in (await cluster.client.list(NODES)).items}
    for pod in pods.values():
        if not pod.spec.node_name or pod.finished or pod.spec.node_name not in nodes:
            continue
        for name in claims_of(pod):
            claim = claims.get(name)
            assert claim is not None and claim.status.allocation is not None, (pod.name, name)
            assert pod.uid in {user.uid for user in claim.status.reserved_for}, (pod.name, name)
            selector = claim.status.allocation.node_selector
            node = nodes[pod.spec.node_name]
            here = selector is None or compile_selector(selector).matches(
                node.metadata.labels, node.name
            )
            assert here, f"{pod.name} on {node.name}, {name} elsewhere"


async def check_idle_cluster(cluster):
    """Statuses are right, nothing is in flight, and no pod waits that could be placed."""
    pods, claims = await listed(cluster)
    by_uid = {pod.uid: pod for pod in pods.values()}
    for claim in claims.values():
        for user in claim.status.reserved_for:
            assert user.uid in by_uid and not by_uid[user.uid].finished, (claim.name, user.name)
        if claim.metadata.annotations.get(EXTENDED_CLAIM) == "true":
            [owner] = claim.metadata.owner_references
            assert owner.uid in by_uid, f"{claim.name} is left of {owner.name}"
            if not cluster.world.nodes.row_of:
                continue  # without nodes no attempt ends with the deletion of old claims
            assert by_uid[owner.uid].spec.node_name, f"{claim.name} of {owner.name}, which waits"
            said = by_uid[owner.uid].status.extended_resource_claim_status
            assert said is not None and said.resource_claim_name == claim.name, claim.name
    for pod in pods.values():
        status = pod.status.extended_resource_claim_status
        waits = not pod.spec.node_name and bool(cluster.world.nodes.row_of)
        assert status is None or not waits, f"{pod.name} waits and names a claim"
        gone = status is not None and status.resource_claim_name not in claims
        assert not gone, f"{pod.name} names a claim that is gone"
    assert not cluster.world.devices.claims.has_in_flight
    world = await rebuilt(cluster.client)
    for rule in (await cluster.client.list(DEVICE_TAINT_RULES)).items:
        world.upsert(rule)
    assert shape_of(cluster.world) == shape_of(world)
    profile = default_profiles()["default-scheduler"]
    for pod in pods.values():
        if pod.spec.node_name or pod.terminating or pod.finished:
            continue
        found = feasible(profile, profile.view(world.pod_info(pod), world, cluster.clock.now()))
        assert isinstance(found, Rejection), f"{pod.name} waits and fits: {pod.status.conditions}"


async def listed(cluster):
    pods = {pod.name: pod for pod in (await cluster.client.list(PODS)).items}
    return pods, {claim.name: claim for claim in (await cluster.client.list(RESOURCE_CLAIMS)).items}


def claims_of(pod):
    """Return the names of the claims that a bound pod must have."""
    names = [entry.resource_claim_name for entry in pod.spec.resource_claims]
    if None in names:
        names = [status.resource_claim_name for status in pod.status.resource_claim_statuses]
    if not pod.spec.resource_claims:
        made = pod.status.extended_resource_claim_status
        names.append(made.resource_claim_name if made else "")
    return names
