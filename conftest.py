"""Doctests are collected only from files that have some: looking for them in all takes a second."""

from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule

Collectors = list[pytest.Collector]


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, Collectors, Collectors]:
    """Leave out the collector of doctests for a file without a prompt."""
    found = yield
    if (
        not any(isinstance(one, DoctestModule) for one in found)
        or b">>> " in file_path.read_bytes()
    ):
        return found
    return [one for one in found if not isinstance(one, DoctestModule)]
