"""What a scheduler writes while it stops."""

from collections import Counter

import pytest

from holdfast.api.scheme import EVENTS
from holdfast.testing import Fault, FaultyTransport, a_node, a_pod
from holdfast.testing.harness import Harness


def slow_events(transport, clock):
    slow = Fault("delay", method="POST", path="/events", times=10**6, seconds=1.0)
    return FaultyTransport(transport, [slow], clock=clock)


@pytest.mark.long
async def test_the_event_of_every_bind_is_stored_before_stop_returns(tmp_path):
    async with Harness(tmp_path, wrap=slow_events) as cluster:
        await cluster.create(*(a_node(f"n{n}", cpu="64") for n in range(3)))
        await cluster.create(*(a_pod(f"p{n}", cpu="100m") for n in range(120)))
        await cluster.restart_components()
        listing = await cluster.client.list(EVENTS, "default")
        events = Counter(e.involved_object.name for e in listing.items if e.reason == "Scheduled")
    assert events == {f"p{n}": 1 for n in range(120)}
