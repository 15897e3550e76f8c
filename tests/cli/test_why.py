"""What ``holdfast why`` says about pods with devices is what keeps them from running."""

import msgspec
import pytest

from holdfast.api.scheme import RESOURCE_CLAIMS, RESOURCE_QUOTAS
from holdfast.cli.explanation_text import format_explanation
from holdfast.cli.why_command import answer_about
from holdfast.client.client import PatchType
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.scheduling.configuration.reading import Configuration
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing import (
    a_claim,
    a_claim_template,
    a_device,
    a_device_class,
    a_node,
    a_pod,
    a_slice,
)
from holdfast.testing.builders import an_object
from holdfast.testing.classic_dra.builders import a_classic_claim, a_classic_class, inline, named
from holdfast.testing.classic_dra.driver import ClassicDriver
from holdfast.testing.harness import Harness

GPU = "example.com/gpu"
ATTACHED = ["example.com/attached", "example.com/checked"]
DEVICES = "gpu.deviceclass.resource.k8s.io/devices"
TAINTS = [{"key": "example.com/broken", "effect": "NoSchedule"}]
NOW = "if it were scheduled now:"


@pytest.fixture
async def cluster(tmp_path):
    async with Harness(tmp_path / "store") as harness:
        await harness.create(a_node("n"), a_device_class("gpu", extended_resource_name=GPU))
        yield harness


def user(name="p", claim="c"):
    return a_pod(name, cpu="1m", resource_claims=[{"name": "d", "resourceClaimName": claim}])


def extended(name="p", resource=GPU):
    return a_pod(name, cpu="1m", requests={resource: "1"}, limits={resource: "1"})


def a_quota(limit, key=DEVICES):
    return an_object(RESOURCE_QUOTAS, "q", {"hard": {key: limit}}, namespace="default")


async def answer(cluster, name="p"):
    setup = Configuration(default_profiles()), FeatureGates(), cluster.clock.now()
    return await answer_about(cluster.client, await cluster.pod(name), *setup)


async def lines(cluster, name="p"):
    return format_explanation(await answer(cluster, name)).splitlines()


async def report(cluster, claim, *types):
    """Write conditions of the only device of a claim, as its driver does."""
    found = await cluster.client.get(RESOURCE_CLAIMS, claim, "default")
    (result,) = found.status.allocation.devices.results
    conditions = [
        {
            "type": each,
            "status": "True",
            "reason": "Driver",
            "message": "",
            "lastTransitionTime": "2024-01-01T00:00:00Z",
        }
        for each in types
    ]
    device = {"driver": result.driver, "pool": result.pool, "device": result.device}
    body = {"status": {"devices": [device | {"conditions": conditions}]}}
    await cluster.client.patch(
        RESOURCE_CLAIMS, claim, body, "default", type=PatchType.MERGE, subresource="status"
    )


@pytest.mark.parametrize("pod", [user(), extended()])
async def test_a_pod_that_is_being_bound_waits_for_its_driver_and_for_no_deletion(cluster, pod):
    conditions = {
        "bindsToNode": True,
        "bindingConditions": ATTACHED,
        "bindingFailureConditions": ["example.com/failed"],
    }
    await cluster.create(
        a_slice(node="n", devices=[a_device("gpu-0", **conditions)]), a_claim("c"), pod
    )
    await cluster.advance(10)
    found = await answer(cluster)
    [waits] = found["waitsForDevices"]
    [claim] = [waits["claim"]]
    said = (await lines(cluster))[:4]
    reports = "gpu.example.com has not reported"
    device = f"  claim {claim} has gpu.example.com/n/gpu-0: {reports}"
    assert said == [
        "default/p waits on n until its devices are prepared:",
        f"{device} {', '.join(ATTACHED)} yet",
        NOW,
        "default/p: fits on n",
    ]
    await report(cluster, claim.removeprefix("default/"), ATTACHED[0])
    text = "\n".join(await lines(cluster))
    assert f"{device} {ATTACHED[1]} yet" in text
    assert "has to be deleted" not in text
    await report(cluster, claim.removeprefix("default/"), *ATTACHED)
    await cluster.advance(10)
    assert await cluster.node_of("p") == "n"
    assert "waits" not in "\n".join(await lines(cluster))


async def test_a_claim_that_an_earlier_attempt_left_still_has_to_be_deleted(cluster):
    """Such a claim is not reserved for the pod."""
    await cluster.create(a_slice(node="n"), extended("other"), extended())
    pod = await cluster.pod("p")
    owner = {
        "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod.uid, "controller": True,
    }  # fmt: skip
    async with cluster.components_stopped():
        meta = {
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [owner],
        }
        await cluster.create(a_claim("left", metadata=meta), settle=False)
        text = "\n".join(await lines(cluster))
        assert "claim default/left of an earlier attempt has to be deleted first" in text


async def test_the_quota_that_keeps_a_pod_from_its_node_comes_before_the_nodes_that_fit(cluster):
    await cluster.create(a_slice(node="n", devices=2), a_quota("0"), extended())
    await cluster.advance(5)
    refused = (
        "0/1 nodes are available: 1 create claim for extended resources default/: exceeded quota: "
        f"q, requested: {DEVICES}=1, used: {DEVICES}=0, limited: {DEVICES}=0"
    )
    assert (await lines(cluster))[:4] == [
        f"default/p: the last attempt failed (Unschedulable): {refused}",
        "  to do: wait until the quota has room, or let an administrator raise it",
        NOW,
        "default/p: fits on n",
    ]


@pytest.mark.parametrize("seconds", [2, 10])
async def test_the_quota_that_keeps_a_claim_from_being_made_is_named_at_once(cluster, seconds):
    pod = a_pod("p", resource_claims=[{"name": "d", "resourceClaimTemplateName": "t"}])
    await cluster.create(a_slice(node="n"), a_claim_template("t"), a_quota("0"), pod)
    await cluster.advance(seconds)
    first, advice = await lines(cluster)
    assert first.startswith(
        'default/p: pod "default/p": ResourceClaim not created yet: PodResourceClaim d: '
    )
    assert f"exceeded quota: q, requested: {DEVICES}=1" in first
    assert advice == "  to do: wait until the quota has room, or let an administrator raise it"


async def test_the_quota_of_a_classic_class_is_named_too(cluster):
    key = "gpu.resourceclass.node.k8s.io/resourceclaims"
    await cluster.create(a_classic_class(), a_quota("0", key), a_pod("p", claims=[inline("x")]))
    await cluster.advance(2)
    first, *_ = await lines(cluster)
    assert 'waiting for resourceclaim "p-x" to be created: PodResourceClaim x: create' in first
    assert f"exceeded quota: q, requested: {key}=1" in first


async def test_a_claim_that_is_not_there_is_to_be_created(cluster):
    await cluster.create(user())
    await cluster.advance(10)
    first, advice = await lines(cluster)
    assert first == 'default/p: could not find ResourceClaim "default/c"'
    assert advice.startswith("  to do: create the claim or the template that spec.resourceClaims")


async def test_the_users_of_a_claim_come_first(cluster):
    users = [{"resource": "pods", "name": f"u{i}", "uid": f"u{i}"} for i in range(256)]
    await cluster.create(a_slice(node="n"), a_claim("c"), user("first"))
    async with cluster.components_stopped():
        body = {"status": {"reservedFor": users}}
        await cluster.client.patch(
            RESOURCE_CLAIMS, "c", body, "default", type=PatchType.MERGE, subresource="status"
        )
        await cluster.create(user(), settle=False)
        text = "\n".join(await lines(cluster))
    assert text.startswith(
        "default/p: 0/1 nodes are available: resourceclaim in use: default/c is reserved for 256 "
        "pods, the most that a claim can have."
    )
    own = "wait until a pod that uses the claim ends, or give the pod its own claim"
    assert f"  to do: {own}" in text


async def test_what_to_do_about_the_users_of_a_classic_claim(cluster):
    driver = ClassicDriver(cluster.client, shared=True)
    await cluster.create(a_classic_class(), a_classic_claim("c", immediate=True))
    await driver.serve(cluster.settle)
    pods = [a_pod(f"p{n}", cpu="1m", claims=[named("x", "c")]) for n in range(33)]
    await cluster.create(*pods)
    [last] = [pod["metadata"]["name"] for pod in pods if not await cluster.node_of(pod_name(pod))]
    text = "\n".join(await lines(cluster, last))
    own = "wait until a pod that uses the claim ends, or give the pod its own claim"
    assert f"  to do: {own}" in text


def pod_name(pod):
    return pod["metadata"]["name"]


async def test_only_devices_that_can_be_had_count_as_free(cluster):
    tainted = [a_device(f"gpu-{i}", taints=TAINTS if i else None) for i in range(3)]
    await cluster.create(
        a_node("m"),
        a_node("o"),
        a_slice("n", node="n", devices=tainted),
        a_slice("m", node="m", devices=3, slices=2),
        a_slice("o", node="o", devices=40),
        extended(),
    )
    counts = (await answer(cluster))["details"]["DynamicResources"]["extendedResources"][0]
    free = {one["node"]: (one["free"], one["total"]) for one in counts["devices"]}
    assert free == {"n": (1, 3), "o": (40, 40)}, "with a taint, in an incomplete pool: not free"


async def test_devices_that_share_a_counter_count_once(cluster):
    uses = [{"counterSet": "s", "counters": {"units": {"value": "1"}}}]
    devices = [a_device(f"gpu-{i}", consumesCounters=uses) for i in range(4)]
    counters = [{"name": "s", "counters": {"units": {"value": "3"}}}]
    shared = a_slice("counters", node="n", pool="n", devices=[], slices=2, sharedCounters=counters)
    del shared["spec"]["devices"]
    await cluster.create(
        a_slice("n", node="n", pool="n", devices=devices, slices=2), shared, extended("a"),
        extended(),
    )  # fmt: skip
    await cluster.advance(2)
    [line] = [line for line in await lines(cluster) if "free:" in line]
    assert line == "      1  class gpu, 2 of 4 free: n"


@pytest.mark.parametrize("of_class", [False, True])
async def test_the_device_on_which_a_selector_fails_is_named(cluster, of_class):
    devices = [a_device("gpu-0", attributes={"model": "a"}), a_device("gpu-1")]
    rule = 'device.attributes["gpu.example.com"].model == "b"'
    selectors = {"selectors": [rule]}
    await cluster.create(
        a_slice(node="n", devices=devices),
        a_device_class("strict", **(selectors if of_class else {})),
        a_claim("c", device_class="strict", **({} if of_class else selectors)),
        user(),
    )
    await cluster.advance(2)
    text = await lines(cluster)
    owner = "class strict" if of_class else "claim default/c"
    error = f"{owner}: selector #0: CEL runtime error: no such key: model"
    assert text[2] == f"      1  {error} (gpu.example.com/n/gpu-1): n"
    assert f"         closest: gpu.example.com/n/gpu-1 on n: {error}" in text
    [advice] = [line for line in text if "to do" in line]
    assert "correct the selector" in advice


async def test_the_implicit_name_of_a_class_that_does_not_exist_is_explained(cluster):
    name = "deviceclass.resource.kubernetes.io/absent"
    await cluster.create(a_slice(node="n"), extended(resource=name))
    await cluster.advance(2)
    assert (await lines(cluster))[1:3] == [
        f"  {name} is the name of device class absent, which does not exist",
        "         to do: create DeviceClass absent, or correct the name; `kubectl get "
        "deviceclasses` lists what exists",
    ]
    await cluster.create(a_device_class("absent"))
    await cluster.advance(15)
    assert await cluster.node_of("p") == "n"
    assert "does not exist" not in "\n".join(await lines(cluster))


async def test_a_bound_pod_that_does_not_start_says_why(cluster):
    claims = [{"name": "d", "resourceClaimName": "c"}]
    pod = a_pod("p", node="n", resource_claims=claims)
    await cluster.create(a_claim("c"), pod)
    await cluster.advance(2)
    first, *_ = await lines(cluster)
    assert first.startswith("default/p has not started on n: FailedPrepareDynamicResources: Failed")
    found = await answer(cluster)
    assert found["notStarted"]["reason"] == "FailedPrepareDynamicResources"
    msgspec.json.encode(found)
    await cluster.create(a_pod("runs"))
    await cluster.advance(5)
    assert "has not started" not in "\n".join(await lines(cluster, "runs"))
