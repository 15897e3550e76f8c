"""Caps on devices: a device counts once, whichever name or claim asked for it."""

import pytest

from holdfast.api.scheme import DEVICE_CLASSES
from holdfast.testing import a_claim, a_device_class, a_namespace, a_slice, a_unit
from policies.objects import (
    WEB,
    create_each,
    delete_gone,
    node,
    node_of,
    pod,
    policy,
    why,
)

GPU = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
WHOLE, HALVES, CORE = "nvidia.com/gpu", "koordinator.sh/gpu", "koordinator.sh/gpu-core"
RATIO = "koordinator.sh/gpu-memory-ratio"
BYTES = "koordinator.sh/gpu-memory"


def capped(**amounts):
    unit = a_unit("od", 5, nodes={"tier": "od"}, max_resources=amounts)
    return policy(units=[unit], strategy="required")


def asking(name, amounts, **more):
    return pod(name, requests=amounts, limits=amounts, **more)


def claiming(name, claim=None, **more):
    return pod(name, claims=[{"name": "dev", "resourceClaimName": claim or name}], **more)


@pytest.fixture
async def devices(start):
    """Two nodes with four devices each of class `gpu`, which serves `example.com/gpu`."""
    cluster = await start(nodes=[a_namespace(WEB), node("a1"), node("a2")])
    await cluster.create(
        a_device_class("gpu", extended_resource_name=GPU),
        *[a_slice(f"{name}-gpus", node=name, devices=4) for name in ("a1", "a2")],
    )
    return cluster


ASKED = {
    "explicit": lambda name: [asking(name, {GPU: "1"})],
    "implicit": lambda name: [asking(name, {IMPLICIT: "1"})],
    "claim": lambda name: [a_claim(name, namespace=WEB), claiming(name)],
}


@pytest.mark.parametrize("cap", [GPU, IMPLICIT])
@pytest.mark.parametrize("first", ASKED)
@pytest.mark.parametrize("second", ASKED)
async def test_a_device_counts_once_whatever_asked_for_it(devices, cap, first, second):
    await devices.create(capped(**{cap: "1"}))
    await create_each(devices, *ASKED[first]("first"), *ASKED[second]("second"))
    assert await node_of(devices, "first")
    assert await node_of(devices, "second") == ""
    assert "unit od is full" in await why(devices, "second")


async def test_three_forms_fill_a_cap_of_three(devices):
    await devices.create(capped(**{GPU: "3"}))
    for form in ASKED:
        await create_each(devices, *ASKED[form](form))
    await create_each(devices, *ASKED["claim"]("fourth"))
    assert [bool(await node_of(devices, name)) for name in (*ASKED, "fourth")] == [
        True, True, True, False,
    ]  # fmt: skip


async def test_it_holds_after_a_restart_and_ends_with_the_pod(devices):
    await devices.create(capped(**{GPU: "1"}))
    await create_each(devices, *ASKED["claim"]("first"))
    await devices.restart()
    await create_each(devices, *ASKED["implicit"]("second"))
    assert await node_of(devices, "second") == ""
    await delete_gone(devices, "first")
    await devices.advance(30)
    assert await node_of(devices, "second")


async def test_a_claim_that_pods_share_counts_once(devices):
    await devices.create(capped(**{GPU: "2"}), a_claim("shared", namespace=WEB))
    await create_each(devices, *(claiming(name, "shared") for name in ("one", "two", "three")))
    assert all([await node_of(devices, name) for name in ("one", "two", "three")])
    await create_each(devices, *ASKED["explicit"]("fits"), *ASKED["explicit"]("not"))
    assert (bool(await node_of(devices, "fits")), await node_of(devices, "not")) == (True, "")
    await delete_gone(devices, "one")
    await devices.advance(30)
    assert await node_of(devices, "not") == "", "two and three use it still"
    await delete_gone(devices, "two", "three")
    await devices.advance(30)
    assert await node_of(devices, "not")


async def test_claims_of_several_devices_and_alternatives_count_with_their_number(devices):
    await devices.create(capped(**{IMPLICIT: "3"}))
    two = a_claim("two", namespace=WEB, requests=[exactly("d", 2)])
    await create_each(devices, two, claiming("two"))
    await create_each(devices, a_claim("more", namespace=WEB, requests=[exactly("d", 2)]))
    await create_each(devices, claiming("more"), *ASKED["explicit"]("one"))
    assert [bool(await node_of(devices, n)) for n in ("two", "more", "one")] == [True, False, True]


def exactly(name, count):
    return {"name": name, "exactly": {"deviceClassName": "gpu", "count": count}}


async def test_a_class_that_is_named_later_counts_from_then_on(start):
    cluster = await start(nodes=[a_namespace(WEB), node("a1")])
    await cluster.create(a_device_class("gpu"), a_slice("a1-gpus", node="a1", devices=4))
    await cluster.create(capped(**{GPU: "1"}))
    await create_each(cluster, *ASKED["claim"]("first"))
    named = {"spec": {"extendedResourceName": GPU}}
    await cluster.client.patch(DEVICE_CLASSES, "gpu", named)
    await create_each(cluster, *ASKED["claim"]("second"))
    assert (await node_of(cluster, "first"), await node_of(cluster, "second")) == ("a1", "")


@pytest.mark.parametrize(
    ("cap", "amount", "requests", "fit"),
    [
        (CORE, "100", {HALVES: "100"}, 1),
        (RATIO, "100", {HALVES: "50"}, 2),
        (HALVES, "100", {CORE: "50", RATIO: "50"}, 2),
        (WHOLE, "1", {HALVES: "100"}, 1),
        (WHOLE, "1", {CORE: "10", BYTES: "1Gi"}, 1),
        (HALVES, "200", {WHOLE: "1"}, 2),
        (WHOLE, "1", {"amd.com/gpu": "1"}, 3),
    ],
)
async def test_gpus_of_koordinator_count_in_every_name(start, cap, amount, requests, fit):
    amounts = dict.fromkeys((WHOLE, HALVES, CORE, RATIO, "amd.com/gpu"), "1000") | {BYTES: "1Ti"}
    cluster = await start(nodes=[a_namespace(WEB), node("a1", allocatable=amounts)])
    await cluster.create(capped(**{cap: amount}))
    await create_each(cluster, *(asking(f"w{i}", requests) for i in range(3)))
    placed = [bool(await node_of(cluster, f"w{i}")) for i in range(3)]
    assert placed == [i < fit for i in range(3)]
