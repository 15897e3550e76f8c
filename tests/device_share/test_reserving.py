"""Reservations hold GPUs: N026 to N033 and R056 to R058, through the API."""

import msgspec
import pytest

from device_share.objects import (
    a_device_object,
    a_gpu,
    a_gpu_node,
    a_gpu_pod,
    a_gpu_reservation,
    an_owner,
    devices_of,
    from_reservation,
    named,
    reserved,
)
from holdfast.api.koordinator_names import DEVICE_ALLOCATED, GPU, GPU_CORE, GPU_MEMORY
from holdfast.api.reservation_names import IGNORED
from holdfast.api.scheme import PODS, RESERVATIONS
from holdfast.testing import a_reservation

NVIDIA = "nvidia.com/gpu"


async def counted(cluster, name, resource=GPU):
    """Return how much of a resource the status of a reservation says is allocated."""
    return int((await cluster.reservation(name)).status.allocated.get(resource, 0))


async def test_N026_R056_an_owner_gets_the_gpu_of_its_reservation(cluster):
    await cluster.create(a_gpu_node(), a_device_object())
    await cluster.create(a_gpu_reservation("r", 100))
    annotation = (await cluster.reservation("r")).metadata.annotations[DEVICE_ALLOCATED]
    assert msgspec.json.decode(annotation) == {
        "gpu": [
            {
                "minor": 0,
                "id": "GPU-0",
                "resources": {
                    "koordinator.sh/gpu-core": "100",
                    "koordinator.sh/gpu-memory": "16Gi",
                    "koordinator.sh/gpu-memory-ratio": "100",
                },
            }
        ]
    }
    await cluster.create(an_owner("p", 100))
    assert (await cluster.pod("p")).metadata.annotations[DEVICE_ALLOCATED] == annotation
    assert await from_reservation(cluster, "p") == "r"
    assert (await cluster.reservation("r")).phase == "Succeeded"


async def test_N027_R056_two_owners_share_the_gpu_of_a_reservation(cluster):
    await cluster.create(a_gpu_node(), a_device_object())
    await cluster.create(a_gpu_reservation("r", 100, allocate_once=False))
    await cluster.create(an_owner("a", 50), an_owner("b", 50))
    for name in ("a", "b"):
        assert await devices_of(cluster, name) == [("gpu", 0, 50)]
        assert "8Gi" in (await cluster.pod(name)).metadata.annotations[DEVICE_ALLOCATED]
    assert await counted(cluster, "r") == 100


async def test_N028_R057_a_share_that_does_not_fit_goes_to_another_gpu(cluster):
    await cluster.create(a_gpu_node(), a_device_object())
    await cluster.create(a_gpu_reservation("r", 100, allocate_once=False))
    await cluster.create(an_owner("a", 60), an_owner("b", 50))
    assert await devices_of(cluster, "a") == [("gpu", 0, 60)]
    assert await devices_of(cluster, "b") == [("gpu", 1, 50)]
    assert await from_reservation(cluster, "a") == await from_reservation(cluster, "b") == "r"
    assert await counted(cluster, "r") == 110


async def test_N028_R057_without_another_gpu_the_share_waits(cluster):
    await cluster.create(a_gpu_node(), a_device_object("n", a_gpu(0)))
    await cluster.create(a_gpu_reservation("r", 100, allocate_once=False))
    await cluster.create(an_owner("a", 60), an_owner("b", 50))
    assert await devices_of(cluster, "a") == [("gpu", 0, 60)]
    assert await cluster.node_of("b") == ""
    assert "Insufficient" in await cluster.why("b")


async def test_N029_a_restricted_reservation_gives_no_other_gpu(cluster):
    await cluster.create(a_gpu_node(), a_device_object())
    await cluster.create(
        a_gpu_reservation("r", 100, allocate_once=False, allocate_policy="Restricted")
    )
    await cluster.create(an_owner("a", 60, reservation_affinity=True))
    await cluster.create(an_owner("b", 50, reservation_affinity=True))
    assert await cluster.node_of("b") == ""
    assert f"Reservation(s) Insufficient {GPU}" in await cluster.why("b")
    await cluster.create(an_owner("c", 40, reservation_affinity=True))
    assert await devices_of(cluster, "c") == [("gpu", 0, 40)]
    assert await counted(cluster, "r") == 100


async def test_N030_other_pods_do_not_get_a_reserved_gpu(cluster):
    await cluster.create(a_gpu_node(), a_device_object())
    await cluster.create(a_gpu_reservation("r", 100))
    await cluster.create(a_gpu_pod("a", 100), a_gpu_pod("b", 100))
    assert await devices_of(cluster, "a") == [("gpu", 1, 100)]
    assert await cluster.node_of("b") == ""
    await cluster.create(a_gpu_pod("c", 100, labels={IGNORED: "true"}))
    assert await devices_of(cluster, "c") == [("gpu", 0, 100)]


async def test_N031_an_aligned_reservation_without_room_is_not_used(cluster):
    await cluster.create(a_gpu_node(), a_device_object())
    await cluster.create(
        a_gpu_reservation("r", 50, cpu=None, allocate_once=False, allocate_policy="Aligned")
    )
    assert await reserved(cluster, "r") == [("gpu", 0, 50)]
    await cluster.create(an_owner("a", 40), an_owner("b", 40), an_owner("c", 40))
    assert await devices_of(cluster, "a") == [("gpu", 0, 40)]
    assert await devices_of(cluster, "b") == [("gpu", 0, 40)]
    assert await devices_of(cluster, "c") == [("gpu", 1, 40)]
    assert await from_reservation(cluster, "c") == ""


async def test_N032_shares_do_not_span_gpus(cluster):
    node = a_gpu_node(allocatable={GPU: "400"})
    await cluster.create(node, a_device_object("n", *map(a_gpu, range(4))))
    await cluster.create(
        a_gpu_reservation("r", 200, allocate_once=False, allocate_policy="Restricted")
    )
    assert await reserved(cluster, "r") == [("gpu", 0, 100), ("gpu", 1, 100)]
    for name in ("a", "b", "c"):
        await cluster.create(an_owner(name, 60, reservation_affinity=True))
    assert await devices_of(cluster, "a") == [("gpu", 0, 60)]
    assert await devices_of(cluster, "b") == [("gpu", 1, 60)]
    assert "Reservation(s) Insufficient gpu devices" in await cluster.why("c")


async def test_N033_names_of_owner_and_reservation_may_differ(cluster):
    await cluster.create(a_gpu_node(), a_device_object())
    await cluster.create(a_gpu_reservation("r", 100, allocate_once=False))
    half = {"core": "50", "ratio": "50", "shared": "1"}
    await cluster.create(an_owner("p", requests=half))
    assert await devices_of(cluster, "p") == [("gpu", 0, 50)]
    assert await from_reservation(cluster, "p") == "r"
    assert await counted(cluster, "r") == 50


async def test_R058_minors_come_from_the_nominated_reservation_only(cluster):
    node = a_gpu_node(allocatable={GPU: "800"})
    await cluster.create(node, a_device_object("n", *map(a_gpu, range(8))))
    for minor in range(8):  # the reservations get the minors 2 and 7
        if minor in (2, 7):
            await cluster.create(a_gpu_reservation(f"r{minor}", 100, allocate_once=False))
        else:
            await cluster.create(a_gpu_pod(f"p{minor}", 100))
    assert await reserved(cluster, "r2") == [("gpu", 2, 100)]
    assert await reserved(cluster, "r7") == [("gpu", 7, 100)]
    await cluster.create(an_owner("p", 60), an_owner("q", 60))
    first, second = await from_reservation(cluster, "p"), await from_reservation(cluster, "q")
    assert {first, second} == {"r2", "r7"}
    assert await devices_of(cluster, "p") == [("gpu", int(first[1:]), 60)]
    assert await devices_of(cluster, "q") == [("gpu", int(second[1:]), 60)]


async def test_ND13_amounts_come_from_the_nominated_reservation_too(cluster):
    await cluster.create(a_gpu_node(), a_device_object())
    for name in ("r0", "r1"):
        await cluster.create(a_gpu_reservation(name, 50, allocate_once=False))
    assert await reserved(cluster, "r1") == [("gpu", 1, 50)]
    await cluster.create(an_owner("p", 80))
    (used,) = {"r0", "r1"} & {await from_reservation(cluster, "p")}
    (other,) = {"r0", "r1"} - {used}
    assert await devices_of(cluster, "p") == [("gpu", int(used[1:]), 80)]
    assert (await counted(cluster, used), await counted(cluster, other)) == (80, 0)
    await cluster.create(a_gpu_pod("big", 51), a_gpu_pod("half", 50))
    assert await cluster.node_of("big") == ""
    assert await devices_of(cluster, "half") == [("gpu", int(other[1:]), 50)]
    await cluster.create(an_owner("q", 50))
    assert await from_reservation(cluster, "q") == other


async def test_state_is_the_same_after_a_restart(cluster):
    await cluster.create(a_gpu_node(), a_device_object())
    await cluster.create(a_gpu_reservation("r", 100, allocate_once=False))
    await cluster.create(an_owner("a", 60))
    await cluster.restart()
    await cluster.create(a_gpu_pod("other", 50), an_owner("b", 40))
    assert await devices_of(cluster, "other") == [("gpu", 1, 50)]
    assert await devices_of(cluster, "b") == [("gpu", 0, 40)]
    await cluster.delete(PODS, "a", "default")
    await cluster.create(an_owner("c", 60))
    assert await devices_of(cluster, "c") == [("gpu", 0, 60)]


SAME_HALF = [
    {GPU: "50"},
    {"core": "50", "ratio": "50"},
    {"core": "50", "ratio": "50", "shared": "1"},
]


@pytest.mark.parametrize("written", range(3))
@pytest.mark.parametrize("asked", range(3))
async def test_N033_restricted_checks_do_not_depend_on_names(cluster, written, asked):
    """ND5: two halves are the whole reservation, whatever their names; a third is too much."""
    await cluster.create(a_gpu_node(), a_device_object())
    whole = {
        named(key): "100" if key != "shared" else amount
        for key, amount in SAME_HALF[written].items()
    }
    reservation = a_reservation(
        "r", cpu="8", requests=whole, owner_labels={"app": "web"}, allocate_once=False,
        allocate_policy="Restricted",
    )  # fmt: skip
    await cluster.create(reservation)
    assert await reserved(cluster, "r") == [("gpu", 0, 100)]
    for name in ("a", "b", "c"):
        await cluster.create(an_owner(name, requests=SAME_HALF[asked], reservation_affinity=True))
    for name in ("a", "b"):
        assert await devices_of(cluster, name) == [("gpu", 0, 50)]
        assert await from_reservation(cluster, name) == "r"
    assert await cluster.node_of("c") == ""
    assert "Reservation(s) Insufficient" in await cluster.why("c")
    (name,) = {named(key) for key in SAME_HALF[written]} & {GPU, GPU_CORE}
    assert await counted(cluster, "r", name) == 100


async def test_owners_of_whole_gpus_by_the_name_of_the_vendor(cluster):
    node = a_gpu_node(allocatable={NVIDIA: "2"})
    await cluster.create(node, a_device_object())
    await cluster.create(
        a_reservation("r", requests={NVIDIA: "1"}, owner_labels={"app": "web"}),
        a_gpu_pod("other", requests={NVIDIA: "1"}),
        a_gpu_pod("late", requests={NVIDIA: "1"}),
    )
    assert await reserved(cluster, "r") == [("gpu", 0, 100)]
    assert await devices_of(cluster, "other") == [("gpu", 1, 100)]
    assert await cluster.node_of("late") == ""
    await cluster.create(an_owner("p", requests={NVIDIA: "1"}))
    assert await devices_of(cluster, "p") == [("gpu", 0, 100)]
    assert await from_reservation(cluster, "p") == "r"


async def test_bytes_of_memory_are_reserved(cluster):
    await cluster.create(a_gpu_node(), a_device_object("n", a_gpu(0)))
    memory = {GPU_MEMORY: "8Gi"}
    await cluster.create(
        a_reservation("r", cpu="8", requests=memory, owner_labels={"app": "web"}),
        a_gpu_pod("big", requests={"ratio": "51"}),
        a_gpu_pod("small", requests={"ratio": "50"}),
    )
    assert await reserved(cluster, "r") == [("gpu", 0, 50)]
    assert await cluster.node_of("big") == ""
    assert await devices_of(cluster, "small") == [("gpu", 0, 50)]
    await cluster.create(an_owner("p", requests={"memory": "8Gi"}))
    assert await devices_of(cluster, "p") == [("gpu", 0, 50)]


async def test_what_no_owner_has_is_free_when_the_reservation_ends(cluster):
    await cluster.create(a_gpu_node(), a_device_object("n", a_gpu(0)))
    await cluster.create(a_gpu_reservation("r", 100, allocate_once=False, ttl="60s"))
    await cluster.create(an_owner("a", 60), a_gpu_pod("p", 40), a_gpu_pod("q", 41))
    assert await cluster.node_of("p") == await cluster.node_of("q") == ""
    await cluster.advance(600)
    assert (await cluster.reservation("r")).phase == "Failed"
    assert await devices_of(cluster, "p") == [("gpu", 0, 40)]
    assert await cluster.node_of("q") == ""


async def test_a_new_reservation_of_the_same_name_has_devices_of_its_own(cluster):
    """ND7: owners are known by uid."""
    await cluster.create(a_gpu_node(), a_device_object())
    await cluster.create(a_gpu_reservation("r", 100, allocate_once=False))
    await cluster.create(an_owner("a", 60))
    assert await devices_of(cluster, "a") == [("gpu", 0, 60)]
    await cluster.delete(RESERVATIONS, "r")
    await cluster.create(a_gpu_reservation("r", 100, allocate_once=False))
    assert await reserved(cluster, "r") == [("gpu", 1, 100)]
    assert await counted(cluster, "r") == 0
    await cluster.create(an_owner("b", 100), a_gpu_pod("p", 40))
    assert await devices_of(cluster, "b") == [("gpu", 1, 100)]
    assert await devices_of(cluster, "p") == [("gpu", 0, 40)]


async def test_ND6_a_device_that_lists_too_little_is_not_used(cluster):
    bare = a_gpu(0)
    del bare["resources"][GPU_CORE]
    await cluster.create(a_gpu_node(), a_device_object("n", bare))
    await cluster.create(a_gpu_reservation("r", 50), a_gpu_pod("p", 50))
    assert (await cluster.reservation("r")).phase == "Pending"
    assert await cluster.node_of("p") == ""
    await cluster.create(a_gpu_pod("q", requests={"ratio": "50"}))
    assert await devices_of(cluster, "q") == [("gpu", 0, 50)]
