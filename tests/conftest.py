"""What holds for all tests."""

import gc

# Thousands of small clusters come and go, and most of what they leave needs no search for cycles.
gc.set_threshold(20_000, 10, 10)


def pytest_collection_modifyitems(items):
    """Start long tests first, so that nobody waits for the last of them alone."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
