"""Annotations of pods that guide the choice, and the annotation of allocated devices."""

import json

import pytest

from device_share.building import asked, chosen, gpu, holding, node, rdma
from holdfast.api.shared_device import VirtualFunction
from holdfast.runtime.errors import BadRequest
from holdfast.state.device_share.allocation_annotation import allocations_text, read_allocations
from holdfast.state.device_share.allocations import SharedDeviceAllocation, use_of
from holdfast.state.device_share.choosing import choose_devices

KEY = "scheduling.koordinator.sh/device-allocated"
GI = 2**30


def card(minor, kind="x", pcie="0"):
    functions = [{"minor": 5, "busID": f"{minor}.b"}, {"minor": 2, "busID": f"{minor}.a"}]
    groups = [{"labels": {"of": kind}, "vfs": functions}]
    return rdma(minor, labels={"kind": kind}, vfGroups=groups, at=(0, pcie))


CARDS = node(card(0, pcie="0"), card(1, pcie="0"), card(2, kind="y", pcie="1"))


@pytest.mark.parametrize(
    ("amount", "hint", "expected"),
    [
        (1, {"selector": {"matchLabels": {"kind": "y"}}}, {"rdma": [2]}),
        (1, {"allocateStrategy": "ApplyForAll"}, {"rdma": [0, 1, 2]}),
        (
            1,
            {"allocateStrategy": "ApplyForAll", "selector": {"matchLabels": {"kind": "z"}}},
            ("Insufficient rdma devices",),
        ),
        (2, {"allocateStrategy": "RequestsAsCount"}, {"rdma": [0, 1]}),
        (4, {"allocateStrategy": "RequestsAsCount"}, ("Insufficient rdma devices",)),
        (1, {"exclusivePolicy": "PCIeLevel"}, {"rdma": [2]}),  # ND9: 0 is in use, beside 1
        (1, {"vfSelector": {"matchLabels": {"of": "y"}}}, {"rdma": [2]}),
        (1, {"vfSelector": {"matchLabels": {"of": "z"}}}, ("Insufficient rdma devices",)),
    ],
)
def test_hints(amount, hint, expected):
    state = holding(CARDS, rdma={0: (1,)})
    annotations = {"device-allocate-hint": json.dumps({"rdma": hint})}
    assert chosen(state, {"rdma": amount}, annotations=annotations) == expected


def test_virtual_functions():
    hint = {"device-allocate-hint": '{"rdma":{"vfSelector":{}}}'}
    pod, state = asked({"rdma": 1}, annotations=hint), node(card(0))
    for bus_id in ("0.a", "0.b"):
        found = choose_devices(state, pod)
        assert [vf.bus_id for one in found["rdma"] for vf in one.vfs] == [bus_id]
        state = type(state)(state.inventory, state.used.plus(use_of(found)))
    assert choose_devices(state, pod).reasons == ("Insufficient rdma devices",)
    none = choose_devices(node(rdma(0)), pod)
    assert (none.reasons, none.unresolvable) == (("Insufficient rdma VirtualFunctions",), True)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("device-allocate-hint", "{"),
        ("device-allocate-hint", '{"rdma":{"selector":{"matchExpressions":[{"operator":"?"}]}}}'),
        ("device-allocate-hint", '{"rdma":{"exclusivePolicy":"Somehow"}}'),
        ("device-allocate-hint", '{"rdma":{"selector":' + "[" * 5000),
        ("device-joint-allocate", '{"deviceTypes":"gpu"}'),
        ("gpu-partition-spec", '{"ringBusBandwidth":"fast"}'),
    ],
)
def test_malformed_annotations_are_errors(key, text):
    with pytest.raises(BadRequest, match="invalid"):
        asked({"gpu": 100, "rdma": 1}, annotations={key: text})


def test_null_annotations_are_absent():
    keys = ("device-allocate-hint", "device-joint-allocate", "gpu-partition-spec")
    nulls = dict.fromkeys(keys, "null")
    assert asked({"gpu": 100}, annotations=nulls) == asked({"gpu": 100})
    assert asked({"gpu": 100}, annotations={"device-allocate-hint": '{"gpu":null}'}).gpus


def test_allocated_devices_are_written():
    allocations = {
        "gpu": (SharedDeviceAllocation(0, (50, 8 * GI, 50)),),
        "rdma": (
            SharedDeviceAllocation(0, (1,), (VirtualFunction(minor=1, bus_id="0000:09:00.2"),)),
        ),
    }
    text = allocations_text(allocations, {("gpu", 0): "GPU-0", ("rdma", 0): "0000:09:00.0"})
    assert json.loads(text) == {
        "gpu": [
            {
                "minor": 0,
                "resources": {
                    "koordinator.sh/gpu-core": "50",
                    "koordinator.sh/gpu-memory": "8Gi",
                    "koordinator.sh/gpu-memory-ratio": "50",
                },
                "id": "GPU-0",
            }
        ],
        "rdma": [
            {
                "minor": 0,
                "resources": {"koordinator.sh/rdma": "1"},
                "id": "0000:09:00.0",
                "extension": {"vfs": [{"minor": 1, "busID": "0000:09:00.2"}]},
            }
        ],
    }
    assert read_allocations({KEY: text}) == allocations


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, {}),
        ("", {}),
        ("null", {}),
        ("{}", {}),
        ('{"gpu":null,"npu":[{"minor":1}]}', {}),
        (
            '{"rdma":[{"minor":2,"resources":{"koordinator.sh/rdma":50,"x":"1"},"new":[1]},'
            '{"resources":null,"extension":null}]}',
            {"rdma": (SharedDeviceAllocation(0, (0,)), SharedDeviceAllocation(2, (50,)))},
        ),
    ],
)
def test_allocated_devices_are_read(text, expected):
    assert read_allocations({} if text is None else {KEY: text}) == expected


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"gpu":{}}',
        '{"gpu":[{"minor":"a"}]}',
        '{"gpu":' + "[" * 5000,
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"many"}}]}',
    ],
)
def test_malformed_allocations_are_errors(text):
    with pytest.raises(BadRequest, match="device-allocated"):
        read_allocations({KEY: text})


def test_totals_of_healthy_devices():
    state = node(gpu(0), gpu(1, health=False), rdma(3), {"type": "npu", "minor": 0})
    assert state.inventory.totals() == {
        "koordinator.sh/gpu-core": 100,
        "koordinator.sh/gpu-memory": 16 * GI,
        "koordinator.sh/gpu-memory-ratio": 100,
        "koordinator.sh/gpu": 100,
        "koordinator.sh/gpu.shared": 100,
        "koordinator.sh/rdma": 100,
    }
    odd = {"koordinator.sh/rdma": "many"}
    assert node({"type": "rdma", "health": True, "resources": odd}).inventory.totals() == {
        "koordinator.sh/rdma": 0
    }
