"""Owners of reservations that name GPUs differently."""

from device_share.objects import a_device_object, a_gpu, a_gpu_node, an_owner
from holdfast.api.koordinator_names import GPU, GPU_CORE, GPU_MEMORY_RATIO
from holdfast.testing import a_reservation
from holdfast.testing.harness import Harness

PARTS = {GPU_CORE: "50", GPU_MEMORY_RATIO: "50"}


async def test_an_owner_is_told_what_is_short_in_reservations_of_either_names(tmp_path):
    async with Harness(tmp_path) as cluster:
        for node, requests in (("a", {GPU: "50"}), ("b", PARTS)):
            await cluster.create(a_device_object(node, a_gpu(0)), a_gpu_node(node))
            reservation = a_reservation(
                node, requests=requests, owner_labels={"app": "web"}, template={"node": node},
                allocate_policy="Restricted",
            )  # fmt: skip
            await cluster.create(reservation)
        too_much = {GPU_CORE: "100", GPU_MEMORY_RATIO: "100"}
        await cluster.create(an_owner("p", requests=too_much, reservation_affinity=True))
        assert not await cluster.node_of("p")
        why = await cluster.why("p")
        assert f"1 Reservation(s) Insufficient {GPU}" in why, why
        assert f"1 Reservation(s) Insufficient {GPU_CORE}" in why, why
