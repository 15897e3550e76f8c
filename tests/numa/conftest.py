"""A whole cluster for each test."""

import pytest

from holdfast.testing.harness import Harness


@pytest.fixture
async def cluster(tmp_path):
    async with Harness(tmp_path) as harness:
        yield harness
