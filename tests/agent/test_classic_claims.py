"""Classic claims on a node: API objects in, calls on real sockets out, on a virtual clock."""

import itertools
import json

import msgspec
import pytest

from agent.classic_driver_server import NOT_FOUND, UNAVAILABLE
from agent.classic_node import CLASSIC, ClassicNode
from holdfast.api.classic_dra.names import POD_CLAIMS
from holdfast.api.scheme import RESOURCE_CLAIMS
from holdfast.client.client import Client
from holdfast.node.agent.claims import container_claims, needed_claims
from holdfast.node.agent.live_claims import LiveClaims, NeverUsable, NotUsable
from holdfast.node.agent.node_pod import NODE_PODS
from holdfast.node.agent.pod_devices import NotPrepared
from holdfast.node.agent.simulated_nodes import SimulatedNodes
from holdfast.node.kubelet_api import DRA_PLUGIN, DRA_V1
from holdfast.runtime.errors import NotFound
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.server.inprocess import InProcessTransport
from holdfast.server.user import own_user
from holdfast.testing.builders import a_node, a_pod, typed
from holdfast.testing.device_builders import a_claim
from holdfast.testing.faults import Fault

FAILED = "FailedPrepareDynamicResources"


@pytest.fixture
async def node(cluster, node_directory):
    """Node n with its agent and a classic driver that is registered."""
    await cluster.simulated_nodes.stop()
    node = ClassicNode(cluster, node_directory)
    async with node.driver, node.running_agent():
        await node.registered()
        yield node


async def test_C059_a_pod_that_its_claim_is_not_reserved_for_fails_and_calls_no_driver(node):
    await node.claim("free")
    await node.claim("raw", allocated=False)
    await node.claim("foreign-own", owner=await node.create("other"))
    template = {"name": "own", "claim": {"template": {"spec": {"resourceClassName": "gold"}}}}
    pods = {
        "free": "is not allowed to use ResourceClaim default/free",
        "raw": "ResourceClaim default/raw is not allocated",
        "missing": '"missing" not found',
        "foreign": "was not created for pod default/foreign (pod is not owner)",
        "unused": "is not allowed to use ResourceClaim default/free",
    }
    for name in pods:
        pod = a_pod(name, node="n", claims=[{"name": "c", "claim": {"resourceClaimName": name}}])
        if name == "foreign":
            pod["spec"]["resourceClaims"] = [template]
            pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "own"}]
        if name == "unused":
            pod["spec"]["resourceClaims"][0]["claim"]["resourceClaimName"] = "free"
            del pod["spec"]["containers"][0]["resources"]["claims"]
        await node.cluster.create(pod)
    for name, why in pods.items():
        status = (await node.pod(name)).status
        assert (status.phase, status.reason) == ("Failed", FAILED), name
        assert why in status.message
        assert [why in said for reason, said in await node.said(name) if reason == FAILED] == [True]
        assert await node.shown_status(name) == FAILED
    assert node.driver.calls == []


async def test_C060_only_containers_that_list_a_claim_get_its_devices(node):
    await node.claim("a", handle="first")
    await node.claim("b", handle="second")
    await node.claim("idle")
    uses = {"one": ["b", "a"], "two": ["a"], "three": []}
    init = {"name": "init", "image": "i", "resources": {"claims": [{"name": "a"}]}}
    await node.run("p", "a", "b", "idle", uses=uses, initContainers=[init])
    assert await node.phase("p") == "Running"
    assert await node.env("p") == {
        "init": {"CLAIM_a": "first"},
        "one": {"CLAIM_a": "first", "CLAIM_b": "second"},
        "two": {"CLAIM_a": "first"},
    }
    # A claim that no container uses is checked, not prepared.
    assert sorted(node.driver.sequence) == ["prepare:a", "prepare:b"]


async def test_C061_two_pods_share_one_prepare_and_the_last_unprepares(node):
    await node.claim(shared=True)
    pods = [await node.create(name, "c") for name in ("one", "two")]
    await node.reserve("c", *pods)
    await node.bind("one", "two")
    assert {await node.phase(name) for name in ("one", "two")} == {"Running"}
    assert node.driver.sequence == ["prepare:c"]
    await node.delete("one", grace=0)
    assert node.driver.sequence == ["prepare:c"]
    await node.delete("two", grace=0)
    assert node.driver.sequence == ["prepare:c", "unprepare:c"]
    uid = (await node.client.get(CLASSIC.claims, "c", "default")).uid
    assert node.driver.removed == [(f"example.com/classic=claim-{uid}",)]


async def test_C062_a_failed_prepare_is_tried_again_with_the_same_handle(node):
    handle = '{"é": "\\n \t"}' + "x" * (16384 - 14)
    assert len(handle.encode()) == 16384
    await node.claim(handle=handle)
    node.driver.fail["prepare"] = [UNAVAILABLE] * 3
    await node.run("p", "c")
    assert await node.phase("p") == "Pending"
    await node.cluster.clock.advance(30)
    assert await node.phase("p") == "Running"
    assert node.driver.handles == [handle] * 4
    assert all(reason == FAILED for reason, _ in await node.said("p"))


async def test_C063_an_unknown_claim_is_refused_once_it_is_gone_else_tried_ever_later(node):
    times = []
    node.driver.before_prepare = lambda: times.append(node.cluster.clock.now())
    await node.claim()
    node.driver.fail["prepare"] = [NOT_FOUND] * 4
    await node.run("p", "c")
    await node.cluster.clock.advance(60)
    assert await node.phase("p") == "Running"
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert len(gaps) == 4 and gaps == sorted(set(gaps)) and gaps[0] > 0
    # The other claim goes while its driver is asked.
    node.driver.fail = {"prepare": [None, NOT_FOUND], "unprepare": [None, NOT_FOUND]}

    async def lose():
        await node.release("lost")

    def is_lost():
        return lose() if len(node.driver.fail["prepare"]) == 1 else None

    node.driver.before_prepare = is_lost
    for name in ("safe", "lost"):
        await node.claim(name)
    await node.run("q", "safe", "lost")
    status = (await node.pod("q")).status
    assert (status.phase, status.reason) == ("Failed", FAILED)
    assert "ResourceClaim lost is gone, and its driver does not know it" in status.message
    assert await node.shown_status("q") == FAILED
    assert node.driver.sequence[-4:] == [
        f"{call}:{name}" for call in ("prepare", "unprepare") for name in ("safe", "lost")
    ]
    assert await node.phase("p") == "Running"


async def test_C064_a_failing_unprepare_keeps_pod_and_reservation(node):
    await node.claim()
    pod = await node.run("p", "c")
    node.driver.fail["unprepare"] = [UNAVAILABLE] * 20
    await node.delete("p")
    await node.cluster.clock.advance(120)
    assert (await node.pod("p")).terminating
    assert "FailedUnprepareDynamicResources" in dict(await node.said("p"))
    claim = await node.client.get(CLASSIC.claims, "c", "default")
    assert claim.is_reserved_for(pod.uid)
    # Nor is the pod reported as ended: its claim could be given to another one then.
    assert (await node.pod("p")).status.phase == "Running"
    node.driver.fail["unprepare"] = []
    await node.cluster.clock.advance(20)
    assert await node.pod("p") is None
    assert node.driver.prepared == set()
    # Likewise for a pod that ends by itself: then its claim is free as soon as it is reported.
    await node.claim("j")
    job = {"restartPolicy": "Never", "annotations": {"holdfast.dev/run-for": "1s"}}
    node.driver.fail["unprepare"] = [UNAVAILABLE] * 3
    await node.run("job", "j", **job)
    await node.cluster.clock.advance(2)
    assert await node.phase("job") == "Running" and len(node.driver.prepared) == 1
    await node.cluster.clock.advance(20)
    assert await node.phase("job") == "Succeeded" and not node.driver.prepared


async def test_C067_the_cleanup_of_a_refused_pod_does_not_unprepare_its_neighbour(node):
    await node.claim(shared=True)
    await node.run("good", "c")
    await node.create("bad", "c")
    await node.bind("bad")
    assert await node.phase("bad") == "Failed"
    await node.delete("bad")
    assert await node.pod("bad") is None
    assert await node.phase("good") == "Running"
    assert node.driver.sequence == ["prepare:c"]


async def test_claims_of_one_name_and_driver_in_both_generations_are_kept_apart(
    cluster, node_directory
):
    await cluster.simulated_nodes.stop()
    node = ClassicNode(cluster, node_directory)
    node.driver.type, node.driver.versions = DRA_PLUGIN, [DRA_V1, "1.0.0"]
    node.driver.devices = lambda claim: []
    async with node.driver, node.running_agent():
        await node.registered()
        await node.claim("c", handle="classic")
        await cluster.create(a_claim("c"))
        both = [{"name": "old", "claim": {"resourceClaimName": "c"}}]
        both.append({"name": "new", "resourceClaimName": "c"})
        pod = await node.client.create(NODE_PODS, a_pod("p", claims=both), "default")
        await node.reserve("c", pod)
        await node.bind("p")
        assert (await node.said("p"))[0][1].endswith("ResourceClaim default/c is not allocated")
        results = [{"request": "req-0", "driver": node.driver.name, "pool": "n", "device": "d"}]
        user = {"resource": "pods", "name": "p", "uid": pod.uid}
        status = {"allocation": {"devices": {"results": results}}, "reservedFor": [user]}
        await node.client.patch(
            RESOURCE_CLAIMS, "c", {"status": status}, "default", subresource="status"
        )
        await cluster.clock.advance(10)
        assert await node.phase("p") == "Running"
        assert node.driver.sequence == ["prepare:c"] * 2 and len(node.driver.prepared) == 2
        assert await node.env("p") == {"main": {"CLAIM_c": "classic"}}
        await node.delete("p", grace=0)
        assert node.driver.sequence[2:] == ["unprepare:c"] * 2 and not node.driver.prepared


async def test_C068_a_pod_whose_claim_is_recreated_before_it_starts_uses_the_new_one(node):
    await node.claim(handle="old")
    node.driver.fail["prepare"] = [UNAVAILABLE]
    pod = await node.run("p", "c")
    await node.release("c")
    await node.claim(handle="new")
    await node.reserve("c", pod)
    await node.cluster.clock.advance(5)
    assert await node.phase("p") == "Running"
    assert node.driver.sequence == ["prepare:c", "unprepare:c", "prepare:c"]
    assert node.driver.handles == ["old", "new"]


async def test_C068_a_recreated_claim_waits_for_a_pod_that_is_not_released_yet(node):
    await node.claim(handle="old")
    await node.run("old", "c")
    node.driver.fail["unprepare"] = [UNAVAILABLE] * 4
    await node.delete("old", grace=0)
    await node.release("c")
    await node.claim(handle="new")
    await node.run("new", "c")
    assert await node.phase("new") == "Pending"
    assert any("an older ResourceClaim c with UID" in said for _, said in await node.said("new"))
    assert node.driver.handles == ["old"]
    await node.cluster.clock.advance(60)
    assert await node.phase("new") == "Running"
    assert node.driver.sequence == ["prepare:c", *["unprepare:c"] * 5, "prepare:c"]


async def test_an_outage_of_the_api_is_waited_for_not_refused(node):
    await node.claim()
    node.faults.add(Fault("unavailable", "GET", "/resourceclaims", times=2))
    await node.run("p", "c")
    assert await node.phase("p") == "Pending"
    await node.cluster.clock.advance(10)
    assert await node.phase("p") == "Running"
    assert node.driver.sequence == ["prepare:c"]


async def test_an_annotation_added_later_gives_no_devices_of_another_pod(node):
    await node.claim()
    await node.run("good", "c")
    await node.cluster.create(a_pod("bad", node="n"))
    listed = [{"name": "c", "claim": {"resourceClaimName": "c"}, "containers": ["main"]}]
    patch = {"metadata": {"annotations": {POD_CLAIMS: json.dumps(listed)}}}
    bad = await node.client.patch(NODE_PODS, "bad", patch, "default")
    with pytest.raises(NotPrepared):
        node.agent._devices.claims.container_devices(bad, "main")
    good = await node.pod("good")
    assert node.agent._devices.claims.container_devices(good, "main").cdi_devices


async def test_an_agent_without_the_gate_refuses_pods_with_claims_only(cluster, node_directory):
    await cluster.simulated_nodes.stop()
    node = ClassicNode(cluster, node_directory)
    gates = FeatureGates.parse("DynamicResourceAllocation=false")
    async with node.running_agent(feature_gates=gates):
        await node.claim()
        await node.run("classic", "c")
        claims = [{"name": "c", "resourceClaimName": "c"}]
        annotated = {POD_CLAIMS: '[{"name": "c", "claim": {"resourceClaimName": "c"}}]'}
        await cluster.create(
            a_pod("structured", node="n", claims=claims),
            a_pod("annotated", node="n", annotations=annotated),
            a_pod("plain", node="n"),
        )
        for name in ("classic", "structured", "annotated"):
            status = await node.rejected(name)
            assert (status.phase, status.reason) == ("Failed", "PodFeatureUnsupported")
            assert "DynamicResourceAllocation is off" in status.message
        assert await node.phase("plain") == "Running"


@pytest.fixture
async def simulated_nodes(cluster):
    """Simulated nodes with the rights of their own user."""
    await cluster.simulated_nodes.stop()
    user = own_user("system:holdfast:simulated-nodes")
    running = SimulatedNodes(Client(InProcessTransport(cluster.server, user)), cluster.clock)
    await running.start()
    await cluster.create(a_node("n"))
    yield running
    await running.stop()


async def test_on_simulated_nodes_pods_wait_for_structured_claims_and_fail_for_classic_ones(
    cluster, simulated_nodes, node_directory
):
    node = ClassicNode(cluster, node_directory)
    await node.claim("ready", handle="h")
    await node.run("ready", "ready")
    await node.claim("free")
    await node.create("refused", "free")
    structured = [{"name": "c", "resourceClaimName": "c"}]
    for name, text in {"unreadable": "[{", "nested": '[{"x":' + "[" * 100_000}.items():
        annotated = {POD_CLAIMS: text}
        await cluster.create(a_pod(name, node="n", annotations=annotated, claims=structured))
    await node.bind("refused")
    assert await node.phase("ready") == "Running"
    refused = {"refused": "is not allowed to use", "unreadable": POD_CLAIMS, "nested": POD_CLAIMS}
    for name, why in refused.items():
        status = (await node.pod(name)).status
        assert (status.phase, status.reason) == ("Failed", FAILED)
        assert why in status.message
        assert [why in said for reason, said in await node.said(name) if reason == FAILED] == [True]


async def test_on_simulated_nodes_a_late_cache_of_claims_refuses_no_pod(
    cluster, simulated_nodes, node_directory, monkeypatch
):
    """The binding may be seen before the reservation that was written first."""
    node = ClassicNode(cluster, node_directory)
    await node.claim()
    monkeypatch.setattr(simulated_nodes, "_cached_claim", lambda *_: None)
    await node.run("p", "c")
    assert await node.phase("p") == "Running"
    assert await node.said("p") == []


@pytest.mark.parametrize(
    ("served", "group"),
    [
        (("apps", "dra.holdfast.dev", "core.k8s.io"), "core.k8s.io"),
        (("apps", "dra.holdfast.dev", "resourceclaims"), "dra.holdfast.dev"),
        (("apps", "dra.holdfast.dev", "nodeinventories"), ""),
        (("apps",), ""),
    ],
)
async def test_claims_are_read_in_the_group_that_the_api_server_serves(served, group):
    class Api:
        async def raw(self, path):
            part = "groups" if path == "/apis" else "resources"
            return msgspec.json.encode({part: [{"name": name} for name in served]})

        async def get(self, resource, name, namespace):
            raise NotFound(f"{name} in {resource.group}")

    pod = typed(a_pod("p", claims=[{"name": "c", "claim": {"resourceClaimName": "c"}}]))
    (needed,) = needed_claims(pod)
    said = f"c in {group}" if group else "does not serve the kinds of classic DRA"
    with pytest.raises(NeverUsable if group else NotUsable, match=said):
        await LiveClaims(Api()).usable(pod, needed)


def test_claims_of_containers_are_in_the_order_of_the_entries_and_shadows_stand_for_classic():
    """On a real cluster the entries are in an annotation, and a kubelet reads the shadows."""
    listed = [
        {"name": name, "claim": {"resourceClaimName": f"c-{name}"}, "containers": ["main"]}
        for name in ("b", "a", "shadowed")
    ]
    shadow = {"name": "shadowed", "resourceClaimName": "s"}
    raw = a_pod("p", claims=[shadow], annotations={POD_CLAIMS: json.dumps(listed)})
    pod = typed(raw)
    assert list(container_claims(pod, "main")) == [
        ("s", False, ""), ("c-b", True, ""), ("c-a", True, ""),
    ]  # fmt: skip
    assert [(each.name, each.classic) for each in needed_claims(pod)] == [
        ("c-b", True), ("c-a", True), ("s", False),
    ]  # fmt: skip
