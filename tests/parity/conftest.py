"""Skip (or, under CI, fail) without vectors; add the record of each case to the report."""

import pytest

from parity import vectors


def pytest_runtest_setup(item):
    record = getattr(item, "callspec", None) and item.callspec.params.get("record")
    if record is not None:
        item.user_properties.append(("vector", record.key))
    elif item.get_closest_marker("parity") and not vectors.present():
        words = vectors.ABSENT.format(vectors.directory())
        if vectors.must_be_present():
            pytest.fail(words, pytrace=False)
        pytest.skip(words)
