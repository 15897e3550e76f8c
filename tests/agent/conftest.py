from __future__ import annotations

import pytest

from agent.process_cluster import short_directory
from controllers.small_cluster import start_small_cluster


@pytest.fixture
async def cluster(tmp_path):
    """A cluster with controllers and simulated nodes, without a scheduler."""
    async with start_small_cluster(tmp_path) as running:
        yield running


@pytest.fixture
def node_directory():
    """A directory with a short path: those of Unix sockets have at most 107 bytes."""
    with short_directory() as path:
        yield path
