"""The auditor tells our doing from that of others, and finds what nobody may do."""

import pytest

from holdfast.api import reservation_names as names
from holdfast.columns.interner import CPU
from holdfast.engine.audit import Auditor
from holdfast.engine.invariants import check_invariants
from holdfast.framework.plugin import Placement
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
    """Complains at once."""

    def after_attempt(self, placement):
        super().after_attempt(placement)
        self.raise_faults()


@pytest.fixture
def audit(cluster):
    auditor = Strict(cluster.world)
    auditor.before_attempt()
    return auditor


def placed(cluster, name, *, node, assume=True, **options):
    """Put a pod on a node without asking whether it fits."""
    pod_info = cluster.world.pod_info(typed(a_pod(name, **options)))
    row = cluster.world.nodes.row_of[node]
    if assume:
        cluster.world.assume(pod_info, row)
    return Placement(pod_info, row, node, {})


def test_others_may_overcommit_and_we_may_go_on_beside_it(cluster, audit):
    """n2 has more than it can bear; that is nobody's fault here."""
    audit.after_attempt(placed(cluster, "p", node="n1", cpu="2"))
    with pytest.raises(AssertionError, match="I1: n2 promised 9000 of cpu and has 8000"):
        check_invariants(cluster.world)


def test_room_we_take_beyond_what_a_node_has(cluster, audit):
    with pytest.raises(AssertionError, match="I1: with default/p, n1 promises 9000 of cpu"):
        audit.after_attempt(placed(cluster, "p", node="n1", cpu="5"))


def test_more_of_what_is_too_much_already(cluster, audit):
    with pytest.raises(AssertionError, match="I1: with default/p, n2 promises 10000 of cpu"):
        audit.after_attempt(placed(cluster, "p", node="n2"))


def test_a_change_on_a_node_that_was_not_chosen(cluster, audit):
    placed(cluster, "elsewhere", node="n1")
    with pytest.raises(AssertionError, match="I1: an attempt changed what is taken on n1"):
        audit.after_attempt(placed(cluster, "p", node="n2", assume=False))


def test_a_change_although_no_node_was_found(cluster, audit):
    placed(cluster, "elsewhere", node="n1")
    audit.before_attempt()
    audit.after_attempt(None)
    cluster.world.forget("uid-pod-default-elsewhere")
    with pytest.raises(AssertionError, match="I1: an attempt changed what is taken on n1"):
        audit.after_attempt(None)


def test_a_pod_that_ignores_reservations_stands_in_held_room_but_on_nobodys_feet(cluster, audit):
    ignoring = {names.IGNORED: "true"}
    audit.after_attempt(placed(cluster, "p", node="n1", cpu="6", labels=ignoring))
    audit.before_attempt()
    audit.after_attempt(placed(cluster, "r", node="n1", cpu="2", labels=ignoring))
    audit.before_attempt()
    with pytest.raises(AssertionError, match="I1: with default/q, n1 promises 11000 of cpu"):
        audit.after_attempt(placed(cluster, "q", node="n1", cpu="3", labels=ignoring))


def test_an_offer_lowered_by_somebody_who_draws_nothing(cluster, audit):
    offers = cluster.world.offers
    offers.assign("a-ghost", {"uid-reservation--r": {CPU: 1000}})
    with pytest.raises(AssertionError, match="I2: default/p lowered what r has left"):
        audit.after_attempt(placed(cluster, "p", node="n1", cpu="1"))


def test_an_offer_that_comes_or_goes_in_an_attempt(cluster, audit):
    reservation = next(iter(cluster.world.offers)).reservation
    cluster.world.delete(reservation)
    with pytest.raises(AssertionError, match="I2: an attempt changed which reservations"):
        audit.after_attempt(placed(cluster, "p", node="n1", cpu="1"))


def test_a_stranger_who_draws(cluster, audit):
    placement = placed(cluster, "p", node="n1", cpu="1")
    cluster.world.offers.assign(placement.pod.uid, {"uid-reservation--r": {CPU: 1000}})
    with pytest.raises(AssertionError, match="I4: default/p draws on r and does not own it"):
        audit.after_attempt(placement)


def test_everything_is_added_up_anew_now_and_then(cluster, audit):
    """A mistake in the columns that no single attempt made is found too."""
    cluster.world.nodes.amounts.requested[CPU, 0] += 1
    audit.before_attempt()
    with pytest.raises(AssertionError, match="n1: cpu says 4001, its parts say 4000"):
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


def test_I3_a_shared_device_serves_as_much_as_it_has():
    shares = [a_holder(f"c{n}", "shared", share=f"{n}", memory="5Gi") for n in range(3)]
    check_invariants(gpus(*shares[:2]))
    with pytest.raises(AssertionError, match="has 10Gi of memory, used 15Gi"):
        check_invariants(gpus(*shares))


def test_I3_counters_serve_once():
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


def test_a_counter_below_zero_that_nothing_uses_is_no_broken_promise(cluster, audit):
    counters = [{"name": "set", "counters": {"memory": {"value": "-1"}}}]
    cluster.add(a_slice("odd", node="n1", devices=[], shared_counters=counters))
    audit.after_attempt(placed(cluster, "p", node="n1", cpu="2"))
