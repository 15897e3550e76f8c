"""The reserve pod of a reservation."""

import pytest

from holdfast.api import reservation_names as names
from holdfast.api.requests import pod_request
from holdfast.state.reservations.reserve_pod import reserve_pod
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


def test_a_resize_keeps_the_other_requests_of_the_template():
    resize = {names.RESIZE: '{"resources":{"memory":"2Gi"}}'}
    pod = reserve_pod(typed(a_reservation("r", cpu="1500m", memory="1Gi", annotations=resize)))
    assert pod_request(pod).amounts == {"cpu": 1500, "memory": 2 << 30}
