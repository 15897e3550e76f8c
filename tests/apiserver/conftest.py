import pytest

from apiserver.server_fixture import start_server


@pytest.fixture
async def api(tmp_path):
    """Start an API server with an admin session."""
    async with start_server(tmp_path) as running:
        yield running
