"""The embedded cluster has Koordinator's priority classes."""

import pytest

from holdfast.testing import a_pod

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.mark.parametrize(
    ("name", "value"),
    [("koord-prod", 9999), ("koord-mid", 7999), ("koord-batch", 5999), ("koord-free", 3999)],
)
async def test_a_pod_may_have_a_priority_class_of_koordinator(api, name, value):
    found = (await api.call("GET", f"{CLASSES}/{name}")).json
    assert (found["value"], found.get("globalDefault", False)) == (value, False)
    pods = "/api/v1/namespaces/default/pods"
    made = await api.call("POST", pods, a_pod("p", priorityClassName=name))
    assert made.json["spec"]["priority"] == value
