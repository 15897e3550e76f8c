"""Reservations of GPUs that are edited, or whose GPUs are lost."""

import pytest

from device_share.objects import a_device_object, a_gpu, a_gpu_node, a_gpu_reservation
from holdfast.api.koordinator_names import GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO
from holdfast.api.reservation_names import RESIZE
from holdfast.api.scheme import RESERVATIONS, SHARED_DEVICES
from holdfast.testing import a_reservation

KEPT = "it holds certain devices and is not resized: create another reservation"
PARTS = {GPU_CORE: "100", GPU_MEMORY_RATIO: "100"}


async def edit(cluster, requests):
    resources = {"requests": requests, "limits": requests}
    template = {"spec": {"containers": [{"name": "main", "image": "i", "resources": resources}]}}
    await cluster.client.patch(RESERVATIONS, "r", {"spec": {"template": template}})
    await cluster.settle()


async def condition(cluster, kind):
    found = (await cluster.reservation("r")).condition(kind)
    return found and (found.status, found.reason, found.message)


@pytest.fixture
async def gpus(cluster):
    await cluster.create(a_gpu_node(), a_device_object())
    return cluster


@pytest.mark.parametrize("names", [(GPU,), (GPU_CORE, GPU_MEMORY_RATIO)])
async def test_a_resize_of_gpus_is_reported(gpus, names):
    requests = dict.fromkeys(names, "100")
    await gpus.create(a_reservation("r", cpu="8", requests=requests, owner_labels={"a": "b"}))
    assert await condition(gpus, "Resized") is None
    await edit(gpus, {"cpu": "8", **dict.fromkeys(names, "200")})
    assert await condition(gpus, "Resized") == ("False", "Invalid", KEPT)
    assert ("FailedResize", KEPT) in await gpus.events("r")
    await edit(gpus, {"cpu": "8", **requests})
    assert await condition(gpus, "Resized") is None


async def test_a_resize_by_annotation_is_reported(gpus):
    await gpus.create(a_gpu_reservation("r", 100))
    note = {"metadata": {"annotations": {RESIZE: f'{{"resources": {{"{GPU}": "200"}}}}'}}}
    await gpus.client.patch(RESERVATIONS, "r", note)
    await gpus.settle()
    assert await condition(gpus, "Resized") == ("False", "Invalid", KEPT)


async def test_devices_held_in_other_names_than_the_template_are_no_resize(gpus):
    """Koordinator's scheduler lists what is assigned."""
    await gpus.create(a_gpu_reservation("r", 100))
    held = {"cpu": "8", GPU: None, **PARTS, GPU_MEMORY: "16Gi"}
    await gpus.client.patch(
        RESERVATIONS, "r", {"status": {"allocatable": held}}, subresource="status"
    )
    await gpus.settle()
    assert await condition(gpus, "Resized") is None
    await edit(gpus, {"cpu": "8", GPU: "200"})
    assert await condition(gpus, "Resized") == ("False", "Invalid", KEPT)


async def set_devices(cluster, *devices):
    spec = {"spec": {"devices": list(devices)}}
    await cluster.client.patch(SHARED_DEVICES, "n", spec)
    await cluster.settle()


async def test_an_unhealthy_gpu_is_named_in_the_reservation(gpus):
    await gpus.create(a_gpu_reservation("r", 100))
    assert (await condition(gpus, "Ready"))[:2] == ("True", "Available")
    await set_devices(gpus, a_gpu(0, health=False), a_gpu(1))
    lost = ("False", "DevicesUnavailable", "node n: gpu 0 (GPU-0) is unhealthy")
    assert await condition(gpus, "Ready") == lost
    assert lost[1:] in await gpus.events("r")
    await gpus.restart_components()
    await gpus.advance(5)
    assert await condition(gpus, "Ready") == lost
    await set_devices(gpus, a_gpu(0), a_gpu(1))
    assert (await condition(gpus, "Ready"))[:2] == ("True", "Available")


async def test_another_unhealthy_gpu_does_not_matter(gpus):
    await gpus.create(a_gpu_reservation("r", 100))
    await set_devices(gpus, a_gpu(0), a_gpu(1, health=False))
    assert (await condition(gpus, "Ready"))[:2] == ("True", "Available")


async def test_the_gpus_of_a_deleted_device_object_are_gone(gpus):
    await gpus.create(a_gpu_reservation("r", 200))
    await gpus.delete(SHARED_DEVICES, "n")
    lost = "node n: gpu 0 (GPU-0) is gone, gpu 1 (GPU-1) is gone"
    assert await condition(gpus, "Ready") == ("False", "DevicesUnavailable", lost)
    await gpus.create(a_device_object("n", a_gpu(0)))
    lost = "node n: gpu 1 (GPU-1) is gone"
    assert await condition(gpus, "Ready") == ("False", "DevicesUnavailable", lost)
