"""The controller of a classic driver, rule by rule, through an API server."""

import pytest
from tests.driverkit.classic_controller import (
    CLAIMS,
    CLASSES,
    SCHEDULINGS,
    DriverTest,
    Memory,
    a_driver,
)

from holdfast.api.classic import ClassicAllocation
from holdfast.api.classic_names import IMMEDIATE
from holdfast.api.node_inventory import NODE_INVENTORIES
from holdfast.api.scheme import PODS
from holdfast.driverkit import Choice, Device, Driver, Retry, Unsuitable
from holdfast.driverkit.classic import fit_handlers
from holdfast.testing import Fault

OURS = "gpu.example.com/deletion-protection"


async def test_C025_one_write_allocates_and_reserves_and_nothing_is_answered(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        before = (await test.claim()).metadata.resource_version
        pod = await test.create_pod(potential=["n1"], selected="n1")
        claim = await test.claim()
        assert [consumer.uid for consumer in claim.status.reserved_for] == [pod.uid]
        assert claim.status.driver_name == "gpu.example.com"
        assert claim.status.allocation.available_on_nodes is not None
        assert claim.metadata.finalizers == (OURS,)
        assert await test.answers() == {}
        assert await test.booked() == ["claim"]
        assert before != claim.metadata.resource_version


async def test_C018_a_class_that_comes_later_lets_an_immediate_claim_be_allocated(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_node("n1")
        await test.create_claim(allocationMode=IMMEDIATE)
        assert not (await test.claim()).metadata.finalizers
        assert await test.events("claim") == []
        await test.create_class()
        await test.clock.settle()
        claim = await test.claim()
        assert claim.is_allocated
        assert claim.status.reserved_for == ()


async def test_an_immediate_claim_without_room_waits_without_writes(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        for name in ("a", "b"):
            await test.create_claim(name, allocationMode=IMMEDIATE)
        before = await test.claim("b")
        assert not before.metadata.finalizers
        await test.clock.advance(300)
        assert (await test.claim("b")) == before
        assert set(await test.events("b")) == {"claim b: no node has what the claim needs"}
        await test.delete_claim("a")
        await test.clock.advance(0.02)
        assert (await test.claim("b")).is_allocated


async def test_C031_a_selected_node_without_capacity_is_answered_although_it_was_not_potential(
    tmp_path,
):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim("first")
        await test.create_claim()
        await test.create_pod("one", "first", selected="n1")
        await test.create_pod(potential=["n3", "n2"], selected="n1")
        assert await test.answers() == {"claim": ["n1", "n2", "n3"]}
        await test.delete_claim("first")  # still reserved: nothing happens
        assert await test.answers() == {"claim": ["n1", "n2", "n3"]}
        await test.set_status("first", reservedFor=None)
        assert await test.claim("first") is None
        await test.clock.advance(1)
        assert (await test.claim()).is_allocated


async def test_C043_a_claim_deleted_while_pending_is_not_allocated(tmp_path, caplog):
    async with DriverTest(tmp_path, a_driver(), Fault("delay", "PATCH", "/claim")) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        await test.create_pod(selected="n1")  # its finalizer is under way
        await test.delete_claim()
        await test.clock.advance(10)
        assert await test.claim() is None
        assert await test.booked() == []
    assert not [line for line in caplog.records if line.exc_info]


async def test_C044_a_claim_deleted_while_it_is_allocated_is_freed(tmp_path):
    fault = Fault("delay", "PATCH", "/claim/status")
    async with DriverTest(tmp_path, a_driver(), fault) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim(allocationMode=IMMEDIATE)
        assert await test.booked() == ["claim"]
        await test.client.delete(CLAIMS, "claim", "default")
        await test.clock.advance(10)
        assert await test.claim() is None
        assert await test.booked() == []


@pytest.mark.parametrize("point", ["finalizer", "booking", "status"])
async def test_C045_a_killed_driver_finishes_and_leaks_nothing(tmp_path, point):
    released = []
    driver = a_driver()

    @driver.release
    async def release(handle):
        released.append(handle)

    async with DriverTest(tmp_path, driver) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_node("n2")
        await test.create_claim()
        test.kills.kill(after=point)
        await test.create_pod(potential=["n1", "n2"], selected="n1")
        assert test.kills.killed.is_set()
        # The scheduler has changed its mind, unless the claim is allocated.
        await test.ask(selected="n2")
        await test.restart()
        claim = await test.claim()
        assert claim.is_allocated
        node = "n1" if point == "status" else "n2"
        assert node in claim.status.allocation.resource_handle
        assert await test.booked(node) == ["claim"]
        assert await test.booked("n1" if node == "n2" else "n2") == []
        assert len(released) == (point == "booking")  # its allocation may have begun
        await test.set_status(reservedFor=None)
        await test.delete_claim()
        assert await test.claim() is None
        assert await test.booked(node) == []


async def test_C045_an_allocation_that_does_not_go_on_is_undone(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        test.kills.kill(after="booking")
        await test.create_pod(selected="n1")
        await test.client.delete(PODS, "pod", "default", grace_seconds=0)
        await test.client.delete(SCHEDULINGS, "pod", "default")
        await test.restart()
        assert (await test.claim()).metadata.finalizers == (OURS,)
        await test.clock.advance(61)
        assert (await test.claim()).metadata.finalizers == ()
        assert await test.booked() == []


async def test_a_claim_that_another_driver_has_allocated_is_left_to_it(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        test.kills.kill(after="booking")
        pod = await test.create_pod(selected="n1")
        await test.client.patch(CLASSES, "gpu", {"driverName": "other.example.com"})
        theirs = {"allocation": {"resourceHandle": "theirs"}, "driverName": "other.example.com"}
        user = {"resource": "pods", "name": "pod", "uid": pod.uid}
        await test.set_status(**theirs, reservedFor=[user])
        await test.restart()
        found = await test.claim()
        assert (found.metadata.finalizers, await test.booked()) == ((), [])
        assert found.status.allocation.resource_handle == "theirs"
        assert found.is_reserved_for(pod.uid)


async def test_C046_a_claim_created_again_during_the_finalizer_is_another_claim(tmp_path):
    fault = Fault("delay", "PATCH", "/claim", seconds=5.0)
    async with DriverTest(tmp_path, a_driver(), fault) as test:
        await test.create_class()
        await test.create_node("n1")
        first = await test.create_claim()
        await test.create_pod(selected="n1")
        await test.client.delete(CLAIMS, "claim", "default")
        second = await test.create_claim()
        await test.clock.advance(10)
        claim = await test.claim()
        assert claim.uid == second.uid != first.uid
        assert claim.is_allocated
        assert await test.booked() == ["claim"]


async def test_C047_a_reserved_claim_is_deallocated_when_its_pods_have_ended(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        await test.create_pod(selected="n1")
        await test.delete_claim()
        await test.clock.advance(100)
        assert (await test.claim()).is_allocated
        await test.set_status(reservedFor=None)
        assert await test.claim() is None
        assert await test.booked() == []


async def test_C048_a_claim_is_released_although_its_class_is_gone(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        await test.create_pod(selected="n1")
        await test.client.delete(CLASSES, "gpu")
        await test.set_status(reservedFor=None, deallocationRequested=True)
        claim = await test.claim()
        assert (claim.status.allocation, claim.status.deallocation_requested) == (None, False)
        assert (claim.status.driver_name, claim.metadata.finalizers) == ("", ())
        assert await test.booked() == []


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


async def test_the_name_of_parameters_leads_to_no_other_object(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_parameters("wanted", memory="2Gi")
        reference = {"apiGroup": "gpu.example.com", "kind": "Memory"}
        name = "../../other/memorys/wanted"
        await test.create_claim(parametersRef=reference | {"name": name}, allocationMode=IMMEDIATE)
        [message] = set(await test.events("claim"))
        assert message == f"claim claim: Memory '{name}': may not contain '/'"


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


async def test_a_stale_negotiation_and_dead_pods_are_ignored(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        pod = await test.create_pod()  # neither nodes nor a selected node
        assert await test.answers() == {}
        other = {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "older"}
        await test.client.patch(
            SCHEDULINGS,
            "pod",
            {"metadata": {"ownerReferences": [{**other, "controller": True}]}},
            "default",
        )
        await test.ask(selected="n1")
        assert not (await test.claim()).metadata.finalizers
        assert pod.uid != "older"


async def test_nothing_is_allocated_for_pods_that_have_ended_or_have_a_node(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        for name in ("ended", "bound"):
            await test.create_pod(name)
        ended = {"status": {"phase": "Succeeded"}}
        await test.client.patch(PODS, "ended", ended, "default", subresource="status")
        to_node = {"target": {"kind": "Node", "name": "n1"}, "metadata": {"name": "bound"}}
        await test.client.bind("default", "bound", to_node)
        for name in ("ended", "bound"):
            await test.ask(name, selected="n1")
        assert not (await test.claim()).metadata.finalizers


async def test_two_pods_of_one_pending_claim_get_one_allocation(tmp_path):
    async with DriverTest(tmp_path, a_driver(), Fault("delay", "PATCH", "/claim")) as test:
        await test.create_class()
        for node in ("n1", "n2"):
            await test.create_node(node)
        await test.create_claim()
        first = await test.create_pod("p1", selected="n1")
        await test.create_pod("p2", selected="n2")
        await test.clock.advance(60)
        assert [user.uid for user in (await test.claim()).status.reserved_for] == [first.uid]
        assert (await test.booked("n1"), await test.booked("n2")) == (["claim"], [])


async def test_claims_of_one_pod_fit_together_or_not_at_all(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_class("other", "other.example.com")
        await test.create_node("n1")
        await test.create_node("n2", *(Device(f"g{i}", {}, {"memory": "8Gi"}) for i in range(2)))
        await test.create_claim("a")
        await test.create_claim("b")
        await test.create_claim("c", resourceClassName="other")
        await test.create_pod("pod", "a", "b", "c", potential=["n1", "n2"], selected="n1")
        assert await test.answers() == {"a": ["n1"], "b": ["n1"]}
        await test.ask(potential=["n2"], selected="n2")
        assert await test.booked("n2") == ["a", "b"]
        assert not (await test.claim("c")).metadata.finalizers


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


async def test_a_claim_removed_by_force_gives_its_devices_back(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        await test.create_pod(selected="n1")
        await test.client.patch(CLAIMS, "claim", {"metadata": {"finalizers": None}}, "default")
        await test.delete_claim()
        assert await test.booked() == ["claim"]
        await test.clock.advance(31)
        assert await test.booked() == []


async def test_an_inventory_created_again_gets_its_bookings_back(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1", *(Device(f"g{i}", {}, {"memory": "8Gi"}) for i in range(2)))
        for name in ("a", "b", "c"):
            await test.create_claim(name)
        await test.create_pod("pa", "a", selected="n1")
        await test.client.delete(NODE_INVENTORIES, "n1", test.driver.namespace)
        await test.create_node("n1", *(Device(f"g{i}", {}, {"memory": "8Gi"}) for i in range(2)))
        await test.create_pod("pb", "b", selected="n1")
        await test.create_pod("pc", "c", selected="n1")
        assert await test.booked() == ["a", "b"]
        assert await test.answers("pc") == {"c": ["n1"]}


async def test_devices_that_another_writer_has_booked_are_not_booked_again(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        await test.freeze(NODE_INVENTORIES, namespace=test.driver.namespace)
        other = {"namespace": "default", "name": "other", "devices": ["gpu-0"]}
        await test.client.patch(
            NODE_INVENTORIES,
            "n1",
            {"status": {"allocated": {"other": other}}},
            test.driver.namespace,
            subresource="status",
        )
        await test.create_pod(selected="n1")
        assert await test.booked() == ["other"]
        assert await test.answers() == {"claim": ["n1"]}


async def test_C033_a_released_claim_is_not_allocated_by_an_older_negotiation(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        await test.create_pod(selected="n1")
        await test.freeze(SCHEDULINGS)
        await test.ask(potential=["n1", "n2"])
        await test.set_status(reservedFor=None, deallocationRequested=True)
        await test.clock.advance(1)
        assert not (await test.claim()).metadata.finalizers
        assert await test.answers() == {"claim": ["n2"]}


async def test_a_released_claim_is_answered_at_once(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        await test.create_pod(selected="n1")
        await test.ask(potential=["n1", "n2"])
        assert await test.answers() == {}
        await test.set_status(reservedFor=None, deallocationRequested=True)
        await test.clock.advance(1)
        assert await test.answers() == {"claim": ["n2"]}


async def test_own_writes_are_known_before_their_events(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1")
        await test.create_claim()
        await test.freeze(CLAIMS)
        await test.create_pod(selected="n1")
        claim = await test.claim()
        assert claim.is_allocated
        refused = len(test.transport.injected_faults)
        await test.ask(potential=["n1"], selected="n1")
        assert await test.claim() == claim
        assert test.process.controller.queue.failures("podscheduling:default/pod") == refused == 0


async def test_C073_a_node_is_unsuitable_until_its_inventory_is_ready(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_claim()
        await test.create_node("n1", ready=False)
        await test.create_pod(potential=["n1"], selected="n1")
        assert await test.answers() == {"claim": ["n1"]}
        await test.client.patch(
            NODE_INVENTORIES, "n1", {"spec": {"ready": True}}, test.driver.namespace
        )
        await test.clock.advance(1)
        assert (await test.claim()).is_allocated


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


async def test_what_waits_is_looked_at_again_one_by_one(tmp_path):
    async with DriverTest(tmp_path, a_driver()) as test:
        await test.create_class()
        await test.create_node("n1", Device("gpu-0", {}, {"memory": "1Gi"}))
        for i in range(20):
            await test.create_claim(f"claim-{i}", allocationMode=IMMEDIATE)
        await test.create_node("n2")  # the first turn is at once, although many wait
        waiting = [i for i in range(20) if not (await test.claim(f"claim-{i}")).is_allocated]
        assert len(waiting) == 19
