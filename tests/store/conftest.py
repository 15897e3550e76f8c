"""Fixtures: stores in a temporary directory, with a virtual clock."""

import pytest

from holdfast.server.store import Store
from holdfast.testing import VirtualClock


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
async def opened(tmp_path, clock):
    """Return a function that opens stores; open stores are closed after the test."""
    stores = []

    def opening(directory=None, **options):
        store = Store.open(directory or tmp_path / "data", clock, **options)
        clock.busy.append(lambda: store.busy)
        stores.append(store)
        return store

    yield opening
    for store in stores:
        await store.close()


@pytest.fixture
async def store(opened):
    return opened()
