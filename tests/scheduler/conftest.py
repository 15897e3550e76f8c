import pytest

from holdfast.testing.fake_extender import FakeExtender


@pytest.fixture
async def extender():
    async with FakeExtender() as fake:
        yield fake
