"""The common setup: namespace `web`, nodes a1, a2 (tier=od), b1, b2 (tier=spot) and c1.

Objects and questions are in ``policies.objects``.
"""

from contextlib import AsyncExitStack

import pytest

from holdfast.scheduling.plugins import default_profiles
from holdfast.testing.harness import Harness
from policies.objects import common_nodes, policy
from scheduler.scheduler_network import SchedulerNetwork


@pytest.fixture
def network():
    """Faults between the scheduler and the API server; see ``delay_binds`` and ``fail_binds``."""
    return SchedulerNetwork()


@pytest.fixture
async def start(tmp_path, network):
    """Return a function that starts a cluster with the five nodes and without a policy.

    ``args`` are the arguments of the plugin, ``nodes`` replaces the nodes; other keywords are those
    of ``Harness``.
    """
    async with AsyncExitStack() as stack:

        async def started(*, args=None, nodes=None, **harness):
            if args is not None:
                harness["profiles"] = default_profiles({"resourcepolicy": args})
            harness.setdefault("wrap", network.wrap)
            cluster = await stack.enter_async_context(Harness(tmp_path / "store", **harness))
            await cluster.create(*common_nodes() if nodes is None else nodes)
            return cluster

        yield started


@pytest.fixture
async def cluster(start):
    """A cluster with namespace `web` and the five nodes, without a policy."""
    return await start()


@pytest.fixture
async def governed(cluster):
    """The same with policy `p`: od (priority 5, at most 2), spot (4, 3), strategy prefer."""
    await cluster.create(policy())
    return cluster


@pytest.fixture
async def required(cluster):
    """The same with the strategy `required`."""
    await cluster.create(policy(strategy="required"))
    return cluster
