"""ClassicDynamicResources: which events requeue a pod that waits for its claims."""

import pytest

from holdfast.testing import a_node, a_pod
from holdfast.testing.classic_dra.builders import (
    a_classic_claim,
    a_classic_class,
    a_pod_scheduling,
    an_allocation,
    consumer,
    inline,
)
from plugins.classic_desk import OTHER, RELEASING, a_claim_pod, a_desk

POD = a_claim_pod("c", "d")
PENDING = a_classic_claim("c")
ALLOCATED = a_classic_claim("c", status=an_allocation())
MINE = a_classic_claim("c", status=an_allocation() | {"reservedFor": [consumer(POD)]})
IN_USE = a_classic_claim("c", status=an_allocation(consumers=[OTHER]))
GIVEN_UP = a_classic_claim("c", status=an_allocation() | RELEASING)
LABELLED = a_classic_claim("c", metadata={"labels": {"a": "b"}})


@pytest.mark.parametrize(
    ("old", "new", "strategy"),
    [
        (None, PENDING, "IMMEDIATELY"),
        (PENDING, ALLOCATED, "IMMEDIATELY"),
        (PENDING, MINE, "IMMEDIATELY"),
        (IN_USE, ALLOCATED, "IMMEDIATELY"),
        (GIVEN_UP, PENDING, "IMMEDIATELY"),
        (PENDING, LABELLED, "SKIP"),
        (ALLOCATED, None, "SKIP"),
        (ALLOCATED, MINE, "SKIP"),  # its own writes
        (MINE, ALLOCATED, "SKIP"),
        (MINE, GIVEN_UP, "SKIP"),
        (None, a_classic_claim("other"), "SKIP"),
        (None, a_classic_claim("c", namespace="elsewhere"), "SKIP"),
    ],
)
def test_a_pod_is_requeued_when_a_claim_of_it_can_be_used(old, new, strategy):
    assert a_desk().hint(POD, "ClassicResourceClaim", old, new) == strategy


def test_C021_an_owner_reference_added_by_hand_requeues_the_pod():
    pod = a_pod("p", claims=[inline("x")])
    without, owned = a_classic_claim("p-x"), a_classic_claim("p-x", owner=pod)
    assert a_desk().hint(pod, "ClassicResourceClaim", without, owned) == "IMMEDIATELY"


@pytest.mark.parametrize(
    ("old", "new", "strategy"),
    [
        (None, a_pod_scheduling(POD, selected="n1"), "SKIP"),
        (a_pod_scheduling(POD), a_pod_scheduling(POD, selected="n1"), "SKIP"),
        (a_pod_scheduling(POD), a_pod_scheduling(POD, c=[]), "SKIP"),
        (a_pod_scheduling(POD, c=[]), a_pod_scheduling(POD, c=[], d=[]), "IMMEDIATELY"),
        (
            a_pod_scheduling(POD, c=[], d=[], selected="n1"),
            a_pod_scheduling(POD, c=["n1"], d=[], selected="n1"),
            "IMMEDIATELY",
        ),
        (
            a_pod_scheduling(POD, c=["n2"], d=[], selected="n1"),
            a_pod_scheduling(POD, c=[], d=[], selected="n1"),
            "AFTER_BACKOFF",
        ),
        (a_pod_scheduling(POD, c=[]), None, "AFTER_BACKOFF"),
        (a_pod_scheduling(a_pod("p", metadata={"uid": "old"})), None, "SKIP"),
        (None, a_pod_scheduling(a_pod("p", metadata={"uid": "old"}), c=[], d=[]), "SKIP"),
    ],
)
def test_a_pod_is_requeued_when_all_drivers_have_answered(old, new, strategy):
    desk = a_desk(PENDING, a_classic_claim("d"))
    assert desk.hint(POD, "PodScheduling", old, new) == strategy


def test_other_events_requeue_after_backoff():
    desk = a_desk(PENDING, a_classic_claim("d"))
    assert desk.hint(POD, "ClassicResourceClass", None, a_classic_class()) == "AFTER_BACKOFF"
    assert desk.hint(POD, "ClassicResourceClass", None, a_classic_class("x")) == "SKIP"
    assert desk.hint(POD, "Node", None, a_node("n9")) == "AFTER_BACKOFF"
