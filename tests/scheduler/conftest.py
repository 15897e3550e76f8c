import pytest

from holdfast.testing.fake_extender import FakeExtender
from holdfast.testing.harness import Harness
from scheduler.scheduler_network import SchedulerNetwork


@pytest.fixture
async def extender():
    async with FakeExtender() as fake:
        yield fake


@pytest.fixture
def network():
    return SchedulerNetwork()


@pytest.fixture
async def cluster(tmp_path, network):
    async with Harness(tmp_path / "store", wrap=network.wrap) as harness:
        yield harness
