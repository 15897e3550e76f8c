"""Requests for shared devices in normal form (N033, N034 as tables)."""

import pytest

from holdfast.runtime.errors import BadRequest
from holdfast.state.device_share.requests import (
    SharedDeviceRequest,
    device_requests,
    device_resources,
    in_names_of,
)

GI = 2**30


def named(amounts):
    """Write koordinator.sh/ before names without a domain, except those of the node."""
    return {
        name if "/" in name or name in ("cpu", "memory") else f"koordinator.sh/{name}": amount
        for name, amount in amounts.items()
    }


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"cpu": 1000}, ()),
        ({"gpu": 0, "cpu": 1}, ()),
        ({"gpu": 50}, (("gpu", 1, (50, 0, 50)),)),
        ({"gpu": 200}, (("gpu", 2, (100, 0, 100)),)),
        ({"nvidia.com/gpu": 2}, (("gpu", 2, (100, 0, 100)),)),
        ({"gpu-memory": 8 * GI}, (("gpu", 1, (0, 8 * GI, 0)),)),
        ({"gpu-core": 200, "gpu-memory": 32 * GI}, (("gpu", 1, (200, 32 * GI, 0)),)),
        ({"gpu.shared": 2, "gpu-core": 100, "gpu-memory-ratio": 100}, (("gpu", 2, (50, 0, 50)),)),
        ({"gpu.shared": 2, "gpu-memory": 9}, (("gpu", 2, (0, 4, 0)),)),
        ({"fpga": 300, "rdma": 7}, (("rdma", 1, (7,)), ("fpga", 3, (100,)))),
    ],
)
def test_normal_form(request_, expected):
    assert device_requests(named(request_)) == tuple(SharedDeviceRequest(*one) for one in expected)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"gpu": 150}, "invalid resource unit koordinator.sh/gpu: 150"),
        ({"rdma": 201}, "invalid resource unit koordinator.sh/rdma: 201"),
        ({"gpu-core": 50}, "invalid resource device requests: [koordinator.sh/gpu-core]"),
        (
            {"gpu-memory-ratio": 101},
            "invalid resource device requests: [koordinator.sh/gpu-memory-ratio]",
        ),
        (
            {"nvidia.com/gpu": 1, "gpu": 100},
            "invalid resource device requests: [koordinator.sh/gpu nvidia.com/gpu]",
        ),
        (
            {"gpu.shared": 3, "gpu-memory-ratio": 100},
            "invalid resource device requests: "
            "[koordinator.sh/gpu-memory-ratio koordinator.sh/gpu.shared]",
        ),
        (
            {"huawei.com/npu-core": 40, "gpu-memory-ratio": 100},
            "invalid resource device requests: "
            "[huawei.com/npu-core koordinator.sh/gpu-memory-ratio]"
            ": Ascend devices are not supported",
        ),
    ],
)
def test_invalid_requests(request_, message):
    with pytest.raises(BadRequest) as raised:
        device_requests(named(request_))
    assert str(raised.value) == message


SHARE = {"gpu-core": 50, "gpu-memory-ratio": 50, "gpu.shared": 1}


@pytest.mark.parametrize(
    ("request_", "names", "expected"),
    [
        ({"cpu": 1, "memory": 2}, ["gpu"], {"cpu": 1, "memory": 2}),
        ({"gpu": 50, "cpu": 1}, ["cpu"], {"gpu": 50, "cpu": 1}),
        ({"gpu": 50}, ["gpu"], {"gpu": 50}),
        (SHARE, ["gpu"], {"gpu": 50}),
        (SHARE, ["gpu.shared", "gpu-core", "gpu-memory-ratio"], SHARE),
        ({"gpu": 50}, ["gpu-core", "gpu-memory-ratio"], {"gpu-core": 50, "gpu-memory-ratio": 50}),
        ({"nvidia.com/gpu": 2}, ["gpu"], {"gpu": 200}),
        ({"gpu": 150}, ["nvidia.com/gpu"], {"nvidia.com/gpu": 2}),
        ({"gpu-memory": 8}, ["gpu"], {"gpu-memory": 8}),
        ({"gpu": 50}, ["gpu-memory", "gpu-core"], {"gpu-core": 50, "gpu-memory-ratio": 50}),
        (
            {"gpu": 50, "rdma": 1},
            ["gpu-core", "rdma"],
            {"gpu-core": 50, "gpu-memory-ratio": 50, "rdma": 1},
        ),
    ],
)
def test_in_names_of(request_, names, expected):
    assert in_names_of(named(request_), named(dict.fromkeys(names))) == named(expected)


def test_device_resources():
    amounts = named({"cpu": 1, "gpu": 1, "rdma": 1, "nvidia.com/gpu": 1})
    assert device_resources(amounts) == amounts.keys() - {"cpu"}
