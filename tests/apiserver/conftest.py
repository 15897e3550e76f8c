import pytest

from apiserver.role_grants import grant
from apiserver.server_fixture import start_server


@pytest.fixture
async def api(tmp_path):
    """Start an API server with an admin session."""
    async with start_server(tmp_path) as running:
        yield running


@pytest.fixture
async def tenant(api):
    """The same; its user ``tenant`` has the ClusterRole ``edit`` in one namespace."""
    await grant(api, "edit")
    return api
