"""An autoscaler asks a classic driver what claims would get on nodes that do not exist."""

import pytest

from driverkit.autoscaler import Autoscaler
from driverkit.classic_controller import DRIVER, DriverTest, a_driver
from holdfast.api.classic_dra.node_inventory import NODE_INVENTORIES
from holdfast.api.scheme import PODS
from holdfast.driver import Choice, Device, Driver
from holdfast.runtime.errors import BadConfiguration
from holdfast.testing import a_node, a_pod
from holdfast.testing.classic_dra.builders import inline, named

GPU = Device("gpu-0", {}, {"memory": "8Gi"})


def a_driver_that_knows_new_nodes():
    driver = a_driver()
    driver.inventory(lambda: [GPU])
    driver.new_node(lambda node: [GPU] if node.metadata.labels.get("gpu") else [])
    return driver


def a_network_driver(count):
    driver = Driver(DRIVER)
    driver.prepare(lambda claim: None)
    driver.fits(lambda free: Choice([free[0]], shared=True) if free else None)
    driver.network_inventory(lambda: [Device(f"fpga-{i}") for i in range(count)])
    return driver


def pods(count, *entries):
    return [a_pod(f"p{i}", metadata={"uid": f"uid-{i}"}, claims=entries) for i in range(count)]


@pytest.fixture
async def kit(tmp_path):
    async with DriverTest(tmp_path, a_driver_that_knows_new_nodes()) as kit:
        await kit.create_class()
        yield kit


async def test_C070_every_device_of_a_new_node_is_given_once(kit):
    async with Autoscaler(kit, gpu="yes") as scaler:
        session = await scaler.start()
        first, second = pods(2, inline("gpu"))
        one, two = (a_node(name, labels={"gpu": "yes"}) for name in ("new-1", "new-2"))
        assert await scaler.passing(session, first, one) == ["new-1"]
        assert await scaler.passing(session, second, one) == ["new-1"]  # nothing is booked yet
        assert await scaler.select(session, first, one) == ""
        found = await scaler.filter(session, second, one, two)
        assert found["FailedNodes"] == {"new-1": "no free device fits"}
        assert [node["metadata"]["name"] for node in found["Nodes"]["items"]] == ["new-2"]
        assert await scaler.select(session, second, one) == "no free device fits"
        assert await scaler.nodes_to_add(pods(5, inline("gpu"))) == 5
        await kit.create_node("n1")
        assert await scaler.nodes_to_add(pods(5, inline("gpu")), a_node("n1")) == 4
        assert await scaler.nodes_to_add(pods(3)) == 1  # a node for pods without claims


async def test_a_simulation_writes_nothing(kit):
    await kit.create_node("n1")
    before = (await kit.client.list(NODE_INVENTORIES)).resource_version
    async with Autoscaler(kit) as scaler:
        await scaler.nodes_to_add(pods(2, inline("gpu")), a_node("n1"))
    assert (await kit.client.list(NODE_INVENTORIES)).resource_version == before


async def test_a_claim_in_use_is_judged_as_the_scheduler_does(kit):
    await kit.create_node("n1")
    await kit.create_claim()
    await kit.create_pod("owner", potential=["n1"], selected="n1")
    owner = await kit.client.get(PODS, "owner", "default")
    async with Autoscaler(kit, gpu="yes") as scaler:
        session = await scaler.start()
        [other] = pods(1, named("claim"))
        found = await scaler.filter(session, other, a_node("n1"))
        assert found["FailedAndUnresolvableNodes"] == {"n1": "resourceclaim in use"}
        again = a_pod("owner", metadata={"uid": owner.uid}, claims=[named("claim")])
        found = await scaler.filter(session, again, a_node("n1"), a_node("n2"))
        assert found["FailedNodes"] == {"n2": "resourceclaim not available on the node"}
        assert [node["metadata"]["name"] for node in found["Nodes"]["items"]] == ["n1"]


async def test_C071_sessions_do_not_see_each_other_and_the_newest_eight_live(kit):
    async with Autoscaler(kit, gpu="yes") as scaler:
        first, second = await scaler.start(), await scaler.start()
        new = a_node("new", labels={"gpu": "yes"})
        one, two = pods(2, inline("gpu"))
        assert await scaler.select(first, one, new) == ""
        assert await scaler.passing(first, two, new) == []
        assert await scaler.passing(second, two, new) == ["new"]
        for _ in range(7):
            last = await scaler.start()
        body = {"Pod": one, "Nodes": {"items": [new]}}
        async with scaler.send("filter", body, first) as response:
            assert response.status == 410
        assert await scaler.passing(second, two, new) == ["new"]
        await kit.clock.advance(599)
        assert await scaler.passing(second, two, new) == ["new"]
        await kit.clock.advance(2)
        assert await scaler.passing(second, two, new) == ["new"]  # it was used meanwhile
        async with scaler.send("filter", body, last) as response:
            assert (response.status, "start a new one" in await response.text()) == (410, True)


async def test_C072_a_node_does_not_help_if_the_network_has_nothing_left(tmp_path):
    async with DriverTest(tmp_path, a_network_driver(2)) as kit:
        await kit.create_class()
        await kit.clock.advance(1)
        async with Autoscaler(kit) as scaler:
            assert await scaler.nodes_to_add(pods(5, inline("fpga"))) == 1
            session = await scaler.start()
            node, late = a_node("n1"), pods(3, inline("fpga"))[-1]
            for pod in pods(2, inline("fpga")):
                assert await scaler.select(session, pod, node) == ""
            found = await scaler.filter(session, late, node, a_node("n2"))
            reasons = found["FailedAndUnresolvableNodes"]
            assert reasons == dict.fromkeys(("n1", "n2"), "no free device fits")
            assert found["Nodes"]["items"] == []
            assert (await scaler.post("nodeready", {"NodeName": "n1"}, session))["Ready"] is True


async def test_C073_a_node_is_ready_when_its_inventory_is_published(kit):
    async with Autoscaler(kit) as scaler:
        session = await scaler.start()

        async def ready():
            return (await scaler.post("nodeready", {"nodename": "n1"}, session))["Ready"]

        assert not await ready()
        await kit.create_node("n1", ready=False)
        assert not await ready()
        spec = {"spec": {"ready": True}}
        await kit.client.patch(NODE_INVENTORIES, "n1", spec, kit.driver.namespace)
        await kit.clock.settle()
        assert await ready()


async def test_what_cannot_be_judged_is_an_error_of_the_answer(kit):
    async with Autoscaler(kit) as scaler:
        session = await scaler.start()
        for entry, error in (
            (named("gpu", "absent"), "there is no claim absent"),
            (inline("gpu", "other"), "claim p0-gpu: there is no ResourceClass other"),
        ):
            [pod] = pods(1, entry)
            assert (await scaler.filter(session, pod, a_node("n1")))["Error"] == error
            assert await scaler.select(session, pod, a_node("n1")) == error


@pytest.mark.parametrize(
    ("verb", "body", "session", "status"),
    [
        ("filter", {}, "", 400),
        ("filter", {}, "unknown", 410),
        ("filter", {"Pod": {}}, None, 400),
        ("filter", {"Pod": "p", "Nodes": {"items": []}}, None, 400),
        ("filter", {"Pod": {"spec": 3}, "Nodes": {"items": []}}, None, 400),
        ("filter", {"Pod": {}, "NodeNames": ["n1"]}, None, 400),
        ("filter", {"Pod": {}, "Nodes": {"items": [4]}}, None, 400),
        ("nodeselected", {"Pod": {}}, None, 400),
        ("nodeready", {"NodeName": 3}, None, 400),
        ("nodeready", [], None, 400),
        ("bind", {}, None, 404),
    ],
)
async def test_wrong_requests_are_refused_with_the_field(kit, verb, body, session, status):
    async with Autoscaler(kit) as scaler:
        given = await scaler.start() if session is None else session
        async with scaler.send(verb, body, given) as response:
            assert response.status == status, await response.text()


async def test_a_defect_of_the_author_is_an_error_of_the_answer(tmp_path):
    driver = Driver(DRIVER)
    driver.prepare(lambda claim: None)
    driver.inventory(lambda: [GPU])
    driver.fits(lambda free: free["first"])
    async with DriverTest(tmp_path, driver) as kit:
        await kit.create_class()
        await kit.create_node("n1")
        async with Autoscaler(kit) as scaler:
            [pod], session = pods(1, inline("gpu")), await scaler.start()
            assert "TypeError" in (await scaler.filter(session, pod, a_node("n1")))["Error"]
            assert "TypeError" in await scaler.select(session, pod, a_node("n1"))


async def test_a_driver_without_fits_has_no_extender(kit):
    kit.driver = Driver(DRIVER)
    with pytest.raises(BadConfiguration, match=r"needs @driver\.fits"):
        await Autoscaler(kit).__aenter__()
