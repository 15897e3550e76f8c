"""Choosing GPUs by topology and by partitions."""

import json

import pytest

from device_share.building import ANNOTATION, asked, chosen, gpu, holding, node
from holdfast.state.device_share.allocations import SharedDeviceAllocation, use_of
from holdfast.state.device_share.candidates import DeviceRejection, Restriction
from holdfast.state.device_share.choosing import choose_devices, node_rejection
from holdfast.state.device_share.scoring import ScoringStrategy
from holdfast.state.numa.policy_names import MOST_ALLOCATED

FULL, HALF = (100, 16 * 2**30, 100), (50, 8 * 2**30, 50)
PAIRS = node(*(gpu(minor, at=(minor // 4, str(minor // 2))) for minor in range(8)))
H100 = {"node.koordinator.sh/gpu-model": "H100"}
HONOR = {**H100, "node.koordinator.sh/gpu-partition-policy": "Honor"}


def busy(state, *minors, amounts=FULL):
    return holding(state, gpu=dict.fromkeys(minors, amounts))


@pytest.mark.parametrize(
    ("used", "count", "expected"),
    [
        ((), 1, [0]),
        ((), 2, [0, 1]),
        ((), 3, [0, 1, 2]),
        ((), 8, [0, 1, 2, 3, 4, 5, 6, 7]),
        ((0,), 1, [1]),  # the PCIe switch that is partly used already
        ((0,), 2, [2, 3]),
        ((0, 2), 2, [4, 5]),  # one PCIe switch before one NUMA node
        ((0, 2, 4, 6), 2, [1, 3]),  # one NUMA node before two
        ((0, 2), 3, [4, 5, 6]),
        ((0, 1, 2, 4, 5, 6), 2, [3, 7]),
        ((5,), 2, [6, 7]),  # the NUMA node that is partly used already
    ],
)
def test_smallest_scope(used, count, expected):
    assert chosen(busy(PAIRS, *used), {"nvidia.com/gpu": count}) == {"gpu": expected}


def test_shares_within_a_scope_by_score():
    state = busy(PAIRS, 3, amounts=HALF)
    least, most = ScoringStrategy(), ScoringStrategy(MOST_ALLOCATED)
    assert chosen(state, {"gpu": 30}, strategy=least) == {"gpu": [2]}
    assert chosen(state, {"gpu": 30}, strategy=most) == {"gpu": [3]}


@pytest.mark.parametrize(
    ("scope", "used", "expected"),
    [
        ("NUMANode", (), {"gpu": [0, 1, 2]}),
        ("NUMANode", (0, 1, 4, 5), ("Insufficient Topology Scoped GPU Devices",)),
        ("PCIe", (), ("Insufficient Topology Scoped GPU Devices",)),
        ("Node", (0, 1, 4, 5), {"gpu": [2, 3, 6]}),
    ],
)
def test_required_scope(scope, used, expected):
    hint = {"device-allocate-hint": json.dumps({"gpu": {"requiredTopologyScope": scope}})}
    assert chosen(busy(PAIRS, *used), {"nvidia.com/gpu": 3}, annotations=hint) == expected


def test_required_scope_without_topology():
    hint = {"device-allocate-hint": '{"gpu":{"requiredTopologyScope":"PCIe"}}'}
    pod = asked({"gpu": 100}, annotations=hint)
    assert choose_devices(node(gpu(0)), pod) == DeviceRejection(
        ("node(s) missing GPU Device Topology Tree",), unresolvable=True
    )
    device = {"device-allocate-hint": '{"gpu":{"requiredTopologyScope":"Device"}}'}
    assert chosen(PAIRS, {"gpu": 50}, annotations=device) == {"gpu": [0]}


@pytest.mark.parametrize(
    ("preferred", "used", "request_", "expected"),
    [
        ((5,), (), {"gpu": 50}, [5]),  # ND4: in spite of the topology
        ((2, 7), (), {"nvidia.com/gpu": 2}, [2, 7]),
        ((7,), (), {"nvidia.com/gpu": 2}, [6, 7]),
        ((7,), (6,), {"nvidia.com/gpu": 2}, [4, 7]),
        ((7,), (7,), {"gpu": 100}, [6]),
    ],
)
def test_preferred_gpus_come_first(preferred, used, request_, expected):
    restriction = Restriction(preferred=frozenset(("gpu", minor) for minor in preferred))
    assert chosen(busy(PAIRS, *used), request_, restriction) == {"gpu": expected}


def test_limits():
    limit = use_of({"gpu": (SharedDeviceAllocation(1, HALF), SharedDeviceAllocation(2, FULL))})
    assert chosen(PAIRS, {"gpu": 50}, Restriction(limit=limit)) == {"gpu": [1]}
    assert chosen(PAIRS, {"gpu": 60}, Restriction(limit=limit)) == {"gpu": [2]}
    assert chosen(PAIRS, {"nvidia.com/gpu": 2}, Restriction(limit=limit)) == (
        "Insufficient GPU Devices",
    )
    assert chosen(PAIRS, {"gpu": 1}, Restriction(limit=use_of({}))) == ("Insufficient GPU Devices",)
    allowed = frozenset({("gpu", 6)})
    assert chosen(PAIRS, {"gpu": 1}, Restriction(allowed=allowed)) == {"gpu": [6]}
    assert chosen(PAIRS, {"gpu": 1}, Restriction(numa_nodes=0b10)) == {"gpu": [4]}


@pytest.mark.parametrize(
    ("labels", "used", "count", "expected"),
    [
        (HONOR, (), 2, {"gpu": [0, 1]}),
        (HONOR, (), 3, ("node(s) Unsupported number of GPU requests",)),
        (HONOR, (0, 2, 4, 6), 2, ("Insufficient Partitioned GPU Devices",)),
        (H100, (0, 2, 4, 6), 2, {"gpu": [1, 3]}),
        (H100, (), 3, {"gpu": [0, 1, 2]}),
        (HONOR, (0,), 1, {"gpu": [1]}),  # leaves the largest partitions
        (HONOR, (0,), 2, {"gpu": [2, 3]}),
        (HONOR, (4,), 4, {"gpu": [0, 1, 2, 3]}),
        (
            {"node.koordinator.sh/gpu-partition-policy": "Honor"},
            (),
            1,
            ("node(s) missing GPU Partition Table",),
        ),
    ],
)
def test_built_in_partitions(labels, used, count, expected):
    state = node(*(gpu(minor) for minor in range(8)), node_labels=labels)
    assert chosen(busy(state, *used), {"nvidia.com/gpu": count}) == expected


TABLE = {
    "2": [
        {"minors": [0, 1], "ringBusBandwidth": "100Gi", "allocationScore": 1},
        {"minors": [1, 2], "ringBusBandwidth": "400Gi", "allocationScore": 2},
        {"minors": [2, 3], "ringBusBandwidth": "200Gi", "allocationScore": 2},
    ]
}


@pytest.mark.parametrize(
    ("spec", "used", "expected"),
    [
        ({}, (), [1, 2]),  # ND9: the highest score first
        ({}, (2,), [0, 1]),
        ({"allocatePolicy": "Restricted"}, (2,), None),
        ({"ringBusBandwidth": "200Gi"}, (1,), [2, 3]),
        ({"ringBusBandwidth": "300Gi"}, (), [1, 2]),
        ({"ringBusBandwidth": "500Gi"}, (), None),
    ],
)
def test_partitions_of_the_device(spec, used, expected):
    written = {ANNOTATION + "gpu-partitions": json.dumps(TABLE)}
    state = busy(node(*(gpu(minor) for minor in range(4)), annotations=written), *used)
    found = chosen(
        state, {"nvidia.com/gpu": 2}, annotations={"gpu-partition-spec": json.dumps(spec)}
    )
    none = ("Insufficient Partitioned GPU Devices",)
    assert found == (none if expected is None else {"gpu": expected})


@pytest.mark.parametrize("text", ["", "{", "[]", '{"two":[]}', '{"2":[{"minors":["x"]}]}', "null"])
def test_unreadable_partitions_count_as_absent(text):
    state = node(gpu(0), gpu(1), annotations={ANNOTATION + "gpu-partitions": text})
    assert chosen(state, {"nvidia.com/gpu": 2}) == {"gpu": [0, 1]}


def test_nodes_that_cannot_share_their_gpus():
    provider = {"koordinator.sh/gpu-isolation-provider": "HAMi-core"}
    pod = asked({"gpu": 50}, labels=provider)
    assert node_rejection(node(gpu(0)).inventory, pod).unresolvable
    assert node_rejection(node(gpu(0), node_labels=provider).inventory, pod) is None
    labels = {"node.koordinator.sh/gpu-vendor": "v", "node.koordinator.sh/gpu-model": "m"}
    inventory = node(gpu(0), node_labels=labels).inventory
    found = node_rejection(inventory, asked({"gpu": 50}), {("v", "m")})
    assert found.reasons == ('model "m" of vendor "v" does not support GPU Share',)
    assert node_rejection(inventory, asked({"gpu": 100}), {("v", "m")}) is None
