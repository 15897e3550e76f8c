"""ResourceSlices published to the embedded API server, and kept."""

import asyncio

import pytest

from client.embedded_server import Embedded, Wire
from holdfast.api.scheme import NODES, RESOURCE_SLICES
from holdfast.client.client import Client
from holdfast.driver import Device, Taint
from holdfast.node.driverkit.slice_publisher import RESYNC_SECONDS, SlicePublisher
from holdfast.runtime.errors import Unavailable
from holdfast.testing import VirtualClock, a_node


class Publishing:
    """A server, and the publisher of one driver on the node n."""

    def __init__(self, directory):
        self.clock = VirtualClock()
        self.server = Embedded(directory, self.clock)
        self.clock.busy.append(lambda: self.server.busy)

    async def __aenter__(self):
        await self.server.start()
        self.client = Client(Wire(self.server), "test")
        self.start()
        return self

    def start(self):
        self.publisher = SlicePublisher(self.client, self.clock, "gpu.example.com", "n")
        self.task = asyncio.create_task(self.publisher.run())

    async def stop(self):
        self.task.cancel()
        await asyncio.wait({self.task})

    async def __aexit__(self, *_):
        await self.stop()
        await self.server.stop()

    async def publish(self, *devices):
        self.publisher.publish({"n": devices})
        await self.clock.settle()
        return await self.slices()

    async def slices(self):
        found = await self.client.list(RESOURCE_SLICES)
        return sorted(found.items, key=lambda one: one.name)


@pytest.fixture
async def publishing(tmp_path):
    async with Publishing(tmp_path) as found:
        await found.client.create(NODES, a_node("n"))
        yield found


def many(count, **special):
    return [special.get(f"gpu_{i}") or Device(f"gpu-{i}") for i in range(count)]


def generations(slices):
    return [(one.spec.pool.generation, one.spec.pool.resource_slice_count) for one in slices]


async def test_D087_two_changed_slices_bump_the_generation_in_all_and_one_keeps_it(publishing):
    first = await publishing.publish(*many(300))
    assert generations(first) == [(1, 3)] * 3
    node = await publishing.client.get(NODES, "n")
    assert {one.metadata.owner_references[0].uid for one in first} == {node.uid}
    one = await publishing.publish(*many(300, gpu_5=Device("gpu-5", {"model": "B"})))
    assert generations(one) == [(1, 3)] * 3
    assert [a == b for a, b in zip(first, one, strict=True)] == [
        False,
        True,
        True,
    ]
    two = await publishing.publish(
        *many(300, gpu_5=Device("gpu-5"), gpu_200=Device("gpu-200", {"model": "B"}))
    )
    assert generations(two) == [(2, 3)] * 3
    assert [one.name for one in two] == [one.name for one in first]
    [empty] = await publishing.publish()
    assert (empty.name, empty.spec.devices) == (first[0].name, ())


async def test_changes_by_others_are_undone_after_30_seconds(publishing):
    [first] = await publishing.publish(Device("gpu-0"))
    await publishing.clock.advance(2 * RESYNC_SECONDS)
    assert await publishing.slices() == [first]
    await publishing.client.delete(RESOURCE_SLICES, first.name)
    await publishing.clock.advance(RESYNC_SECONDS - 1)
    assert await publishing.slices() == []
    await publishing.clock.advance(1)
    [again] = await publishing.slices()
    assert again.spec.devices == first.spec.devices
    await publishing.client.patch(
        RESOURCE_SLICES, again.name, {"spec": {"devices": [{"name": "wrong"}]}}
    )
    await publishing.clock.advance(RESYNC_SECONDS)
    [last] = await publishing.slices()
    assert [device.name for device in last.spec.devices] == ["gpu-0"]
    assert last.spec.pool.generation == again.spec.pool.generation


async def test_a_restarted_driver_changes_nothing(publishing):
    tainted = Device("gpu-1", taints=[Taint("example.com/broken")])
    first = await publishing.publish(Device("gpu-0", capacity={"memory": "81920Mi"}), tainted)
    await publishing.stop()
    publishing.start()
    again = await publishing.publish(Device("gpu-0", capacity={"memory": "80Gi"}), tainted)
    assert again == first


async def test_fields_that_the_server_drops_are_reported_and_accepted(publishing, monkeypatch):
    create = publishing.client.create

    async def without_attributes(resource, obj, *args):
        devices = [{"name": device["name"]} for device in obj["spec"]["devices"]]
        return await create(resource, obj | {"spec": obj["spec"] | {"devices": devices}}, *args)

    monkeypatch.setattr(publishing.client, "create", without_attributes)
    first = await publishing.publish(Device("gpu-0", attributes={"lanes": [1, 2]}))
    assert publishing.publisher.dropped == ("devices[0].attributes",)
    publishing.publisher.resync()
    await publishing.clock.settle()
    assert await publishing.slices() == first


async def test_publishing_is_tried_again_until_the_node_exists(tmp_path):
    async with Publishing(tmp_path) as publishing:
        assert await publishing.publish(Device("gpu-0")) == []
        assert "there is no Node n: check --node-name" in publishing.publisher.problem
        await publishing.client.create(NODES, a_node("n"))
        await publishing.clock.advance(60)
        assert len(await publishing.slices()) == 1
        assert publishing.publisher.problem == ""


async def test_a_server_that_fails_is_tried_again(publishing, monkeypatch):
    def failing(*_args, **_kwargs):
        raise Unavailable("down")

    with monkeypatch.context() as patch:
        patch.setattr(publishing.client, "list", failing)
        publishing.publisher.publish({"n": [Device("gpu-0")]})
        await publishing.clock.advance(5)
        assert "cannot be published: down" in publishing.publisher.problem
    await publishing.clock.advance(60)
    assert len(await publishing.slices()) == 1
