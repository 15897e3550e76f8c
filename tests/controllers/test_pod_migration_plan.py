"""The step of a migration as a value: when a pod is evicted, and when it is not."""

import pytest

from holdfast.api.scheme import POD_MIGRATION_JOBS
from holdfast.controllers.pod_migration.plan import Action, Facts, plan_step
from holdfast.testing import a_pod, a_reservation
from holdfast.testing.builders import an_object, typed

OWNER = {"app": "web"}
READY = {"type": "Ready", "status": "True"}
OVERCOMMITTED = {"type": "Ready", "status": "False", "reason": "Overcommitted"}


def action(phase, *conditions, node="n2", pod_node="n1", **spec):
    job = typed(
        an_object(
            POD_MIGRATION_JOBS,
            "j",
            {
                "podRef": {"namespace": "default", "name": "p"},
                "reservationOptions": {"reservationRef": {"name": "r"}},
            },
        )
    )
    status = {"phase": phase, "nodeName": node, "conditions": list(conditions)}
    held = typed(a_reservation("r", owner_labels=OWNER, status=status, **spec))
    pod = typed(a_pod("p", labels=OWNER, node=pod_node))
    return plan_step(job, Facts(pod, held), "ReservationFirst", 0.0).action


def test_an_available_reservation_lets_the_pod_be_evicted():
    assert action("Available", READY) is Action.EVICT
    assert action("Available") is Action.EVICT


@pytest.mark.parametrize("phase", ["", "Pending", "Waiting", "Succeeded", "Failed", "Unknown"])
def test_no_other_phase_does(phase):
    assert action(phase) is Action.WAIT


def test_an_overcommitted_reservation_does_not():
    assert action("Available", OVERCOMMITTED) is Action.WAIT


def test_a_reservation_that_waits_for_this_very_pod_does():
    assert action("Waiting", pod_node="n2", pre_allocation=True) is Action.EVICT
    assert action("Waiting", pre_allocation=True) is Action.WAIT
