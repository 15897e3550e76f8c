"""What holds for all tests."""

import gc

import pytest

from kubectl_program import find_kubectl, problem_of

# Thousands of small clusters come and go, and most of what they leave needs no search for cycles.
gc.set_threshold(50_000, 20, 10)


def pytest_addoption(parser):
    """Let recorded answers be written anew; without the option nothing is written."""
    parser.addoption("--record", action="store_true", help="write recorded answers anew")


def pytest_collection_modifyitems(items):
    """Start long tests first, so that nobody waits for the last of them alone."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish():
    """Modules and tests stay: the collector need not look at them again and again."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item):
    """Skip tests marked ``kubectl`` where there is none; fail them where it is too old."""
    if item.get_closest_marker("kubectl") is None:
        return
    path = find_kubectl()
    if problem := problem_of(path):
        (pytest.fail if path else pytest.skip)(problem)
