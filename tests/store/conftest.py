"""Stores in a fresh directory with a clock that is moved by hand."""

import pytest

from holdfast.store import Store
from holdfast.testing import VirtualClock


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
async def opened(tmp_path, clock):
    """Open stores; whatever is still open at the end is closed."""
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
