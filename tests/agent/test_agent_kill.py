"""kill -9 of a node's agent and of its driver while pods with devices start, run and end.

``make soak`` says how many kills; each comes with two new pods. In the end nothing is prepared,
allocated, reserved or running, and no device was ever held by two claims.
"""

import pytest

from agent.killed_node import KILLS, KilledNode, kill_and_check
from agent.process_cluster import short_directory


@pytest.mark.skipif(not KILLS, reason="part of make soak")
@pytest.mark.timeout(3000)
async def test_nothing_is_left_or_double_however_often_agent_and_driver_are_killed():
    with short_directory() as directory:
        await kill_and_check(KilledNode(directory))
