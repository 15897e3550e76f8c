"""``holdfast devices`` for the devices of Device objects, which pods share."""

from cli.numa_objects import a_gpu_holder, a_reserved_gpu, gpu_share
from device_share.objects import a_device_object, a_gpu, a_nic
from holdfast.api.koordinator_names import RDMA
from holdfast.cli.devices.choosing import Filter
from holdfast.cli.devices.shared_devices import MOST_DEVICES, shared_as_text, shared_devices
from holdfast.testing import a_node, typed


def listed(*objects, **which):
    return shared_devices([typed(obj) for obj in objects], Filter(**which))


def table(*objects, wide=False, **which):
    return shared_as_text(listed(*objects, **which), wide=wide).splitlines()


def test_every_device_shows_what_is_left_and_its_holders():
    device = a_device_object(
        "n", a_gpu(0, numa=0, pcie="p0"), a_gpu(1, numa=0, pcie="p0"), a_gpu(2, health=False),
        a_gpu(3), a_nic(0, numa=1, pcie="p1"),
    )  # fmt: skip
    assert table(
        a_node("n"), device,
        a_gpu_holder("half", {"gpu": [gpu_share(0, 50, "8Gi")]}),
        a_gpu_holder("some", {"gpu": [gpu_share(0, 20, "3276Mi")]}),
        a_reserved_gpu("r", {"gpu": [gpu_share(1, 100, "16Gi")]}),
        a_gpu_holder("owner", {"gpu": [gpu_share(1, 60, "9Gi")]}, owns="r"),
        a_gpu_holder("net", {"rdma": [{"minor": 0, "resources": {RDMA: "100"}}]}),
        a_gpu_holder("lost", {"gpu": [gpu_share(9, 10, "1Gi")]}),
    ) == [
        "NODE   DEVICE   NUMA   PCIE   STATE       LEFT        HOLDER              HOLDS",
        "n      gpu 0    0      p0     shared      30% 4.8Gi   pod default/half    50% 8Gi",
        "                                                      pod default/some    20% 3.2Gi",
        "n      gpu 1    0      p0     full        0%          pod default/owner   60% 9Gi, from r",
        " " * 54 + "reservation r       100% 16Gi; unused: 40% 7Gi",
        "n      gpu 2    -      -      unhealthy   0%          -                   -",
        "n      gpu 3    -      -      free        100% 16Gi   -                   -",
        "n      gpu 9    -      -      unlisted    0%          pod default/lost    10% 1Gi",
        "n      rdma 0   1      p1     full        0%          pod default/net     100%",
    ]  # fmt: skip


def test_the_flags_choose_a_part():
    objects = (
        a_node("a"), a_node("b"), a_device_object("a"), a_device_object("b"),
        a_gpu_holder("p", {"gpu": [gpu_share(0, 100, "16Gi")]}, node="a"),
        a_gpu_holder("q", {"gpu": [gpu_share(1, 50, "8Gi")]}, node="b", namespace="other"),
    )  # fmt: skip

    def names(**which):
        return [(one["node"], one["minor"]) for one in listed(*objects, **which)]

    assert names() == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert names(node="b") == [("b", 0), ("b", 1)]
    assert names(free=True) == [("a", 1), ("b", 0), ("b", 1)]
    assert names(namespace="other") == [("b", 1)]
    assert names(driver="gpu.example.com") == names(device_class="gpu") == []


def test_devices_without_topology_need_fewer_columns_and_wide_shows_more():
    objects = (a_node("n"), a_device_object("n", a_gpu(0, labels={"link": "fast"})))
    assert table(*objects) == [
        "NODE   DEVICE   STATE   LEFT        HOLDER   HOLDS",
        "n      gpu 0    free    100% 16Gi   -        -",
    ]
    assert table(*objects, wide=True)[1].endswith("GPU-0   link=fast")


def test_of_many_devices_the_first_are_listed():
    devices = [a_gpu(minor) for minor in range(MOST_DEVICES + 7)]
    objects = (a_node("n"), a_device_object("n", *devices))
    assert table(*objects)[-1].startswith("7 devices are not listed: --node")
    assert len(table(*objects, wide=True)) == len(devices) + 1


def test_a_device_without_a_node_or_with_malformed_holders_is_listed():
    found = listed(a_device_object("gone"), a_node("n"), a_gpu_holder("p", "not an object"))
    assert [(one["node"], one["state"], one["holders"]) for one in found] == [
        ("gone", "free", []), ("gone", "free", []),
    ]  # fmt: skip
