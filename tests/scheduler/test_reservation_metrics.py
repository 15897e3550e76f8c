"""Reservations on the metrics page and in the debug view of a node."""

from holdfast.scheduling.scheduler.dump import node_reservations
from holdfast.testing import a_node, a_pod, a_reservation
from holdfast.testing.harness import Harness

WEB = {"app": "web"}
EXTRA = "example.com/x"


async def test_phases_and_amounts_are_on_the_metrics_page(tmp_path):
    async with Harness(tmp_path / "store") as cluster:
        room = {"cpu": "16", "memory": "32Gi"}
        held = a_reservation(
            "r", cpu="10", memory="10Gi", requests={EXTRA: 4}, owner_labels=WEB, allocate_once=False
        )
        await cluster.create(a_node("n", **room), held)
        assert cluster.metric("reservation_status_phase", name="r", phase="Pending") == 1
        await cluster.create(a_node("big", **room, allocatable={EXTRA: 8}))
        await cluster.advance(12)
        await cluster.create(a_pod("p", cpu="8", memory="8Gi", labels=WEB))
        assert cluster.metric("reservation_status_phase", name="r", phase="Available") == 1
        assert cluster.metric("reservation_status_phase", name="r", phase="Pending") == 0
        told = {
            (resource, type_, unit): cluster.metric(
                "reservation_resource", name="r", resource=resource, type=type_, unit=unit
            )
            for resource, own in (("cpu", "core"), ("memory", "Gi"), (EXTRA, "raw"))
            for type_, unit in (("allocatable", own), ("allocated", own), ("utilization", "ratio"))
        }
        assert told == {
            ("cpu", "allocatable", "core"): 10, ("cpu", "allocated", "core"): 8,
            ("cpu", "utilization", "ratio"): 0.8, ("memory", "allocatable", "Gi"): 10,
            ("memory", "allocated", "Gi"): 8, ("memory", "utilization", "ratio"): 0.8,
            (EXTRA, "allocatable", "raw"): 4, (EXTRA, "allocated", "raw"): 0,
            (EXTRA, "utilization", "ratio"): 0,
        }  # fmt: skip


async def test_the_debug_view_lists_the_reservations_of_a_node(tmp_path):
    async with Harness(tmp_path / "store") as cluster:
        await cluster.create(a_node("n", cpu="16"))
        await cluster.create(a_reservation("r", cpu="8", owner_labels=WEB, allocate_once=False))
        await cluster.create(a_pod("p", cpu="3", labels=WEB))
        (seen,) = node_reservations(cluster.world, "n")
        uid = (await cluster.pod("p")).uid
        assert (seen["name"], seen["phase"], seen["available"]) == ("r", "Available", True)
        assert seen["resources"]["millicores"] == {"reserved": 8000, "used": 3000, "left": 5000}
        assert seen["pods"] == {uid: {"millicores": 3000, "pods": 1}}
        assert node_reservations(cluster.world, "nowhere") is None
