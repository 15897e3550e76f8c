import pytest

from holdfast.testing import a_node, a_pod
from holdfast.testing.harness import Harness


async def test_an_error_of_the_scheduling_loop_fails_the_test_that_waits_for_it(tmp_path):
    async with Harness(tmp_path) as cluster:
        cluster.world.auditor.note_faults(["a row is wrong"])
        with pytest.raises(AssertionError, match=r"schedule pods.* has stopped: .*a row is wrong"):
            await cluster.create(a_node("n"), a_pod("p"))


async def test_a_scheduler_that_a_test_stops_is_no_failure(tmp_path):
    async with Harness(tmp_path) as cluster:
        await cluster.components.scheduler.stop()
        await cluster.create(a_node("n"), a_pod("p"))
        assert await cluster.node_of("p") == ""
