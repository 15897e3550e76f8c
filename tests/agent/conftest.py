from __future__ import annotations

import pytest

from controllers.small_cluster import start_small_cluster


@pytest.fixture
async def cluster(tmp_path):
    """A cluster with controllers and simulated nodes, without a scheduler."""
    async with start_small_cluster(tmp_path) as running:
        yield running
