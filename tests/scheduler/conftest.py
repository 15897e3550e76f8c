import pytest

from holdfast.testing.fake_extender import FakeExtender
from holdfast.testing.harness import Harness
from scheduler.schedulers_line import SchedulersLine


@pytest.fixture
async def extender():
    async with FakeExtender() as fake:
        yield fake


@pytest.fixture
def line():
    return SchedulersLine()


@pytest.fixture
async def cluster(tmp_path, line):
    async with Harness(tmp_path / "store", wrap=line.wrap) as harness:
        yield harness
