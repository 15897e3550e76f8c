"""Claims that stand for classic ones: the kit prepares the classic claim once, with its handle."""

import random

import msgspec
import pytest

from apiserver.classic_objects import claim, status, user
from holdfast.api.classic_dra.claims import ClassicEntry
from holdfast.api.classic_dra.shadows import classic_reference, shadow_allocation, shadow_of
from holdfast.api.classic_dra.types import ClassicClaim, classic_resources
from holdfast.api.decode import convert_object
from holdfast.api.devices import ResourceClaim
from holdfast.api.pod import Pod
from holdfast.api.scheme import RESOURCE_CLAIMS
from holdfast.client.client import Client
from holdfast.driver import Cdi, Driver, DriverError
from holdfast.node.driverkit.checkpoint import Checkpoint
from holdfast.node.driverkit.classic_dra.preparation import ClassicPreparation
from holdfast.runtime.clock import SystemClock
from holdfast.server.api_server import ApiServer
from holdfast.server.inprocess import InProcessTransport
from holdfast.server.store.store import Store
from holdfast.testing.loop_writer import LoopWriter

CLAIMS = classic_resources().claims
NAME = "gpu.example.com"


class Node:
    """A driver that serves classic claims of an API server, and the calls of its functions."""

    def __init__(self, client, directory):
        self.client, self.directory, self.calls, self.failures = client, directory, [], 0
        driver = Driver(NAME)

        @driver.prepare
        def prepare(claim):
            self.calls.append(f"prepare {claim.name} {claim.handle}")
            return Cdi().env(HANDLE=claim.handle)

        @driver.unprepare
        def unprepare(claim):
            self.calls.append(f"unprepare {claim.name} {claim.handle}")
            if self.failures:
                self.failures -= 1
                raise DriverError("busy")

        self.driver = driver
        self.restart()

    def restart(self):
        checkpoint = Checkpoint(self.directory / "checkpoint.json")
        cdi = self.directory / "cdi"
        cdi.mkdir(exist_ok=True)
        self.preparation = ClassicPreparation(self.driver, self.client, checkpoint, cdi)

    async def shadow(self, of, pod, *, reserved_for=None):
        """Create the claim that stands for a classic one of a pod."""
        owner = convert_object(
            {"metadata": {"name": pod, "namespace": "default", "uid": f"uid-of-{pod}"}}, Pod
        )
        entry = ClassicEntry("gpu", of.name, None, ())
        body = shadow_of(owner, entry, f"{pod}-shadow")
        made = await self.client.create(RESOURCE_CLAIMS, body, "default")
        allocation = shadow_allocation(made.uid, of)
        change = {"allocation": allocation, "reservedFor": [user(reserved_for or pod)]}
        return await self.client.patch(
            RESOURCE_CLAIMS, made.name, {"status": change}, "default", subresource="status"
        )

    async def prepare(self, shadow):
        return await self.preparation.prepare(shadow.namespace, shadow.name, shadow.uid)


@pytest.fixture
async def node(tmp_path):
    store = Store.open(tmp_path / "data", SystemClock(), writer=LoopWriter)
    server = ApiServer.create(store, SystemClock())
    await server.start()
    yield Node(Client(InProcessTransport(server), "test"), tmp_path)
    await server.stop()
    await store.close()


async def classic(client, name="c", *users, **more):
    """Create an allocated classic claim."""
    made = await client.create(CLAIMS, claim(name), "default")
    return await write(client, made, status(*users, shared=True, **more))


async def write(client, claim, change):
    return await client.patch(
        CLAIMS, claim.name, {"status": change}, "default", subresource="status"
    )


async def test_the_classic_claim_is_prepared_once_and_unprepared_after_the_last(node):
    found = await classic(node.client, "c", "p", "q")
    one, two = [await node.shadow(found, pod) for pod in ("p", "q")]
    first, second = await node.prepare(one), await node.prepare(two)
    assert first.cdi_ids == second.cdi_ids == ((f"k8s.{NAME}/claim=claim-{found.uid}",),)
    [device] = first.devices
    assert (device.request, device.name) == ("classic", f"claim-{one.uid}")
    assert node.calls == ["prepare c h"]
    node.restart()
    await node.prepare(one)
    await node.preparation.unprepare(one.uid)
    assert node.calls == ["prepare c h"]
    node.failures = 1
    with pytest.raises(DriverError, match="busy"):
        await node.preparation.unprepare(two.uid)
    node.restart()
    for _ in range(2):
        await node.preparation.unprepare(two.uid)
    assert node.calls == ["prepare c h", *["unprepare c h"] * 2]
    assert list((node.directory / "cdi").iterdir()) == []


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_happens_a_claim_is_prepared_while_it_has_users(node, seed):
    """Shadows and calls for the claim itself, restarts, failures, in any order."""
    rng, pods = random.Random(seed), ("p", "q", "r")
    found = await classic(node.client, "c", *pods)
    shadows = [await node.shadow(found, pod) for pod in pods]
    using, undone = set(), False
    for _ in range(60):
        user = rng.choice([found, *shadows])
        node.failures = int(rng.random() < 0.2)
        if rng.random() < 0.2:
            node.restart()
        try:
            if rng.random() < 0.5:
                using.add(user.uid)
                if user is found:
                    await node.preparation.prepare_classic("default", "c", found.uid, "h")
                else:
                    await node.prepare(user)
                undone = False
            else:
                await node.preparation.unprepare(user.uid)
                using.discard(user.uid)
        except DriverError:
            undone = True  # the last user is still there, until it tries again
        prepared = bool(node.calls) and node.calls[-1].startswith("prepare")
        files = list((node.directory / "cdi").iterdir())
        assert prepared == (bool(using) and not undone)
        assert bool(files) == bool(using)
    node.failures = 0
    node.restart()
    for user in (found, *shadows):
        await node.preparation.unprepare(user.uid)
    assert list((node.directory / "cdi").iterdir()) == []
    assert node.calls[-1] == "unprepare c h"


async def test_a_new_handle_is_prepared_again(node):
    found = await classic(node.client, "c", "p")
    shadow = await node.shadow(found, "p")
    await node.prepare(shadow)
    await write(node.client, found, {"allocation": {"resourceHandle": "h2"}})
    await node.prepare(shadow)
    await node.preparation.unprepare(shadow.uid)
    assert node.calls == ["prepare c h", "prepare c h2", "unprepare c h2"]


async def test_a_claim_of_a_user_is_no_shadow():
    """Configuration of a user's claim is copied from its spec, pools are those of slices."""
    found = convert_object(
        {"metadata": {"name": "c", "uid": "1"}, "status": status(**{"driverName": NAME})},
        ClassicClaim,
    )
    allocation = shadow_allocation("2", found)
    for change, is_shadow in (
        ({}, True),
        ({"pool": "node-1"}, False),
        ({"source": "FromClaim"}, False),
    ):
        [result], [config] = allocation["devices"]["results"], allocation["devices"]["config"]
        devices = {
            "results": [result | {key: change[key] for key in change if key == "pool"}],
            "config": [config | {key: change[key] for key in change if key == "source"}],
        }
        forged = convert_object({"status": {"allocation": {"devices": devices}}}, ResourceClaim)
        assert (classic_reference(forged, NAME) is not None) is is_shadow


async def test_only_a_claim_that_its_pod_has_is_prepared(node):
    found = await classic(node.client, "c", "p")
    foreign = await node.shadow(found, "q")
    with pytest.raises(DriverError, match="is not reserved for the pod"):
        await node.prepare(foreign)
    mine = await node.shadow(found, "p")
    other = await classic(node.client, "other", "p", driverName="other.example.com")
    status = msgspec.structs.replace(other.status, driver_name=NAME)
    mistaken = msgspec.structs.replace(other, status=status)
    with pytest.raises(DriverError, match="is not allocated by"):
        await node.prepare(await node.shadow(mistaken, "x", reserved_for="p"))
    await node.client.delete(CLAIMS, "c", "default")
    with pytest.raises(DriverError, match="does not exist"):
        await node.prepare(mine)
    await classic(node.client, "c", "p")
    with pytest.raises(DriverError, match="has uid"):
        await node.prepare(mine)
    assert node.calls == []
