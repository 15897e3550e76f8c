"""The time limit of binding conditions, also when the clock is set meanwhile."""

import pytest

from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.dynamic_resources.binding_conditions import (
    BindingTimeout,
    wait_until_prepared,
)
from holdfast.state.devices.claims import Claims
from holdfast.testing import a_claim, a_pod, typed

START, LIMIT = 1_700_000_000.0, 600.0
RESULT = {
    "request": "req-0", "driver": "gpu.example.com", "pool": "n", "device": "gpu-0",
    "bindingConditions": ["ready"],
}  # fmt: skip


def waited(clock, ready_after=None):
    """Return for how many seconds the pod waited; ``clock`` returns the time after so many."""
    pod = World().pod_info(typed(a_pod("p")))
    claims = Claims(lambda _device: None)
    status = {
        "allocation": {
            "devices": {"results": [RESULT]}, "allocationTimestamp": "2023-11-14T22:13:20Z",
        },
        "reservedFor": [{"resource": "pods", "name": "p", "uid": pod.uid}],
    }  # fmt: skip
    claim = typed(a_claim("c", status=status, metadata={"uid": "c", "resourceVersion": "1"}))
    claims.upsert(claim)
    calls = wait_until_prepared(claims, [claim], Placement(pod, 0, "n", {}), LIMIT)
    seconds, call = 0.0, next(calls)
    try:
        while True:
            sent = None
            if call.verb == "sleep":
                seconds += call.body
                sent = clock(seconds)
            if ready_after is not None and seconds >= ready_after:
                condition = {"type": "ready", "status": "True"}
                devices = [{k: RESULT[k] for k in ("driver", "pool", "device")}
                           | {"conditions": [condition]}]  # fmt: skip
                meta = {"uid": "c", "resourceVersion": "2"}
                claims.upsert(
                    typed(a_claim("c", status=status | {"devices": devices}, metadata=meta))
                )
            call = calls.send(sent)
    except StopIteration:
        return seconds


@pytest.mark.parametrize(
    ("clock", "seconds"),
    [
        (lambda waited: START + waited, LIMIT),
        # The clock is set back by an hour: the limit is counted from the wait.
        (lambda waited: START - 3600 + waited, LIMIT),
        (lambda waited: START - waited, LIMIT),
        # It is set forward by an hour: by it, the allocation is too old.
        (lambda waited: START + waited + (3600 if waited > 20 else 0), 25),
    ],
)
def test_D051_the_wait_ends_at_the_time_limit_whatever_the_clock_does(clock, seconds):
    times = []

    def observed(so_far):
        times.append(so_far)
        return clock(so_far)

    with pytest.raises(BindingTimeout):
        waited(observed)
    assert seconds <= times[-1] <= seconds + 5


def test_D051_a_device_that_is_ready_is_used_although_the_clock_was_set_forward():
    assert waited(lambda so_far: START + 1e6, ready_after=0) == 0
    assert waited(lambda so_far: START + so_far, ready_after=30) == 30
