"""Pods share the GPUs of a node: N034 to N038, through the API."""

from device_share.objects import (
    a_device_object,
    a_gpu,
    a_gpu_node,
    a_gpu_pod,
    a_nic,
    devices_of,
)
from holdfast.api.koordinator_names import DEVICE_JOINT_ALLOCATE
from holdfast.api.scheme import PODS, SHARED_DEVICES
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing.harness import Harness


async def test_N034_requests_that_no_device_can_serve_are_refused(tmp_path):
    async with Harness(tmp_path) as cluster:
        await cluster.create(a_gpu_node(), a_device_object())
        await cluster.create(
            a_gpu_pod("odd", 150),
            a_gpu_pod("core", requests={"core": "50"}),
            a_gpu_pod("two", requests={"shared": "2", "core": "100", "ratio": "100"}),
        )
        assert "invalid resource unit koordinator.sh/gpu: 150" in await cluster.why("odd")
        assert "invalid resource device requests" in await cluster.why("core")
        assert await devices_of(cluster, "two") == [("gpu", 0, 50), ("gpu", 1, 50)]


async def test_N035_bytes_of_memory_compete_with_percent(tmp_path):
    async with Harness(tmp_path) as cluster:
        await cluster.create(a_gpu_node(), a_device_object("n", a_gpu(0)))
        await cluster.create(a_gpu_pod("half", requests={"memory": "8Gi"}))
        assert await devices_of(cluster, "half") == [("gpu", 0, 50)]
        await cluster.delete(PODS, "half", "default")
        await cluster.create(a_gpu_pod("p", requests={"memory": "5Gi"}))
        assert await devices_of(cluster, "p") == [("gpu", 0, 31)]
        await cluster.create(a_gpu_pod("more", requests={"ratio": "70"}))
        assert "Insufficient gpu devices" in await cluster.why("more")
        await cluster.create(a_gpu_pod("rest", requests={"ratio": "69"}))
        assert await devices_of(cluster, "rest") == [("gpu", 0, 69)]
        await cluster.restart_components()
        for pod in ("p", "rest"):
            events = [reason for reason, _ in await cluster.events(pod)]
            assert "AllocationIgnored" not in events, "percent are rounded, nothing was taken"


async def test_N036_whole_gpus_shares_and_unhealthy_ones(tmp_path):
    async with Harness(tmp_path) as cluster:
        await cluster.create(a_gpu_node(allocatable={"nvidia.com/gpu": "2"}), a_device_object())
        await cluster.create(a_gpu_pod("whole", requests={"nvidia.com/gpu": "2"}))
        assert await devices_of(cluster, "whole") == [("gpu", 0, 100), ("gpu", 1, 100)]
        await cluster.delete(PODS, "whole", "default")
        await cluster.create(a_gpu_pod("a", 30), a_gpu_pod("b", 30))
        assert await devices_of(cluster, "a") == [("gpu", 0, 30)]
        assert await devices_of(cluster, "b") == [("gpu", 1, 30)]
        await cluster.delete(PODS, "b", "default")
        broken = {"spec": {"devices": [a_gpu(0, health=False), a_gpu(1)]}}
        await cluster.client.patch(SHARED_DEVICES, "n", broken)
        await cluster.settle()
        await cluster.create(a_gpu_pod("c", 100))
        assert await devices_of(cluster, "c") == [("gpu", 1, 100)]
        assert await devices_of(cluster, "a") == [("gpu", 0, 30)]


async def test_N036_most_allocated_packs_shares(tmp_path):
    profiles = default_profiles(
        {"DeviceShare": {"scoringStrategy": {"type": "MostAllocated", "resources": []}}}
    )
    async with Harness(tmp_path, profiles=profiles) as cluster:
        await cluster.create(a_gpu_node(), a_device_object())
        await cluster.create(a_gpu_pod("a", 30), a_gpu_pod("b", 30))
        assert await devices_of(cluster, "a") == await devices_of(cluster, "b") == [("gpu", 0, 30)]


async def test_N037_what_is_used_of_a_deleted_device_stays_used(tmp_path):
    async with Harness(tmp_path) as cluster:
        await cluster.create(a_gpu_node(allocatable={"nvidia.com/gpu": "2"}), a_device_object())
        await cluster.create(a_gpu_pod("p", requests={"nvidia.com/gpu": "1"}))
        await cluster.delete(SHARED_DEVICES, "n")
        await cluster.create(a_gpu_pod("next", requests={"nvidia.com/gpu": "1"}))
        assert "Insufficient gpu devices" in await cluster.why("next")
        await cluster.restart_components()
        assert "Insufficient gpu devices" in await cluster.why("next")
        await cluster.create(a_device_object())
        assert await devices_of(cluster, "next") == [("gpu", 1, 100)]
        plain = a_gpu_node("plain", allocatable={"nvidia.com/gpu": "1"}, labels={"plain": "yes"})
        await cluster.create(plain)
        pod = a_gpu_pod("q", requests={"nvidia.com/gpu": "1"}, node_selector={"plain": "yes"})
        await cluster.create(pod)
        assert await cluster.node_of("q") == "plain"
        assert await devices_of(cluster, "q") is None


async def test_N038_gpus_and_cards_of_one_pcie_switch(tmp_path):
    together = '{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}'
    near = '{"deviceTypes":["gpu","rdma"]}'
    devices = [a_gpu(0, pcie="a"), a_gpu(1, pcie="b"), a_nic(0, pcie="a"), a_nic(1, pcie="b")]
    async with Harness(tmp_path) as cluster:
        await cluster.create(
            a_gpu_node(allocatable={"nvidia.com/gpu": "2"}), a_device_object("n", *devices)
        )
        notes = {DEVICE_JOINT_ALLOCATE: together}
        both = a_gpu_pod("both", requests={"nvidia.com/gpu": "2", "rdma": "1"}, annotations=notes)
        await cluster.create(both)
        assert await devices_of(cluster, "both") == [
            ("gpu", 0, 100), ("gpu", 1, 100), ("rdma", 0, 1), ("rdma", 1, 1),
        ]  # fmt: skip
        await cluster.delete(PODS, "both", "default")
        await cluster.create(a_gpu_pod("first", 100))
        assert await devices_of(cluster, "first") == [("gpu", 0, 100)]
        notes = {DEVICE_JOINT_ALLOCATE: near}
        await cluster.create(a_gpu_pod("p", 100, requests={"rdma": "1"}, annotations=notes))
        assert await devices_of(cluster, "p") == [("gpu", 1, 100), ("rdma", 1, 1)]
