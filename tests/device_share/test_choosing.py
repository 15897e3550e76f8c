"""Choosing devices: small tables (N034 to N036, N038 as pure functions)."""

import pytest

from device_share.building import asked, chosen, gpu, holding, node, rdma, using
from holdfast.state.device_share.choosing import choose_devices
from holdfast.state.device_share.scoring import ScoringStrategy
from holdfast.state.numa.policy_names import MOST_ALLOCATED

GI = 2**30
G2 = node(gpu(0), gpu(1))
LEAST, MOST = ScoringStrategy(), ScoringStrategy(MOST_ALLOCATED)


def test_shares_of_several_gpus():
    found = choose_devices(G2, asked({"gpu.shared": 2, "gpu-core": 100, "gpu-memory-ratio": 100}))
    assert [(one.minor, one.amounts) for one in found["gpu"]] == [
        (0, (50, 8 * GI, 50)),
        (1, (50, 8 * GI, 50)),
    ]


def test_bytes_and_ratio_compete():
    state = node(gpu(0))
    half = choose_devices(state, asked({"gpu-memory": 8 * GI}))
    assert half["gpu"][0].amounts == (0, 8 * GI, 50)
    some = choose_devices(state, asked({"gpu-memory": 5 * GI}))
    assert some["gpu"][0].amounts == (0, 5 * GI, 31)
    state = using(state, some)
    assert chosen(state, {"gpu-memory-ratio": 70}) == ("Insufficient gpu devices",)
    assert chosen(state, {"gpu-memory-ratio": 69}) == {"gpu": [0]}


def test_many_small_requests_in_bytes_use_up_the_ratio():
    state = holding(node(gpu(0)), gpu={0: (0, 8 * GI, 0)})
    assert chosen(state, {"gpu-memory-ratio": 51}) == ("Insufficient gpu devices",)
    assert chosen(state, {"gpu-memory-ratio": 50}) == {"gpu": [0]}


@pytest.mark.parametrize(("strategy", "second"), [(LEAST, 1), (MOST, 0)])
def test_strategies_spread_and_pack(strategy, second):
    first = choose_devices(G2, asked({"gpu": 30}), strategy=strategy)
    assert first["gpu"][0].minor == 0
    assert chosen(using(G2, first), {"gpu": 30}, strategy=strategy) == {"gpu": [second]}


def test_whole_gpus_and_unhealthy_ones():
    assert chosen(G2, {"nvidia.com/gpu": 2}) == {"gpu": [0, 1]}
    assert chosen(node(gpu(0, health=False), gpu(1)), {"gpu": 100}) == {"gpu": [1]}
    assert chosen(G2, {"nvidia.com/gpu": 3}) == ("Insufficient gpu devices",)


PCIES = node(gpu(0, at=(0, "A")), rdma(0, at=(0, "A")), gpu(1, at=(0, "B")), rdma(1, at=(0, "B")))
JOINT = {"device-joint-allocate": '{"deviceTypes":["gpu","rdma"]}'}
SAME_PCIE = {"device-joint-allocate": '{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}'}


def test_joint_allocation():
    state = holding(PCIES, gpu={0: (100, 16 * GI, 100)})
    ask = {"gpu": 100, "rdma": 1}
    assert chosen(state, ask, annotations=JOINT) == {"gpu": [1], "rdma": [1]}
    assert chosen(PCIES, {"nvidia.com/gpu": 2, "rdma": 1}, annotations=SAME_PCIE) == {
        "gpu": [0, 1],
        "rdma": [0, 1],
    }
    busy = holding(PCIES, rdma={0: (100,)})
    assert chosen(busy, ask, annotations=JOINT) == {"gpu": [0], "rdma": [1]}
    assert chosen(busy, ask, annotations=SAME_PCIE) == {"gpu": [1], "rdma": [1]}
    assert chosen(holding(state, rdma={1: (100,)}), ask, annotations=SAME_PCIE) == (
        "node(s) Device Joint-Allocate rules violation",
    )
