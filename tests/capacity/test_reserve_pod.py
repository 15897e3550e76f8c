"""The reserve pod of a reservation."""

import pytest

from holdfast.api import reservation_names as names
from holdfast.capacity.reserve_pod import reserve_pod
from holdfast.testing import a_reservation, typed

HIGHEST = 2147483647


@pytest.mark.parametrize(
    ("label", "priority"),
    [
        ("7", 7), ("-2147483648", -HIGHEST - 1), ("2147483647", HIGHEST),
        ("2147483648", HIGHEST), ("-2147483649", HIGHEST), ("x", HIGHEST), (None, HIGHEST),
    ],
)  # fmt: skip
def test_the_priority_is_the_label_or_the_highest(label, priority):
    labels = {names.PRIORITY: label} if label else {}
    pod = reserve_pod(typed(a_reservation("r", labels=labels)))
    assert pod.spec.priority == priority
