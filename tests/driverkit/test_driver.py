"""A driver on its sockets: claims prepared, unprepared, restarted, killed."""

import asyncio
import threading

import pytest

from holdfast.api.scheme import RESOURCE_CLAIMS
from holdfast.driver import Capacity, Cdi, Device, Driver, DriverError, Unhealthy
from holdfast.node.cdi.registry import UnresolvableDevice
from holdfast.node.driverkit.author_functions import AuthorFunction
from holdfast.node.driverkit.process import DriverProcess
from holdfast.runtime.errors import BadConfiguration, Refused
from holdfast.testing.driver_conformance import check_driver_async
from holdfast.testing.drivers import Block, DriverNode, Fail, FaultyDriver


def a_driver(**options):
    driver = Driver("gpu.example.com", **options)

    @driver.inventory
    def inventory(node):
        shared = Device(
            "shared", capacity={"memory": Capacity("8Gi", default="1Gi")}, shareable=True
        )
        return [Device("gpu-0", {"node": node}), Device("gpu-1"), shared]

    @driver.prepare
    async def prepare(claim, devices):
        return [Cdi().env(**{f"GPU_{d.request}": d.name}).device(f"/dev/{d.name}") for d in devices]

    return driver


async def test_a_driver_of_the_kit_passes_the_conformance_suite():
    await check_driver_async(a_driver())


async def test_the_suite_finds_a_driver_that_cannot_prepare():
    driver = Driver("bad.example.com")
    driver.inventory(lambda: [Device("x")])

    @driver.prepare
    def prepare(claim):
        raise OSError("no such card")

    with pytest.raises(AssertionError, match="prepare of x: prepare failed: OSError: no such card"):
        await check_driver_async(driver)


async def test_claims_get_what_their_requests_ask_for():
    driver = a_driver()
    async with DriverNode(driver) as node:
        claim = await node.allocate("gpu-0", "gpu-1", "shared")
        answer = await node.prepare(claim)
        assert [(list(d.request_names), d.pool_name, d.device_name) for d in answer.devices] == [
            (["r0"], "node-1", "gpu-0"),
            (["r1"], "node-1", "gpu-1"),
            (["r2"], "node-1", "shared"),
        ]
        assert [bool(d.share_id) for d in answer.devices] == [False, False, True]
        assert node.edits(answer, "r1").environment == {"GPU_r1": "gpu-1"}
        assert len(node.edits(answer).device_nodes) == 3
        await node.unprepare(claim)
        with pytest.raises(UnresolvableDevice, match="unresolvable CDI devices"):
            node.edits(answer)


async def test_results_for_the_claim_or_by_request_and_parameters():
    driver = Driver("gpu.example.com")
    driver.inventory(lambda: [Device("a"), Device("b")])
    seen = []

    @driver.prepare
    def prepare(claim, devices):
        seen.append([(d.request, [dict(c) for c in d.config]) for d in devices])
        return results.pop(0)

    results = [Cdi().env(ALL=1), {"r1": Cdi().env(ONE=1)}, None, {"x": Cdi()}, 5]
    async with DriverNode(driver) as node:
        whole = await node.prepare(await node.allocate("a", "b", config={"mode": "x"}))
        assert node.edits(whole, "r0") == node.edits(whole, "r1") == node.edits(whole)
        assert seen == [[("r0", [{"mode": "x"}]), ("r1", [{"mode": "x"}])]]
        by_request = await node.prepare(await node.allocate("a", "b"))
        assert not node.edits(by_request, "r0")
        assert node.edits(by_request).environment == {"ONE": "1"}
        nothing = await node.prepare(await node.allocate("a"))
        assert [list(d.cdi_device_ids) for d in nothing.devices] == [[]]
        for message in ("edits for requests that are not there: x", "must return Cdi"):
            assert message in (await node.prepare(await node.allocate("a"))).error


async def test_a_slow_prepare_runs_once_though_the_caller_gives_up():
    faulty = FaultyDriver(a_driver())
    async with DriverNode(faulty) as node:
        claim = await node.allocate("gpu-0")
        block = Block()
        faulty.inject("prepare", block)
        first = asyncio.create_task(node.prepare(claim))
        await block.entered.wait()
        first.cancel()
        second = asyncio.create_task(node.prepare(claim))
        block.release.set()
        assert not (await second).error
        assert faulty.calls == [("prepare", claim.uid)]


async def test_a_claim_allocated_again_is_unprepared_first():
    faulty = FaultyDriver(a_driver())
    async with DriverNode(faulty) as node:
        claim = await node.allocate("gpu-0")
        await node.prepare(claim)
        for devices in (
            None,
            {
                "results": [
                    {
                        "request": "r0",
                        "driver": "gpu.example.com",
                        "pool": "node-1",
                        "device": "gpu-1",
                    }
                ]
            },
        ):
            allocation = devices and {"devices": devices}
            await node.client.patch(
                RESOURCE_CLAIMS,
                claim.name,
                {"status": {"allocation": allocation}},
                "default",
                subresource="status",
            )
        assert node.edits(await node.prepare(claim)).environment == {"GPU_r0": "gpu-1"}
        assert [name for name, _ in faulty.calls] == ["prepare", "unprepare", "prepare"]


async def test_a_claim_whose_unprepare_failed_is_prepared_again():
    """The failed call may have undone a part."""
    faulty = FaultyDriver(a_driver())
    async with DriverNode(faulty) as node:
        claim = await node.allocate("gpu-0")
        await node.prepare(claim)
        faulty.inject("unprepare", Fail("half done"))
        assert (await node.unprepare(claim)).error
        assert not (await node.prepare(claim)).error
        assert faulty.calls == [("prepare", claim.uid)] * 2


async def test_a_lost_cdi_file_is_written_again_and_a_damaged_checkpoint_refuses_the_start():
    faulty = FaultyDriver(a_driver())
    async with DriverNode(faulty) as node:
        claim = await node.allocate("gpu-0")
        answer = await node.prepare(claim)
        for file in node.cdi_dir.iterdir():
            file.unlink()
        assert await node.prepare(claim) == answer
        assert node.edits(answer)
        with pytest.raises(Refused, match=r"gpu\.example\.com already runs with directory"):
            await DriverProcess(faulty, node.settings, node.client, node.process._clock).start()
        await node.stop()
        assert not list(node.settings.registry_dir.iterdir())
        file = node.settings.plugins_dir / "gpu.example.com" / "checkpoint.json"
        text = file.read_bytes()
        file.write_bytes(text.replace(b"gpu-0", b"gpu-1"))
        with pytest.raises(BadConfiguration, match=r"checkpoint\.json is damaged \(the checksum"):
            await node.start()
        file.write_bytes(text)
        (node.settings.registry_dir / "gpu.example.com-reg.sock").write_text("of a killed process")
        await node.start()
        assert await node.prepare(claim) == answer


async def test_unhealthy_devices_are_tainted():
    driver = a_driver(refresh_seconds=0.01)
    broken = {}
    driver.health(lambda: dict(broken))
    async with DriverNode(driver) as node:
        broken["gpu-0"] = "XID 79"
        broken["gpu-1"] = Unhealthy("ECC", "NoExecute")
        while not (await node.devices())["gpu-1"][1].taints:
            await asyncio.sleep(0.01)
        taints = [device.taints for _, device in (await node.devices()).values()]
        assert [[(t.key, t.effect) for t in each] for each in taints] == [
            [("gpu.example.com/unhealthy", "NoSchedule")],
            [("gpu.example.com/unhealthy", "NoExecute")],
            [],
        ]


async def test_an_inventory_that_fails_stops_the_start_and_later_keeps_the_last_one():
    driver = Driver("gpu.example.com", refresh_seconds=0.01)
    found = [DriverError("no GPU found"), [Device("a")], DriverError("lost")]

    @driver.inventory
    def inventory():
        one = found.pop(0) if len(found) > 1 else found[0]
        if isinstance(one, Exception):
            raise one
        return one

    driver.prepare(lambda claim: None)
    with pytest.raises(DriverError, match="no GPU found"):
        async with DriverNode(driver):
            pass
    async with DriverNode(driver) as node:
        while not node.process.problems()["inventory"]:
            await asyncio.sleep(0.01)
        assert list(await node.devices()) == ["a"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Driver("GPU_1"), "the name of the driver, 'GPU_1': Invalid value"),
        (lambda: Driver(""), "the name of the driver, '': Required value"),
        (lambda: Driver("a.b", refresh_seconds=0), "refresh_seconds must be more than 0"),
        (lambda: Driver("a.b").check(), "driver a.b has no function for @driver.inventory"),
        (lambda: Driver("a.b").prepare(5), "@driver.prepare is for a function (claim, devices)"),
        (lambda: Driver("a.b").inventory(lambda a, b: 1), "may take (node) and no more"),
        (lambda: Driver("a.b").health(lambda *, a: 1), "may take () and no more"),
    ],
)
def test_a_wrong_driver_is_refused_with_the_reason(make, message):
    with pytest.raises(BadConfiguration) as wrong:
        make()
    assert message in str(wrong.value)


async def test_functions_take_what_they_need():
    for function in (lambda: 1, lambda a: 1, lambda a, b: 1, lambda a, b, c=3: 1, lambda *a: 1):
        assert await AuthorFunction(function, "prepare", "claim", "devices")(1, 2) == 1

    async def later():
        return 1

    def steps():
        yield threading.current_thread() is not threading.main_thread()

    assert (
        await AuthorFunction(later, "inventory")()
        == await AuthorFunction(lambda: later(), "inventory")()
        == 1
    )
    assert await AuthorFunction(steps, "inventory")() == [True]


async def test_an_error_of_prepare_leaves_no_file():
    faulty = FaultyDriver(a_driver())
    async with DriverNode(faulty) as node:
        claim = await node.allocate("gpu-0")
        faulty.inject("prepare", Fail("broken"))
        assert (await node.prepare(claim)).error == "broken"
        assert not node.cdi_dir.exists()
