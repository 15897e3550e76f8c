"""An invalid stored PriorityClass does not prevent the creation of pods."""

from __future__ import annotations

import pytest

from apiserver.direct_store import store_directly
from apiserver.sample_objects import PODS, pod
from apiserver.server_fixture import start_server
from holdfast.server.store import ObjectKey

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


async def test_a_class_without_value_has_the_value_zero(api):
    made = await api.create(CLASSES, {"metadata": {"name": "plain"}, "globalDefault": True})
    assert (made["value"], made["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    spec = (await api.create(PODS, pod("p")))["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("plain", 0)


async def test_wrong_values_are_rejected(api):
    for value in (10**30, 1 << 31, "7", 1.5, True, [1]):
        body = {"metadata": {"name": "plain"}, "globalDefault": True, "value": value}
        assert (await api.call("POST", CLASSES, body)).status == 400
    await api.create(PODS, pod("p"))


@pytest.mark.parametrize("value", [None, "7", 1.5, 10**18, [], {"a": 1}, "missing"])
async def test_a_stored_class_with_a_wrong_value_counts_as_zero(tmp_path, value):
    body = {"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1",
            "metadata": {"name": "old"}, "globalDefault": True, "preemptionPolicy": 5,
            **({} if value == "missing" else {"value": value})}  # fmt: skip
    key = ObjectKey("scheduling.k8s.io", "priorityclasses", "", "old")
    await store_directly(tmp_path / "store", (key, body))
    async with start_server(tmp_path) as api:
        made = await api.create(PODS, pod("p"))
        assert (made["spec"]["priorityClassName"], made["spec"]["priority"]) == ("old", 0)
        other = {"metadata": {"name": "other"}, "globalDefault": True, "value": 1}
        assert (await api.call("POST", CLASSES, other)).status == 403
        assert (await api.call("DELETE", f"{CLASSES}/old")).status == 200
        await api.create(CLASSES, other)


async def test_a_stored_class_with_a_wrong_value_is_logged_once(tmp_path, caplog):
    body = {"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1",
            "metadata": {"name": "logged"}, "globalDefault": True, "value": "7"}  # fmt: skip
    key = ObjectKey("scheduling.k8s.io", "priorityclasses", "", "logged")
    await store_directly(tmp_path / "store", (key, body))
    async with start_server(tmp_path) as api:
        for number in range(3):
            await api.create(PODS, pod(f"p{number}"))
    lines = [line for line in caplog.messages if "fields of wrong types" in line]
    assert len(lines) == 1
    assert lines[0].endswith(
        '"logged" is stored with fields of wrong types, which are ignored: value'
    )
