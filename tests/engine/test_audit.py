"""The auditor reports faults of this scheduler, and not those of others."""

import pytest

from holdfast.api import reservation_names as names
from holdfast.scheduling.engine.audit import Auditor
from holdfast.scheduling.engine.invariants import check_invariants
from holdfast.scheduling.framework.plugin import Placement
from holdfast.state.columns.interner import CPU
from holdfast.testing import (
    FakeCluster,
    a_device,
    a_device_class,
    a_node,
    a_pod,
    a_reservation,
    a_slice,
    typed,
)
from holdfast.testing.device_builders import a_claim

HELD = {"phase": "Available", "nodeName": "n1", "allocatable": {"cpu": "4"}}


@pytest.fixture
def cluster():
    held = a_reservation("r", cpu="4", owner_labels={"app": "web"}, allocate_once=False)
    return FakeCluster(
        a_node("n1", cpu="8"), a_node("n2", cpu="8"), held | {"status": HELD},
        a_pod("foreign", cpu="9", node="n2"),
    )  # fmt: skip


class Strict(Auditor):
    """Raises after every attempt."""

    def after_attempt(self, placement):
        super().after_attempt(placement)
        self.raise_faults()


@pytest.fixture
def audit(cluster):
    auditor = Strict(cluster.world)
    auditor.before_attempt()
    return auditor


def placed(cluster, name, *, node, assume=True, **options):
    """Put a pod on a node without filtering."""
    pod_info = cluster.world.pod_info(typed(a_pod(name, **options)))
    row = cluster.world.nodes.row_of[node]
    if assume:
        cluster.world.assume(pod_info, row)
    return Placement(pod_info, row, node, {})


def test_a_node_that_another_scheduler_overcommitted_is_no_fault(cluster, audit):
    """Another scheduler has overcommitted n2."""
    audit.after_attempt(placed(cluster, "p", node="n1", cpu="2"))
    with pytest.raises(
        AssertionError, match="I1: 9000 of cpu are requested on n2, allocatable 8000"
    ):
        check_invariants(cluster.world)


def test_overcommitting_a_node_is_a_fault(cluster, audit):
    with pytest.raises(AssertionError, match="I1: with default/p, 9000 of cpu are requested on n1"):
        audit.after_attempt(placed(cluster, "p", node="n1", cpu="5"))


def test_overcommitting_an_overcommitted_node_further_is_a_fault(cluster, audit):
    with pytest.raises(
        AssertionError, match="I1: with default/p, 10000 of cpu are requested on n2"
    ):
        audit.after_attempt(placed(cluster, "p", node="n2"))


def test_a_change_on_another_node_is_a_fault(cluster, audit):
    placed(cluster, "elsewhere", node="n1")
    with pytest.raises(AssertionError, match="I1: an attempt changed the requests on n1"):
        audit.after_attempt(placed(cluster, "p", node="n2", assume=False))


def test_a_change_without_a_placement_is_a_fault(cluster, audit):
    placed(cluster, "elsewhere", node="n1")
    audit.before_attempt()
    audit.after_attempt(None)
    cluster.world.forget("uid-pod-default-elsewhere")
    with pytest.raises(AssertionError, match="I1: an attempt changed the requests on n1"):
        audit.after_attempt(None)


def test_a_pod_that_ignores_reservations_may_use_reserved_resources_only(cluster, audit):
    ignoring = {names.IGNORED: "true"}
    audit.after_attempt(placed(cluster, "p", node="n1", cpu="6", labels=ignoring))
    audit.before_attempt()
    audit.after_attempt(placed(cluster, "r", node="n1", cpu="2", labels=ignoring))
    audit.before_attempt()
    with pytest.raises(
        AssertionError, match="I1: with default/q, 11000 of cpu are requested on n1"
    ):
        audit.after_attempt(placed(cluster, "q", node="n1", cpu="3", labels=ignoring))


def test_a_reservation_reduced_by_a_pod_that_does_not_use_it_is_a_fault(cluster, audit):
    reservations = cluster.world.reservations
    reservations.allocate("a-ghost", {"uid-reservation--r": {CPU: 1000}})
    with pytest.raises(AssertionError, match="I2: default/p lowered what r has left"):
        audit.after_attempt(placed(cluster, "p", node="n1", cpu="1"))


def test_a_reservation_that_appears_or_disappears_in_an_attempt_is_a_fault(cluster, audit):
    reservation = next(iter(cluster.world.reservations)).reservation
    cluster.world.delete(reservation)
    with pytest.raises(AssertionError, match="I2: an attempt changed which reservations"):
        audit.after_attempt(placed(cluster, "p", node="n1", cpu="1"))


def test_a_pod_that_uses_the_reservation_of_others_is_a_fault(cluster, audit):
    placement = placed(cluster, "p", node="n1", cpu="1")
    cluster.world.reservations.allocate(placement.pod.uid, {"uid-reservation--r": {CPU: 1000}})
    with pytest.raises(AssertionError, match="I4: default/p allocates from r and does not own it"):
        audit.after_attempt(placement)


def test_all_sums_are_computed_again_from_time_to_time(cluster, audit):
    """A wrong sum in the columns is found too, although no attempt caused it."""
    cluster.world.nodes.amounts.requested[CPU, 0] += 1
    audit.before_attempt()
    with pytest.raises(AssertionError, match="n1: requested cpu is 4001, but its pods"):
        audit.after_attempt(None)


def a_holder(name, device, *, share="", **consumed):
    """A claim that holds a device, or a share of it."""
    result = {"request": "r", "driver": "d", "pool": "n", "device": device}
    if share:
        result |= {"shareID": share, "consumedCapacity": consumed}
    allocation = {"devices": {"results": [result]}}
    return a_claim(name) | {"status": {"allocation": allocation}}


def gpus(*claims):
    shared = a_device("shared", capacity={"memory": "10Gi"}, allow_multiple_allocations=True)
    slice_ = a_slice(
        "s", driver="d", node="n", pool="n",
        devices=[a_device("whole"), shared],
    )  # fmt: skip
    cluster = FakeCluster(a_node("n"), a_device_class("c", driver="d"), slice_)
    cluster.add(*claims)
    return cluster.world


def test_I3_a_whole_device_serves_one_claim():
    check_invariants(gpus(a_holder("a", "whole")))
    with pytest.raises(AssertionError, match=r"I3: device \('d', 'n', 'whole'\) serves 2 claims"):
        check_invariants(gpus(a_holder("a", "whole"), a_holder("b", "whole")))
    mixed = gpus(a_holder("a", "shared"), a_holder("b", "shared", share="1", memory="1Gi"))
    with pytest.raises(AssertionError, match=r"I3: device \('d', 'n', 'shared'\) serves 2 claims"):
        check_invariants(mixed)


def test_I3_a_shared_device_serves_its_capacity():
    shares = [a_holder(f"c{n}", "shared", share=f"{n}", memory="5Gi") for n in range(3)]
    check_invariants(gpus(*shares[:2]))
    with pytest.raises(AssertionError, match="has 10Gi of memory, used 15Gi"):
        check_invariants(gpus(*shares))


def test_I3_counters_are_not_exceeded():
    parts = [
        a_device(
            f"part-{n}",
            consumes_counters=[{"counterSet": "cs", "counters": {"slots": {"value": "1"}}}],
        )
        for n in range(3)
    ]
    counters = [{"name": "cs", "counters": {"slots": {"value": "2"}}}]
    slices = [
        a_slice("s", driver="d", pool="n", devices=parts, slices=2),
        a_slice("t", driver="d", pool="n", devices=[], slices=2, shared_counters=counters),
    ]
    cluster = FakeCluster(a_node("n"), *slices, a_holder("a", "part-0"), a_holder("b", "part-1"))
    check_invariants(cluster.world)
    cluster.add(a_holder("c", "part-2"))
    with pytest.raises(AssertionError, match="has 2 of counter cs/slots, used 3"):
        check_invariants(cluster.world)


def test_I3_allocated_devices_that_differ_from_the_claims():
    world = gpus(a_holder("a", "whole"))
    del world.devices.allocated_devices.unshared["d", "n", "whole"]
    with pytest.raises(AssertionError, match="but claims hold"):
        check_invariants(world)


def test_an_unused_negative_counter_is_no_fault(cluster, audit):
    counters = [{"name": "set", "counters": {"memory": {"value": "-1"}}}]
    cluster.add(a_slice("odd", node="n1", devices=[], shared_counters=counters))
    audit.after_attempt(placed(cluster, "p", node="n1", cpu="2"))
