"""Devices and annotations that no well-behaved writer would write."""

import json

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_share.objects import (
    a_device_object,
    a_gpu,
    a_gpu_node,
    a_gpu_pod,
    a_gpu_reservation,
    an_owner,
    devices_of,
    reserved,
)
from holdfast.api import koordinator_names as names
from holdfast.api.decode import convert_object
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.scheme import SHARED_DEVICES
from holdfast.api.shared_device import SharedDevices
from holdfast.runtime.errors import BadRequest, Invalid
from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.device_share import DeviceShare
from holdfast.scheduling.plugins.device_share.allocator import DeviceAllocator
from holdfast.state.device_share import ledger
from holdfast.state.device_share.allocation_annotation import _decode_short, read_allocations
from holdfast.testing import a_pod

DEEP = "[" * 20_000
ANNOTATIONS = [
    "", " ", "null", "[]", "{}", "nonsense", DEEP, '{"gpu":' + DEEP, '{"gpu":{}}',
    '{"gpu":[null]}', '{"gpu":[{"minor":"0"}]}', '{"gpu":[{"minor":-1}]}',
    '{"gpu":[{"minor":99999999999999999999}]}', '{"gpu":[{"minor":0,"resources":{"x":[]}}]}',
    '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"-5"}}]}',
    '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"1e999999"}}]}',
    '{"gpu":[{"minor":0,"extension":{"vfs":[{"busID":7}]}}]}',
]  # fmt: skip
LOADED = (
    '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100",'
    '"koordinator.sh/gpu-memory":"16Gi","koordinator.sh/gpu-memory-ratio":"100"}}]}'
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
amounts = st.sampled_from(["0", "100", "16Gi", "-1", "1e30", "9223372036854775807", "x", 7, 0.5])
devices = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["gpu", "rdma", "fpga", "tpu", ""]),
        "minor": st.sampled_from([0, 0, 1, -1, 2**31, 2**70]),
        "health": st.booleans(),
        "resources": st.dictionaries(
            st.sampled_from([names.GPU_CORE, names.GPU_MEMORY, names.GPU_MEMORY_RATIO, names.RDMA]),
            amounts,
        ),
    },
    optional={
        "topology": st.fixed_dictionaries(
            {"nodeID": st.sampled_from([-1, 0, 63, 64, -(2**31), 2**70])},
            optional={"pcieID": st.sampled_from(["", "0", "a"])},
        ),
        "labels": st.dictionaries(st.text(max_size=3), st.text(max_size=3)),
        "vfGroups": json_values,
        "id": json_values,
    },
)
requests = st.dictionaries(
    st.sampled_from(
        ["nvidia.com/gpu", "koordinator.sh/gpu", names.GPU_CORE, names.GPU_MEMORY,
         names.GPU_MEMORY_RATIO, names.GPU_SHARED, names.RDMA, "huawei.com/npu-core"]
    ),
    st.sampled_from([0, 1, 50, 100, 150, 200, 10**15]),
    min_size=1,
)  # fmt: skip
hints = st.dictionaries(
    st.sampled_from(
        [names.DEVICE_ALLOCATE_HINT, names.DEVICE_JOINT_ALLOCATE, names.GPU_PARTITION_SPEC]
    ),
    json_values.map(json.dumps) | st.just(DEEP) | st.text(max_size=8),
    max_size=1,
)


@given(st.lists(devices, max_size=4), requests, hints, st.sampled_from(ANNOTATIONS))
def test_no_device_and_no_request_stops_the_plugin(listed, wanted, annotations, written):
    world, plugin = World(), DeviceShare()
    world.upsert(convert_object({"metadata": {"name": "n"}}, Node))
    notes = {names.GPU_PARTITIONS: written}
    raw = {"metadata": {"name": "n", "annotations": notes}, "spec": {"devices": listed}}
    try:
        world.upsert(convert_object(raw, SharedDevices))
        container = {"name": "c", "resources": {"requests": wanted}}
        meta = {"name": "p", "uid": "p", "annotations": annotations}
        pod = world.pod_info(
            convert_object({"metadata": meta, "spec": {"containers": [container]}}, Pod)
        )
    except (msgspec.ValidationError, BadRequest):
        return  # an informer leaves such an object out
    plan = plugin.pre_filter(pod, View(world, pod, 0.0))
    if not isinstance(plan, DeviceAllocator):
        return
    (verdict,) = plan.filter(np.array([0]))
    plan.score(np.array([0]))
    if verdict:
        assert plan.reasons(0)
        return
    placement = Placement(pod, 0, "n", {})
    assert plan.reserve(placement) is None
    if placement.annotations.get(names.DEVICE_ALLOCATED):
        used = world.device_share.state(world.device_share.signature(0)).used
        assert used == world.device_share.use_of("p")
        assert read_allocations(placement.annotations)


@given(json_values.map(json.dumps) | st.text(max_size=20))
def test_an_annotation_is_read_or_refused(text):
    try:
        read_allocations({names.DEVICE_ALLOCATED: text})
    except BadRequest as refusal:
        assert names.DEVICE_ALLOCATED in str(refusal)


@pytest.mark.parametrize("text", ANNOTATIONS, ids=range(len(ANNOTATIONS)))
async def test_annotations_of_bound_pods_do_not_stop_the_scheduler(cluster, text):
    notes = {names.DEVICE_ALLOCATED: text}
    node = a_gpu_node(allocatable={names.GPU: "300"})
    await cluster.create(node, a_device_object("n", *map(a_gpu, range(3))))
    await cluster.create(a_gpu_pod("bound", 50, node="n", annotations=notes))
    await cluster.create(a_gpu_reservation("r", 100, annotations=notes))
    await cluster.create(a_gpu_pod("p", 100, annotations=notes))
    (got,) = await reserved(cluster, "r")
    (other,) = await devices_of(cluster, "p")
    assert {got, other} < {("gpu", minor, 100) for minor in range(3)}


async def test_who_requests_no_devices_holds_none(cluster):
    """A forged annotation would keep devices from all others."""
    notes = {names.DEVICE_ALLOCATED: LOADED}
    await cluster.create(a_gpu_node(), a_device_object("n", a_gpu(0)))
    await cluster.create(
        a_pod("bound", node="n", annotations=notes), a_pod("scheduled", annotations=notes)
    )
    forged = a_gpu_reservation("r", 100, annotations=notes)
    forged["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    await cluster.create(forged)
    assert (await cluster.reservation("r")).phase == "Available"
    await cluster.create(a_gpu_pod("p", 100))
    assert await devices_of(cluster, "p") == [("gpu", 0, 100)]


async def test_a_forged_annotation_is_replaced_when_the_pod_is_bound(cluster):
    notes = {names.DEVICE_ALLOCATED: LOADED}
    await cluster.create(a_gpu_node(), a_device_object(), a_gpu_pod("first", 100))
    await cluster.create(a_gpu_pod("p", 20, annotations=notes))
    assert await devices_of(cluster, "p") == [("gpu", 1, 20)]


async def test_the_api_server_refuses_devices_that_would_be_counted_wrong(cluster):
    negative = a_gpu(0, memory="-1")
    for devices, field in (
        ([a_gpu(0), a_gpu(0)], "spec.devices"),
        ([negative], "spec.devices[0].resources"),
        ([a_gpu(-1)], "spec.devices[0].minor"),
        ([a_gpu(i) for i in range(257)], "spec.devices"),
    ):
        with pytest.raises(Invalid, match=field.replace("[", r"\[").replace("]", r"\]")):
            await cluster.client.create(SHARED_DEVICES, a_device_object("n", *devices))


async def test_unknown_numa_nodes_serve_any(cluster):
    await cluster.create(a_gpu_node(), a_device_object("n", a_gpu(0, numa=-1, pcie="a")))
    await cluster.create(a_gpu_reservation("r", 50, allocate_once=False), an_owner("p", 50))
    assert await devices_of(cluster, "p") == [("gpu", 0, 50)]


def test_long_annotations_of_many_pods_are_not_remembered(monkeypatch):
    """Else a user exhausts the memory of the scheduler with pods that come and go."""
    monkeypatch.setattr(ledger, "_MOST_PARTS", 40)
    world = World()
    world.upsert(convert_object(a_gpu_node(), Node))
    world.upsert(convert_object(a_device_object(), SharedDevices))
    for core in range(1, 31):
        amounts = {names.GPU_CORE: core}
        text = json.dumps({"gpu": [{"minor": m, "resources": amounts} for m in range(1000)]})
        raw = a_gpu_pod("p", core, annotations={names.DEVICE_ALLOCATED: text}, node_name="n")
        pod = convert_object(raw | {"metadata": raw["metadata"] | {"uid": "u"}}, Pod)
        world.delete(pod)
        world.upsert(pod)
        state = world.device_share.state(world.device_share.signature(0))
        assert state.free("gpu")[0][0] == 100 - core
    assert world.device_share.version == 1, "the states were forgotten once"
    before = _decode_short.cache_info().currsize
    assert len(read_allocations({names.DEVICE_ALLOCATED: text})["gpu"]) == 1000
    assert _decode_short.cache_info().currsize == before
