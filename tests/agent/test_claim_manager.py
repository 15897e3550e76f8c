"""Claims prepared and unprepared by drivers on real sockets; objects from a real API server."""

import asyncio
import json
import zlib
from contextlib import asynccontextmanager

import msgspec
import pytest

from agent.driver_server import DriverServer
from agent.polling import until
from holdfast.api.scheme import PODS, RESOURCE_CLAIMS
from holdfast.node.agent import plugin_registry
from holdfast.node.agent.claim_manager import ClaimManager
from holdfast.node.agent.plugin_registry import PluginRegistry
from holdfast.node.agent.pod_devices import NotPrepared
from holdfast.node.kubelet_api import DRA_V1BETA1, dra_v1_pb2
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import BadConfiguration
from holdfast.testing.builders import a_node, a_pod
from holdfast.testing.device_builders import a_claim, a_device_class, a_slice
from holdfast.testing.harness import Harness


@pytest.fixture
async def cluster(tmp_path):
    """A cluster that allocates claims on node n for pods."""
    async with Harness(tmp_path / "store") as running:
        await running.create(a_node("n"), a_device_class())
        yield running


@pytest.fixture
async def node(cluster, node_directory, monkeypatch):
    monkeypatch.setattr(plugin_registry, "SCAN_SECONDS", 0.01)
    async with running_node(cluster, node_directory) as running:
        # The agent deletes slices of absent drivers when it starts; these come after.
        await cluster.settle()
        await cluster.create(a_slice(devices=8))
        yield running


class Node:
    """The claims of a node, with the drivers that register in its directory."""

    def __init__(self, cluster, directory, **options):
        self.cluster = cluster
        self.directory = directory
        self.active = None
        self.claims = ClaimManager(
            cluster.client, "n", directory, cluster.clock, lambda: self.active, **options
        )
        self.registry = PluginRegistry(
            directory / "plugins_registry", self.claims.handlers, SystemClock()
        )

    def driver(self, *arguments, **options):
        return DriverServer(self.directory, *arguments, **options)

    async def pod(self, name="p", *claims, **fields):
        """Create a pod that uses claims, and return it with its claims allocated."""
        listed = [{"name": each, "resourceClaimName": each} for each in claims or ("c",)]
        await self.cluster.create(a_pod(name, claims=listed, **fields))
        return await self.cluster.pod(name)

    def devices(self, pod, container="main"):
        return self.claims.container_devices(pod, container).cdi_devices

    def checkpoint(self):
        """Return the claims on disk; their checksum is right."""
        stored = json.loads((self.directory / "dra_manager_state").read_text())
        assert stored["Checksum"] == zlib.crc32(stored["Data"].encode())
        return json.loads(stored["Data"])["ClaimInfoStateList"]


@asynccontextmanager
async def running_node(cluster, directory, **options):
    node = Node(cluster, directory, **options)
    cluster.clock.busy.append(lambda: node.claims.busy)
    tasks = [asyncio.create_task(part.run()) for part in (node.claims, node.registry)]
    try:
        yield node
    finally:
        cluster.clock.busy.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_claim_is_prepared_once_its_driver_is_there_and_unprepared_once(cluster, node):
    await cluster.create(a_claim("c"))
    pod = await node.pod()
    with pytest.raises(
        NotPrepared, match=r"DRA driver gpu\.example\.com is not registered"
    ) as error:
        await node.claims.prepare(pod)
    assert (error.value.reason, error.value.permanent) == ("FailedPrepareDynamicResources", False)
    # Nothing was called, so nothing is recorded: the pod can be deleted without the driver.
    assert not (node.directory / "dra_manager_state").exists()
    await node.claims.unprepare(pod)
    async with node.driver() as driver:
        await driver.statuses.get()
        driver.errors["c"] = "no such board"
        with pytest.raises(NotPrepared, match="failed for ResourceClaim c: no such board"):
            await node.claims.prepare(pod)
        assert list(node.checkpoint()[0]["PodUIDs"]) == [pod.uid]
        del driver.errors["c"]
        for _ in range(2):
            await node.claims.prepare(pod)
        assert driver.calls == [("prepare", ("c",))] * 2
        claim = await cluster.client.get(RESOURCE_CLAIMS, "c", "default")
        assert node.devices(pod) == (f"example.com/gpu={claim.uid}",)
        assert node.checkpoint()[0]["DriverState"] == {
            driver.name: {
                "Devices": [
                    {
                        "PoolName": "n",
                        "DeviceName": "d",
                        "ShareID": None,
                        "RequestNames": [],
                        "CDIDeviceIDs": [f"example.com/gpu={claim.uid}"],
                    }
                ]
            }
        }
        for _ in range(2):
            await node.claims.unprepare(pod)
        assert driver.calls[2:] == [("unprepare", ("c",))]
        assert (driver.prepared, node.checkpoint()) == (set(), [])


async def test_containers_get_the_devices_of_their_requests_only(cluster, node):
    requests = [
        {"name": name, "exactly": {"deviceClassName": "gpu"}} for name in ("one", "two", "both")
    ]
    await cluster.create(a_claim("c", requests=requests), a_claim("all"))
    containers = [
        {"name": name, "image": "i", "resources": {"claims": listed}}
        for name, listed in {
            "first": [{"name": "c", "request": "one"}],
            "second": [{"name": "c", "request": "two"}, {"name": "c", "request": "one"}],
            "third": [{"name": "all"}, {"name": "c"}],
            "none": [],
        }.items()
    ]
    pod = await node.pod("p", "c", "all", containers=containers)
    async with node.driver() as driver:
        await driver.statuses.get()
        ids = {"one": ["v/c=1"], "two": ["v/c=2", "v/c=2b"], "": ["v/c=every"]}
        driver.devices = lambda claim: [
            dra_v1_pb2.Device(request_names=[name] if name else [], cdi_device_ids=listed)
            for name, listed in (ids if claim.name == "c" else {"req-0": ["v/c=all"]}).items()
        ]
        await node.claims.prepare(pod)
        assert driver.calls == [("prepare", ("c", "all"))]
        assert {each["name"]: node.devices(pod, each["name"]) for each in containers} == {
            "first": ("v/c=1", "v/c=every"),
            "second": ("v/c=2", "v/c=2b", "v/c=every", "v/c=1"),
            "third": ("v/c=all", "v/c=1", "v/c=2", "v/c=2b", "v/c=every"),
            "none": (),
        }


async def test_extended_resources_reach_the_containers_of_their_mappings(cluster, node):
    await cluster.create(a_device_class("fast", extended_resource_name="example.com/gpu"))
    containers = [
        {"name": name, "image": "i", "resources": {"limits": limits}}
        for name, limits in {
            "a": {"example.com/gpu": 2},
            "b": {"example.com/gpu": 1},
            "c": {},
        }.items()
    ]
    await cluster.create(a_pod("p", containers=containers))
    pod = await cluster.pod("p")
    async with node.driver() as driver:
        await driver.statuses.get()
        special = pod.status.extended_resource_claim_status
        driver.devices = lambda claim: [
            dra_v1_pb2.Device(request_names=[each.request_name], cdi_device_ids=[f"v/c={number}"])
            for number, each in enumerate(special.request_mappings)
        ]
        await node.claims.prepare(pod)
        assert [node.devices(pod, name) for name in "abc"] == [("v/c=0",), ("v/c=1",), ()]
        await node.claims.unprepare(pod)
        assert not driver.prepared


async def test_a_pod_that_may_not_use_its_claim_calls_no_driver(cluster, node):
    async with node.driver() as driver:
        await driver.statuses.get()
        pod = await node.pod("early", "c")
        with pytest.raises(NotPrepared, match=r'fetch ResourceClaim c: .*"c" not found'):
            await node.claims.prepare(pod)
        await cluster.create(a_claim("c"))
        pod = await cluster.pod("early")
        stranger = msgspec.structs.replace(
            pod, metadata=msgspec.structs.replace(pod.metadata, uid="other")
        )
        with pytest.raises(NotPrepared, match=r"\(other\) is not allowed to use ResourceClaim"):
            await node.claims.prepare(stranger)
        assert driver.calls == []


async def test_a_shared_claim_is_prepared_once_and_unprepared_after_its_last_pod(cluster, node):
    await cluster.create(a_claim("c"))
    first, second = await node.pod("first"), await node.pod("second")
    async with node.driver() as driver:
        await driver.statuses.get()
        await asyncio.gather(node.claims.prepare(first), node.claims.prepare(second))
        assert driver.calls == [("prepare", ("c",))]
        await node.claims.unprepare(first)
        assert len(driver.prepared) == 1
        # The pod has no reference any more: releasing again must not end its neighbour's.
        await node.claims.unprepare(first)
        assert len(driver.prepared) == 1 and node.devices(second)
        await node.claims.unprepare(second)
        assert driver.calls == [("prepare", ("c",)), ("unprepare", ("c",))]


async def test_after_a_restart_prepare_is_called_again_and_devices_are_not_doubled(
    cluster, node_directory, monkeypatch
):
    monkeypatch.setattr(plugin_registry, "SCAN_SECONDS", 0.01)
    async with DriverServer(node_directory) as driver:
        async with running_node(cluster, node_directory) as node:
            await cluster.settle()
            await cluster.create(a_slice(devices=2), a_claim("c"), a_claim("gone"))
            await driver.statuses.get()
            pod, gone = await node.pod("p", "c"), await node.pod("q", "gone")
            await node.claims.prepare(pod)
            await node.claims.prepare(gone)
            devices = node.devices(pod)
        async with running_node(cluster, node_directory) as node:
            assert (await driver.statuses.get()).plugin_registered
            assert node.devices(pod) == devices
            # The other pod was deleted while the agent was away.
            node.active = {pod.uid}
            await cluster.advance(1)
            for _ in range(2):
                assert node.devices(pod) == devices
                assert driver.calls[:2] == [("prepare", ("c",)), ("prepare", ("gone",))]
                assert sorted(driver.calls[2:]) == [("prepare", ("c",)), ("unprepare", ("gone",))]
                await node.claims.prepare(pod)


def _enveloped(data):
    return json.dumps({"Data": data, "Checksum": zlib.crc32(data.encode())})


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"Data": "{}"}',
        '{"Data": "{}", "Checksum": 1}',
        _enveloped("x"),
        _enveloped("{}"),
        _enveloped('{"kind": "Other", "apiVersion": "v1"}'),
        "[" * 100_000,
    ],
)
async def test_a_damaged_checkpoint_refuses_the_start_and_says_how_to_go_on(
    node_directory, content
):
    path = node_directory / "dra_manager_state"
    path.write_text(content)
    with pytest.raises(BadConfiguration, match=r"dra_manager_state .*--reset-checkpoint"):
        ClaimManager(None, "n", node_directory, SystemClock(), lambda: None)
    ClaimManager(None, "n", node_directory, SystemClock(), lambda: None, reset_checkpoint=True)


async def test_a_checkpoint_of_a_kubelet_is_read(cluster, node_directory):
    data = json.dumps({
        "kind": "DRACheckpoint",
        "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1",
        "ClaimInfoStateList": [{
            "ClaimUID": "u", "ClaimName": "c", "Namespace": "default", "PodUIDs": {"pod-1": {}},
            "DriverState": {"gpu.example.com": {"Devices": None}},
        }],
    })  # fmt: skip
    (node_directory / "dra_manager_state").write_text(_enveloped(data))
    async with running_node(cluster, node_directory) as node, node.driver() as driver:
        assert (await driver.statuses.get()).plugin_registered
        node.active = set()
        await cluster.advance(1)
        assert driver.calls == [("unprepare", ("c",))]


async def test_a_new_claim_of_the_same_name_waits_for_the_old_one(cluster, node):
    await cluster.create(a_claim("c"))
    old = await node.pod("old")
    async with node.driver() as driver:
        await driver.statuses.get()
        await node.claims.prepare(old)
        await cluster.client.delete(PODS, "old", "default", grace_seconds=0)
        await cluster.delete(RESOURCE_CLAIMS, "c", "default")
        await cluster.create(a_claim("c"))
        new = await node.pod("new")
        with pytest.raises(NotPrepared, match=r"older ResourceClaim c with UID .* still prepared"):
            await node.claims.prepare(new)
        node.active = {new.uid}
        await cluster.advance(60)
        assert driver.calls == [("prepare", ("c",)), ("unprepare", ("c",))]
        await node.claims.prepare(new)
        await node.claims.unprepare(old)
        assert len(driver.prepared) == 1


async def test_a_claim_allocated_anew_waits_until_its_old_devices_are_released(cluster, node):
    """Otherwise the new pod would get the devices of the earlier allocation."""
    await cluster.create(a_claim("c"), a_claim("d"))
    old = await node.pod("old")
    async with node.driver() as driver:
        await driver.statuses.get()
        await node.claims.prepare(old)
        await cluster.client.delete(PODS, "old", "default", grace_seconds=0)
        await cluster.settle()
        await node.pod("taker", "d")  # takes the device
        new = await node.pod("new")
        with pytest.raises(NotPrepared, match="still prepared for an earlier allocation"):
            await node.claims.prepare(new)
        node.active = {new.uid}
        await cluster.advance(60)
        await node.claims.prepare(new)
        assert driver.calls == [(each, ("c",)) for each in ("prepare", "unprepare", "prepare")]


async def test_drivers_of_the_older_api_are_called_in_it(cluster, node):
    await cluster.create(a_claim("c"))
    pod = await node.pod()
    driver = node.driver()
    driver.versions = ["v9.DRAPlugin", DRA_V1BETA1]
    async with driver:
        await driver.statuses.get()
        await node.claims.prepare(pod)
        assert len(node.devices(pod)) == 1
        await node.claims.unprepare(pod)
        assert not driver.prepared


async def test_wrong_answers_of_a_driver_are_told_and_tried_again(cluster, node, monkeypatch):
    await cluster.create(a_claim("c"), a_claim("d"))
    pod = await node.pod("p", "c", "d")
    async with node.driver() as driver:
        await driver.statuses.get()
        for change, said in WRONG.items():
            with monkeypatch.context() as changed:
                change(driver, changed)
                with pytest.raises(NotPrepared, match=said) as error:
                    await node.claims.prepare(pod)
                assert len(str(error.value)) < 1000
        await node.claims.prepare(pod)
        assert len(driver.prepared) == 2
        for change, said in list(WRONG.items())[:2]:
            with monkeypatch.context() as changed:
                change(driver, changed)
                with pytest.raises(NotPrepared, match=said.replace("NodeP", "NodeUnp")):
                    await node.claims.unprepare(pod)
        await node.claims.unprepare(pod)
        assert (driver.prepared, node.checkpoint()) == (set(), [])


async def test_a_driver_that_hangs_is_given_up_and_called_again(cluster, node):
    await cluster.create(a_claim("c"))
    pod = await node.pod()
    async with node.driver() as driver:
        await driver.statuses.get()
        endpoint = node.claims.handlers[driver.type].endpoint(driver.name)
        driver.before_prepare = lambda: asyncio.ensure_future(asyncio.sleep(60))
        endpoint._seconds = 0.2
        with pytest.raises(NotPrepared, match="NodePrepareResources: DEADLINE_EXCEEDED"):
            await node.claims.prepare(pod)
        endpoint._seconds = 45
        driver.before_prepare = lambda: None
        await node.claims.prepare(pod)
        assert node.devices(pod)


def _answer(change):
    """Change the answers of prepare and unprepare."""

    def patch(driver, monkeypatch):
        prepare, unprepare = driver.prepare, driver.unprepare

        async def changed(claims):
            return change(await prepare(claims), ([], ""))

        monkeypatch.setattr(driver, "prepare", changed)
        monkeypatch.setattr(driver, "unprepare", lambda claims: change(unprepare(claims), ""))

    return patch


def _prepare(action):
    return lambda driver, monkeypatch: monkeypatch.setattr(
        driver, "before_prepare", lambda: asyncio.ensure_future(action(driver))
    )


async def _raise(driver):
    raise ValueError("x" * 5_000)


WRONG = {
    _answer(lambda answers, _: dict(list(answers.items())[:1])): (
        "NodePrepareResources skipped 1 ResourceClaims"
    ),
    _answer(lambda answers, empty: answers | {"stranger": empty}): (
        "NodePrepareResources returned a result for the unknown claim UID stranger"
    ),
    _answer(lambda answers, _: dict.fromkeys(answers, ([], "e" * 100_000))): (
        "failed for ResourceClaim c: eee"
    ),
    _answer(
        lambda answers, _: dict.fromkeys(
            answers, ([dra_v1_pb2.Device(cdi_device_ids=["i" * 5_000_000])], "")
        )
    ): "RESOURCE_EXHAUSTED",
    _prepare(_raise): "NodePrepareResources: UNKNOWN: ",
}


async def test_a_driver_that_dies_in_a_call_is_called_again(cluster, node):
    await cluster.create(a_claim("c"))
    pod = await node.pod()
    async with node.driver() as driver:
        await driver.statuses.get()
        driver.before_prepare = lambda: asyncio.ensure_future(asyncio.sleep(60))
        preparing = asyncio.create_task(node.claims.prepare(pod))
        await until(lambda: driver.calls)
        await driver.stop()
        with pytest.raises(NotPrepared, match="NodePrepareResources: "):
            await preparing
        driver.before_prepare = lambda: None
        await driver.start()
        while not (await driver.statuses.get()).plugin_registered:
            pass
        await node.claims.prepare(pod)
        assert node.devices(pod)


async def test_a_cancelled_prepare_is_remembered_and_unprepared(cluster, node):
    await cluster.create(a_claim("c"))
    pod = await node.pod()
    async with node.driver() as driver:
        await driver.statuses.get()
        driver.before_prepare = lambda: asyncio.ensure_future(asyncio.sleep(60))
        preparing = asyncio.create_task(node.claims.prepare(pod))
        await until(lambda: driver.calls)
        preparing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await preparing
        await node.claims.unprepare(pod)
        assert driver.calls == [("prepare", ("c",)), ("unprepare", ("c",))]
        assert node.checkpoint() == []
