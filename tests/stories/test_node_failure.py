"""A node fails: conditions, taints, evictions, replacements, recovery; on a virtual clock."""

from __future__ import annotations

import random

import pytest

from holdfast.api.node_names import FAILED_ANNOTATION
from holdfast.api.scheme import NODES, PODS, RESOURCE_CLAIMS
from holdfast.cli.node.failing import change_nodes
from holdfast.controllers.conditions import find, is_true
from holdfast.runtime.errors import NotFound, Refused
from holdfast.testing import (
    Chances,
    Fault,
    FaultyTransport,
    a_claim,
    a_deployment,
    a_device_class,
    a_node,
    a_pod,
    a_slice,
)
from holdfast.testing.harness import Harness
from soak_size import SEED, TIMES

FAULTS = Chances(
    conflict=0.05, unavailable=0.05, unavailable_after=0.05, lost=0.05, expired=0.05, cut=0.05
)
UNREACHABLE = {
    ("node.kubernetes.io/unreachable", "NoSchedule"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
}
OUT_OF_SERVICE = {
    "key": "node.kubernetes.io/out-of-service",
    "value": "nodeshutdown",
    "effect": "NoExecute",
}


async def fail(cluster, *names):
    await change_nodes(cluster.client, names, fails=True)
    await cluster.settle()


async def recover(cluster, *names):
    await change_nodes(cluster.client, names, fails=False)
    await cluster.settle()


async def taints(cluster, name):
    node = await cluster.client.get(NODES, name)
    return {(t.key, t.effect) for t in node.spec.taints}


async def pods(cluster):
    listing = await cluster.client.list(PODS, "default")
    return {p.name: p for p in listing.items}


async def test_the_pods_of_a_failed_node_are_replaced_and_it_recovers(cluster):
    await cluster.create(a_node("n1"), a_deployment("web", replicas=2))
    await cluster.create(a_node("n2"), a_node("n3"))
    first = await pods(cluster)
    assert {p.spec.node_name for p in first.values()} == {"n1"}

    await fail(cluster, "n1")
    await cluster.restart()  # it stays as told
    await cluster.advance(49)
    assert not await taints(cluster, "n1")
    await cluster.advance(2)
    node = await cluster.client.get(NODES, "n1")
    said = {c.type: (c.status, c.reason, c.message) for c in node.status.conditions}
    assert said.pop("Ready") == (
        "Unknown",
        "NodeStatusUnknown",
        "Kubelet stopped posting node status.",
    )
    never = ("Unknown", "NodeStatusNeverUpdated", "Kubelet never posted node status.")
    assert said == dict.fromkeys(("MemoryPressure", "DiskPressure", "PIDPressure"), never)
    assert await taints(cluster, "n1") == UNREACHABLE
    assert ("NodeNotReady", "Node n1 status is now: NodeNotReady") in await cluster.events("n1")
    marked = await pods(cluster)
    assert marked.keys() == first.keys()
    for name, pod in marked.items():
        assert find(pod.status.conditions, "Ready").status == "False"
        assert ("NodeNotReady", "Node is not ready") in await cluster.events(name)

    await cluster.restart()  # the time that pods tolerate goes on
    await cluster.advance(295)
    assert (await pods(cluster)).keys() == first.keys()
    await cluster.advance(10)
    found = await pods(cluster)
    replaced = [p for name, p in found.items() if name not in first]
    assert {p.spec.node_name for p in replaced} <= {"n2", "n3"}
    assert len(replaced) == 2
    assert all(is_true(p.status.conditions, "Ready") for p in replaced)
    for name in first:
        target = find(found[name].status.conditions, "DisruptionTarget")
        assert (target.status, target.reason, target.message) == (
            "True",
            "DeletionByTaintManager",
            "Taint manager: deleting due to NoExecute taint",
        )
        assert found[name].terminating
        event = ("TaintManagerEviction", f"Marking for deletion Pod default/{name}")
        assert event in await cluster.events(name)

    await recover(cluster, "n1")
    assert not await taints(cluster, "n1")
    assert is_true((await cluster.client.get(NODES, "n1")).status.conditions, "Ready")
    assert (await pods(cluster)).keys() == {p.name for p in replaced}


async def test_a_node_that_recovers_in_time_keeps_its_pods(cluster):
    await cluster.create(a_node("n1"), a_pod("p"))
    await cluster.create(a_node("n2"))
    await fail(cluster, "n1")
    await cluster.advance(100)
    assert await taints(cluster, "n1") == UNREACHABLE
    uid = (await cluster.pod("p")).uid
    await recover(cluster, "n1")
    pod = await cluster.pod("p")
    assert pod.uid == uid
    assert is_true(pod.status.conditions, "Ready")
    cancelled = ("TaintManagerEviction", "Cancelling deletion of Pod default/p")
    assert cancelled in await cluster.events("p")
    await cluster.advance(260)
    assert (await cluster.pod("p")).uid == uid
    assert not await taints(cluster, "n1")


async def test_pods_leave_a_tainted_node_when_their_shortest_toleration_ends(cluster):
    def tolerates(**more):
        return [{"key": "broken", "operator": "Exists", "effect": "NoExecute", **more}]

    await cluster.create(
        a_node("n"),
        a_pod("none"),
        a_pod("short", tolerations=tolerates(tolerationSeconds=30)),
        a_pod("always", tolerations=tolerates()),
    )
    taint = {"key": "broken", "effect": "NoExecute"}
    await cluster.client.patch(NODES, "n", {"spec": {"taints": [taint]}})
    await cluster.settle()
    assert (await pods(cluster)).keys() == {"short", "always"}
    await cluster.advance(29)
    assert (await pods(cluster)).keys() == {"short", "always"}
    await cluster.advance(2)
    assert (await pods(cluster)).keys() == {"always"}
    page = cluster.components.scheduler.metrics_page().decode()
    assert "taint_eviction_controller_pod_deletions_total 2.0" in page


async def test_a_node_out_of_service_releases_its_pods_and_their_claims(cluster):
    await cluster.create(
        a_node("n1"), a_node("n2"), a_device_class("gpu"), a_slice("s", node="n1", devices=1)
    )
    claims = [{"name": "gpu", "resourceClaimName": "c"}]
    await cluster.create(a_claim("c"), a_pod("p", claims=claims))
    assert await cluster.node_of("p") == "n1"
    await fail(cluster, "n1")
    await cluster.client.delete(PODS, "p", "default")
    await cluster.advance(120)
    assert (await cluster.pod("p")).terminating
    claim = await cluster.client.get(RESOURCE_CLAIMS, "c", "default")
    assert [c.name for c in claim.status.reserved_for] == ["p"]

    node = await cluster.client.get(NODES, "n1")
    kept = [{"key": t.key, "effect": t.effect} for t in node.spec.taints]
    await cluster.client.patch(NODES, "n1", {"spec": {"taints": [*kept, OUT_OF_SERVICE]}})
    await cluster.settle()
    with pytest.raises(NotFound):
        await cluster.pod("p")
    await cluster.advance(30)
    claim = await cluster.client.get(RESOURCE_CLAIMS, "c", "default")
    assert not claim.status.reserved_for
    page = cluster.components.scheduler.metrics_page().decode()
    deleted = "pod_gc_collector_force_delete_pods_total"
    assert f'{deleted}{{namespace="default",reason="out-of-service"}} 1.0' in page


async def test_nodes_are_tainted_slowly_and_not_at_all_if_no_node_is_ready(cluster):
    zone = {"topology.kubernetes.io/zone": "a"}
    names = [f"n{i}" for i in range(4)]
    await cluster.create(*(a_node(name, labels=zone) for name in names))

    async def evicting():
        found = [(n, await taints(cluster, n)) for n in names]
        return [n for n, keys in found if ("node.kubernetes.io/unreachable", "NoExecute") in keys]

    await fail(cluster, "n0", "n1")
    await cluster.advance(55)
    assert len(await evicting()) == 1
    await cluster.advance(10)
    assert sorted(await evicting()) == ["n0", "n1"]

    await fail(cluster, "n2")  # 3 of 4: a partial disruption of a small zone stops evictions
    await cluster.advance(100)
    assert sorted(await evicting()) == ["n0", "n1"]
    await fail(cluster, "n3")
    await cluster.advance(61)
    assert not await evicting()
    await cluster.advance(60)
    assert not await evicting()

    await recover(cluster, "n2", "n3")
    await cluster.advance(40)
    assert sorted(await evicting()) == ["n0", "n1"]
    page = cluster.components.scheduler.metrics_page().decode()
    assert 'node_collector_unhealthy_nodes_in_zone{zone=":\x00:a"} 2.0' in page


async def test_only_simulated_nodes_that_exist_fail_on_request(cluster):
    await cluster.create(a_node("n1"))
    with pytest.raises(Refused, match="nodes n2, n3 are not found; no node was changed"):
        await change_nodes(cluster.client, ["n3", "n1", "n2"], fails=True)
    assert FAILED_ANNOTATION not in (await cluster.client.get(NODES, "n1")).metadata.annotations
    said = [await change_nodes(cluster.client, ["n1"], fails=fails) for fails in (True, True)]
    assert said == [
        ["node/n1 has failed; it is reported as unreachable after 50 s"],
        ["node/n1 has failed already"],
    ]
    said = [await change_nodes(cluster.client, ["n1"], fails=fails) for fails in (False, False)]
    assert said == [["node/n1 recovers"], ["node/n1 has not failed"]]


async def test_an_outage_of_the_api_server_is_no_failure_of_its_nodes(tmp_path):
    transports = []

    def with_outage(transport, clock):
        transports.append(
            FaultyTransport(
                transport,
                chances=Chances(unavailable=1.0),
                rng=random.Random(0),
                clock=clock,
                enabled=False,
            )
        )
        return transports[-1]

    async with Harness(tmp_path / "outage", wrap=with_outage) as cluster:
        await cluster.create(a_node("n1"), a_node("n2"))
        for transport in transports:
            transport.enabled = True
        for watching in tuple(cluster.server.context.watches):
            watching.close()
        await cluster.advance(120)
        for transport in transports:
            transport.enabled = False
        await cluster.advance(100)
        for name in ("n1", "n2"):
            assert not await taints(cluster, name)
            assert not await cluster.events(name)


class WritesNoExecute(Fault):
    def hits(self, request, troubles):
        return b"NoExecute" in request.body and super().hits(request, troubles)


async def test_a_taint_that_met_a_conflict_is_written_when_the_rate_permits(tmp_path):
    def with_conflict(transport, clock):
        return FaultyTransport(transport, [WritesNoExecute("conflict", "PATCH")], clock=clock)

    async with Harness(tmp_path / "conflict", wrap=with_conflict) as cluster:
        await cluster.create(a_node("n1"), a_node("n2"))
        await fail(cluster, "n1")
        await cluster.advance(52)
        assert len(await taints(cluster, "n1")) == 1
        await cluster.advance(11)  # one node in ten seconds
        assert await taints(cluster, "n1") == UNREACHABLE


@pytest.mark.parametrize("seed", range(SEED, SEED + TIMES))
async def test_after_random_failures_and_faults_every_node_works_again(tmp_path, seed):
    dice, transports = random.Random(seed), []

    def with_faults(transport, clock):
        transports.append(
            FaultyTransport(transport, chances=FAULTS, rng=dice, clock=clock, enabled=False)
        )
        return transports[-1]

    names = [f"n{i}" for i in range(4)]
    async with Harness(tmp_path / "faults", wrap=with_faults) as cluster:
        zones = ({"topology.kubernetes.io/zone": "ab"[i % 2]} for i in range(4))
        await cluster.create(*(a_node(n, labels=z) for n, z in zip(names, zones, strict=True)))
        await cluster.create(a_deployment("web", replicas=6))
        for transport in transports:
            transport.enabled = True
        for _ in range(6 if TIMES > 1 else 2):
            chosen = dice.sample(names, dice.randint(1, 4))
            await change_nodes(cluster.client, chosen, fails=dice.random() < 0.6)
            await cluster.advance(dice.choice((5, 40, 70, 400 if TIMES > 1 else 100)))
            if dice.random() < 0.2:
                await cluster.restart_components()
        for transport in transports:
            transport.enabled = False
        await change_nodes(cluster.client, names, fails=False)
        await cluster.advance(100)
        for name in names:
            assert not await taints(cluster, name)
            assert is_true((await cluster.client.get(NODES, name)).status.conditions, "Ready")
        left = (await pods(cluster)).values()
        assert [(p.terminating, is_true(p.status.conditions, "Ready")) for p in left] == [
            (False, True)
        ] * 6
