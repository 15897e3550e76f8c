"""What the author of a classic driver gives the kit: parameters, quota, errors, own handlers."""

from tests.driverkit.classic_controller import (
    CLAIMS,
    SCHEDULINGS,
    DriverTest,
    Memory,
    a_driver,
)

from holdfast.api.classic_dra.names import IMMEDIATE
from holdfast.api.classic_dra.node_inventory import NODE_INVENTORIES
from holdfast.api.classic_dra.types import ClassicAllocation
from holdfast.api.scheme import PODS
from holdfast.cli.classic_dra.explanation import read_failures
from holdfast.driver import Choice, Device, Driver, Retry, Unsuitable
from holdfast.node.driverkit.classic_dra import fit_handlers
from holdfast.state.classic_dra.ledger import ClassicLedger
from holdfast.state.columns.node_table import NodeTable


async def test_C049_missing_parameters_keep_a_claim_pending_until_they_are_there(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        reference = {"apiGroup": "gpu.example.com", "kind": "Memory", "name": "wanted"}
        await test.create_claim(parametersRef=reference)
        await test.create_pod(selected="n1")
        await test.clock.advance(100)
        assert not (await test.claim()).metadata.finalizers
        [message] = set(await test.events("claim"))
        assert message == "claim claim: parameters Memory wanted: it does not exist"
        assert message in await test.events("pod")
        await test.create_parameters("wanted", memory="2Gi")
        await test.clock.advance(5.1)
        assert '"2Gi"' in (await test.claim()).status.allocation.resource_handle


def choosy():
    """Return a driver whose ``fits`` says why a device does not fit."""
    driver = Driver("gpu.example.com")
    driver.prepare(lambda claim: None)

    @driver.fits
    def fits(free, request):
        if not free:
            return None
        if free[0].attributes.get("firmware") == 1:
            raise Unsuitable("the firmware is too old")
        return Choice([free[0]])

    return driver


async def test_the_reason_that_fits_gives_is_an_event_once_and_why_shows_it(tmp_path):
    old, new = Device("gpu-0", {"firmware": 1}), Device("gpu-0", {"firmware": 2})
    async with DriverTest(tmp_path, choosy()) as test:
        await test.create_class()
        for name in ("n1", "n2"):
            await test.create_node(name, old)
        await test.create_claim()
        await test.create_pod(potential=["n1", "n2", "without-devices"])
        assert await test.answers() == {"claim": ["n1", "n2", "without-devices"]}
        said = "claim claim: n1, n2: the firmware is too old"
        assert await test.events("pod") == await test.events("claim") == [said]
        ledger = ClassicLedger(NodeTable())
        for resource in (CLAIMS, SCHEDULINGS):
            for obj in (await test.client.list(resource)).items:
                ledger.upsert(obj)
        pod = await test.client.get(PODS, "pod", "default")
        shown = await read_failures(test.client, pod, ledger)
        assert {(one["by"], one["message"]) for one in shown} == {("gpu.example.com", said)}
        await test.create_node("n3", new)  # whatever waits is looked at again
        await test.clock.advance(100)
        assert await test.events("pod") == [said]
        await test.ask(selected="n3")
        assert (await test.claim()).is_allocated
        assert await test.events("pod") == [said]


async def test_the_reason_that_fits_gives_is_an_event_of_an_immediate_claim(tmp_path):
    async with DriverTest(tmp_path, choosy()) as test:
        await test.create_class()
        await test.create_node("n1", Device("gpu-0", {"firmware": 1}))
        await test.create_claim(allocationMode=IMMEDIATE)
        [message] = set(await test.events("claim"))
        said = "no node has what the claim needs: n1: the firmware is too old"
        assert message == f"claim claim: {said}"


async def test_a_node_without_a_free_device_is_no_event(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_claim()
        await test.create_node("n1", Device("gpu-0", {}, {"memory": "1Gi"}))
        await test.create_pod(potential=["n1", "n2"])
        assert await test.answers() == {"claim": ["n1", "n2"]}
        assert await test.events("pod") == []


async def test_the_name_of_parameters_leads_to_no_other_object(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_parameters("wanted", memory="2Gi")
        reference = {"apiGroup": "gpu.example.com", "kind": "Memory"}
        name = "../../other/memorys/wanted"
        await test.create_claim(parametersRef=reference | {"name": name}, allocationMode=IMMEDIATE)
        [message] = set(await test.events("claim"))
        assert message == f"claim claim: Memory '{name}': may not contain '/'"


async def test_an_optional_claim_does_not_wait_for_a_node_that_another_driver_rejects(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_parameters("wanted", optional=True)
        reference = {"apiGroup": "gpu.example.com", "kind": "Memory", "name": "wanted"}
        await test.create_claim(parametersRef=reference)
        await test.create_node("n1")
        await test.create_pod(potential=["n1", "n2"])
        assert await test.answers() == {"claim": ["n2"]}
        claims = [
            {"podResourceClaimName": "claim", "unsuitableNodes": ["n2"]},
            {"podResourceClaimName": "other", "unsuitableNodes": ["n1"]},
        ]
        status = {"status": {"claims": claims}}
        await test.client.patch(SCHEDULINGS, "pod", status, "default", subresource="status")
        await test.clock.advance(31)
        assert await test.answers() == {"claim": [], "other": ["n1"]}


async def test_C074_an_optional_claim_prefers_a_node_that_gives_something(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n2")
        await test.create_parameters("wanted", memory="8Gi", optional=True)
        reference = {"apiGroup": "gpu.example.com", "kind": "Memory", "name": "wanted"}
        for name in ("one", "two"):
            await test.create_claim(name, parametersRef=reference)
        await test.create_pod("p1", "one", potential=["n1", "n2"], selected="n1")
        assert await test.answers("p1") == {"one": ["n1"]}
        await test.ask("p1", potential=["n2"], selected="n2")
        assert '"granted":1' in (await test.claim("one")).status.allocation.resource_handle
        await test.create_pod("p2", "two", potential=["n1", "n2"], selected="n1")
        assert '"granted":0' in (await test.claim("two")).status.allocation.resource_handle
        assert await test.booked("n2") == ["one"]


async def test_reasons_and_delays_of_the_author_are_shown_as_events(tmp_path):
    driver, outcomes = a_driver(), [Retry(20, "the array is busy"), Unsuitable("no path"), {"a": 1}]

    @driver.allocate
    async def allocate(request, choice):
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async with DriverTest(tmp_path, driver) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        await test.create_pod(selected="n1")
        assert await test.events("claim") == [
            "claim claim: the array is busy; trying again in 20 s"
        ]
        assert await test.booked() == ["claim"]  # the outcome may be unknown
        assert len(outcomes) == 2
        await test.clock.advance(21)
        assert "claim claim: no path" in await test.events("claim")
        assert await test.answers() == {"claim": ["n1"]}
        assert await test.booked() == []
        await test.clock.advance(31)
        assert '"data":{"a":1}' in (await test.claim()).status.allocation.resource_handle


async def test_the_quota_of_the_driver_refuses_further_claims(tmp_path):
    driver = a_driver()

    @driver.quota
    def quota(namespace, usage):
        return f"{namespace} may have 1 claim" if usage.claims >= 1 else None

    async with DriverTest(tmp_path, driver) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_node("n2")
        for name in ("a", "b"):
            await test.create_claim(name)
            await test.create_pod(f"pod-{name}", name, selected="n1" if name == "a" else "n2")
        assert not (await test.claim("b")).metadata.finalizers
        [message] = set(await test.events("b"))
        assert message == "claim b: quota of driver gpu.example.com: default may have 1 claim"
        await test.client.delete(SCHEDULINGS, "pod-a", "default")
        await test.set_status("a", reservedFor=None, deallocationRequested=True)
        await test.clock.advance(31)
        assert (await test.claim("b")).is_allocated


async def test_the_quota_of_the_driver_counts_all_claims_of_a_pod(tmp_path):
    driver = a_driver()

    @driver.quota
    def quota(usage):
        return "one claim" if usage.claims >= 1 else None

    async with DriverTest(tmp_path, driver) as test:
        await test.create_class()
        await test.create_node("n1", *(Device(f"gpu-{i}", {}, {"memory": "8Gi"}) for i in (0, 1)))
        for name in ("a", "b"):
            await test.create_claim(name)
        await test.create_pod("pod", "a", "b", selected="n1")
        assert not any([(await test.claim(name)).is_allocated for name in ("a", "b")])
        assert await test.booked() == []


async def test_a_defect_of_the_author_is_shown_and_stops_only_that_claim(tmp_path):
    driver = Driver("gpu.example.com", params=Memory)
    driver.prepare(lambda claim: None)

    @driver.fits
    def fits(free, request):
        if request.optional:
            raise ZeroDivisionError("oops")
        data = {"1": {"wrong": object()}, "2": "x" * 16384}.get(request.memory)
        return Choice(free[:1], data=data) if free else None

    async with DriverTest(tmp_path, driver) as test:
        await test.create_class()
        await test.create_node("n1")
        wrong = (("a", {"optional": True}), ("b", {"memory": "1"}), ("c", {"memory": "2"}))
        for name, fields in (*wrong, ("d", {})):
            await test.create_node(f"n-{name}")
            await test.create_parameters(name, **fields)
            reference = {"apiGroup": "gpu.example.com", "kind": "Memory", "name": name}
            await test.create_claim(name, parametersRef=reference)
            await test.create_pod(f"p{name}", name, selected=f"n-{name}")
        assert set(await test.events("a")) == {"claim a: ZeroDivisionError: oops"}
        assert "TypeError" in (await test.events("b"))[0]
        assert "claim c: its handle has 16" in (await test.events("c"))[0]
        assert (await test.claim("d")).is_allocated


async def test_slow_answers_of_the_author_book_nothing_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(fit_handlers, "MOST_BUSY_SECONDS", -1.0)  # other tasks after each node
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_parameters("wanted", optional=True)
        nodes = [f"n{i}" for i in range(5)]
        for node in nodes[:2]:
            await test.create_node(node)
        reference = {"apiGroup": "gpu.example.com", "kind": "Memory", "name": "wanted"}
        for name in "abcd":
            await test.create_claim(name, parametersRef=reference)
        for name in "abcd":
            await test.create_pod(f"pod-{name}", name, potential=nodes, selected="n4")
        for name in "abcd":
            await test.ask(f"pod-{name}", potential=nodes, selected="n1" if name < "c" else "n0")
        await test.clock.advance(31)
        assert [len(await test.booked(node)) for node in nodes[:2]] == [1, 1]


async def test_devices_of_the_network_can_be_used_by_all_nodes(tmp_path):
    driver = Driver("gpu.example.com")
    driver.network_inventory(lambda: [Device("port-0"), Device("port-1")])
    driver.prepare(lambda claim: None)
    driver.fits(lambda free, request: Choice(free[:1]) if free else None)
    async with DriverTest(tmp_path, driver) as test:
        await test.create_class()
        await test.until(
            lambda: (
                test.process.controller.informers.get(
                    NODE_INVENTORIES, namespace=driver.namespace
                ).cache
            )
        )
        for name in ("a", "b", "c"):
            await test.create_claim(name)
            await test.create_pod(f"p{name}", name, potential=["n1", "n2"], selected="n1")
        assert (await test.claim("a")).status.allocation.available_on_nodes is None
        assert await test.booked("gpu.example.com") == ["a", "b"]
        assert await test.answers("pc") == {"c": ["n1", "n2"]}


class OwnHandlers:
    """Handlers of an author who needs no inventory."""

    def __init__(self):
        self.calls = []

    async def class_parameters(self, resource_class):
        return None

    async def claim_parameters(self, claim, resource_class, class_parameters):
        return None

    async def allocate(self, items, selected_node):
        self.calls.append(("allocate", selected_node))
        return [ClassicAllocation(resource_handle="x" * 16385) for _ in items]

    async def deallocate(self, claim):
        self.calls.append(("deallocate", claim.name))

    async def unsuitable_nodes(self, pod, items, nodes, asked):
        return {"n1"} & set(nodes)


async def test_an_author_may_implement_the_five_functions(tmp_path):
    own = OwnHandlers()
    driver = Driver("gpu.example.com")
    driver.prepare(lambda claim: None)
    driver.handlers(lambda: own)
    async with DriverTest(tmp_path, driver) as test:
        await test.create_class()
        await test.create_claim()
        await test.create_pod(potential=["n1", "n2"], selected="n1")
        assert await test.answers() == {"claim": ["n1"]}
        await test.ask(potential=["n2"], selected="n2")
        assert "16385 bytes" in (await test.events("pod"))[0]
        await test.client.delete(CLAIMS, "claim", "default")
        await test.clock.settle()
        assert await test.claim() is None
        assert own.calls[0] == ("allocate", "n2")
        assert own.calls[-1] == ("deallocate", "claim")
