"""Drivers of classic DRA as their authors write them: functions, parameters, handles, parts."""

import asyncio
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
import yaml

from driverkit.example_modules import load
from holdfast.driver import Cdi, Choice, Count, Device, Driver, Unsuitable
from holdfast.node.driverkit.classic_dra.parameters import (
    WrongParameters,
    crd_of,
    parameters_of,
    schema_of,
)
from holdfast.runtime.errors import BadConfiguration
from holdfast.testing.classic_dra.drivers import ClassicDriverNode
from holdfast.testing.driver_conformance import check_driver_async

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "60-classic-gpu"


async def test_the_example_is_a_conforming_driver(monkeypatch):
    module = load(EXAMPLE, "driver", monkeypatch)
    await check_driver_async(module.driver, {"memory": "2Gi"})


def test_the_example_prints_its_crds():
    printed = subprocess.run(
        [sys.executable, EXAMPLE / "driver.py", "crds"], capture_output=True, text=True, check=True
    ).stdout
    assert list(yaml.safe_load_all(printed)) == list(
        yaml.safe_load_all((EXAMPLE / "crds.yaml").read_text())
    )


async def test_C074_a_container_sees_what_an_optional_claim_got():
    @dataclass
    class Wanted:
        count: Count = field(default_factory=lambda: Count(0, 2))

    driver = Driver("gpu.example.com", params=Wanted)
    driver.inventory(lambda: [Device(f"gpu{i}") for i in range(3)])
    driver.prepare(lambda claim, devices: [Cdi().env(**{d.name: 1}) for d in devices])

    @driver.fits
    def fits(free, request):
        found = free[: request.count.max]
        return Choice(found) if len(found) >= request.count.min else None

    async with ClassicDriverNode(driver) as node:
        seen = []
        for _ in range(3):
            claim = await node.allocate_claim()
            edits = node.edits_of(await node.prepare_classic(claim))
            seen.append(dict(edits.environment))
            await node.unprepare_classic(claim)
    granted = "GPU_EXAMPLE_COM_GRANTED"
    assert seen == [
        {"gpu0": "1", "gpu1": "1", granted: "2"},
        {"gpu2": "1", granted: "1"},
        {granted: "0"},
    ]


@dataclass
class Address:
    host: str
    port: int


async def test_a_handle_has_the_type_of_the_author():
    seen = []
    driver = Driver("net.example.com", handle=Address)
    driver.network_inventory(lambda: [Device("port-0")])
    driver.fits(lambda free: Choice(free[:1]) if free else None)
    driver.allocate(lambda request, choice: Address("h", 80))
    driver.prepare(lambda claim: seen.append(claim.handle.data))
    driver.release(lambda handle: seen.append(handle.data))
    async with ClassicDriverNode(driver) as node:
        claim = await node.allocate_claim()
        assert await node.prepare_classic(claim) == []
        await node.unprepare_classic(claim)
        await node.release_claim(claim)
    assert seen == [Address("h", 80), Address("h", 80)]


async def test_a_node_allocates_itself_and_may_withdraw_the_choice():
    @dataclass
    class Wanted:
        memory: str = "1Gi"

    outcomes = [Unsuitable("the firmware is too old"), RuntimeError("once"), {"slot": 7}]
    driver = Driver("gpu.example.com", params=Wanted)
    driver.inventory(lambda: [Device("gpu-0")])
    driver.fits(lambda free: Choice(free[:1]) if free else None)
    driver.prepare(lambda claim: Cdi().env(SLOT=claim.handle.data["slot"]))

    @driver.allocate_on_node
    async def allocate_on_node(request, choice):
        assert (request, choice.whole) == (Wanted("2Gi"), ("gpu-0",))
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async with (
        asyncio.timeout(30),
        ClassicDriverNode(driver, parameters={"memory": "2Gi"}) as node,
    ):
        refused = await node.new_claim()
        await node.select(refused)
        while await node.answers(refused) != {"claim": [node.name]}:
            await asyncio.sleep(0.02)
        assert not (await node.inventory()).spec.answers
        await node.forget(refused)
        claim = await node.allocate_claim()
        edits = node.edits_of(await node.prepare_classic(claim))
        assert edits.environment == {"SLOT": "7"}
        await node.unprepare_classic(claim)
        await node.release_claim(claim)
        while (await node.inventory()).spec.answers:
            await asyncio.sleep(0.02)


@dataclass
class Nested:
    deep_value: int = 0


@dataclass
class Everything:
    memory: str
    init_command: list[str] = field(default_factory=list)
    mode: Literal["fast", "slow"] = "fast"
    nested: Nested | None = None
    by_name: dict[str, Nested] = field(default_factory=dict)


def test_parameters_are_read_as_dataclasses_and_errors_name_the_field():
    raw = {"kind": "Everything", "metadata": {"name": "x"}, "memory": "2Gi"}
    found = parameters_of({**raw, "initCommand": ["a"], "nested": {"deepValue": 3}}, Everything)
    assert found == Everything("2Gi", ["a"], nested=Nested(3))
    assert parameters_of({**raw, "byName": {"a": {"deepValue": 1}}}, Everything).by_name == {
        "a": Nested(1)
    }
    assert parameters_of(raw, None) == {"memory": "2Gi"}
    for wrong, part in (
        ({"memory": 2}, "memory"),
        ({"memory": "2", "nested": {"other": 1}}, "nested.other"),
        ({"memory": "2", "nested": 5}, "nested"),
        ({"memory": "2", "mode": "odd"}, "odd"),
        ({}, "memory"),
    ):
        with pytest.raises(WrongParameters, match=part):
            parameters_of({"kind": "Everything", "metadata": {"name": "x"}, **wrong}, Everything)


def test_a_dataclass_becomes_a_schema():
    schema = schema_of(Everything)
    assert schema["required"] == ["memory"]
    assert schema["properties"]["nested"] == {
        "type": "object",
        "properties": {"deepValue": {"type": "integer", "format": "int64"}},
        "nullable": True,
    }
    assert schema["properties"]["mode"] == {"type": "string", "enum": ["fast", "slow"]}
    assert crd_of(Nested, "g.example.com")["metadata"]["name"] == "nesteds.g.example.com"
    with pytest.raises(BadConfiguration, match="no JSON schema"):
        schema_of(set[int])


def test_functions_that_do_not_go_together_are_refused(capsys):
    driver = Driver("gpu.example.com")
    with pytest.raises(BadConfiguration, match="must not be async"):

        @driver.fits
        async def fits(free, request):
            return None

    driver.allocate(lambda request: None)
    driver.prepare(lambda claim: None)
    driver.inventory(lambda: [])
    with pytest.raises(BadConfiguration, match=r"@driver.allocate but no @driver.fits"):
        driver.check()
    driver.fits(lambda free, request: None)
    driver.check()
    with pytest.raises(BadConfiguration, match="two functions"):
        driver.fits(lambda free, request: None)
    driver.network_inventory(lambda: [])
    with pytest.raises(BadConfiguration, match="divide it into two"):
        driver.check()
    with pytest.raises(SystemExit):
        driver.run(["extender"])
    assert "divide it into two" in capsys.readouterr().err
