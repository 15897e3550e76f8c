"""Extended resources served by devices: failures, restarts and crashes leave nothing behind."""

import pytest

from holdfast.api.scheme import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS
from holdfast.testing import Fault, a_claim, a_device_class, a_node, a_pod, a_slice

GPU, NIC = "example.com/gpu", "example.com/nic"
IMPLICIT = "deviceclass.resource.kubernetes.io/"
CREATES = "resourceclaim_creates_total"


def asking(name="p", /, **amounts):
    asked = {f"example.com/{key}": str(amount) for key, amount in amounts.items()}
    return a_pod(name, cpu="100m", memory="64Mi", requests=asked, limits=asked)


@pytest.fixture
async def gpus(cluster):
    """A node with two devices of a class that serves example.com/gpu."""
    await cluster.create(
        a_node("n1"),
        a_device_class("gpu", extended_resource_name=GPU),
        a_slice("n1-gpus", node="n1", devices=2),
    )
    return cluster


async def claims_of(cluster):
    return (await cluster.client.list(RESOURCE_CLAIMS)).items


async def runs_with_one_claim(cluster, name="p"):
    """Assert that the pod runs and that its status names the only claim."""
    assert await cluster.node_of(name) == "n1"
    [claim] = await claims_of(cluster)
    status = (await cluster.pod(name)).status.extended_resource_claim_status
    assert status.resource_claim_name == claim.name
    assert claim.status.allocation
    allocated = cluster.world.devices.allocated_devices.unshared
    assert sum(allocated.values()) == len(claim.status.allocation.devices.results)


async def test_D054_requests_are_numbered_by_all_names_of_the_container(gpus):
    await gpus.create(asking(gpu=1))
    # cpu, example.com/gpu, memory
    (mapping,) = (await gpus.pod("p")).status.extended_resource_claim_status.request_mappings
    assert mapping.request_name == "container-0-request-1"
    [claim] = await claims_of(gpus)
    assert [r.name for r in claim.spec.devices.requests] == ["container-0-request-1"]


@pytest.mark.parametrize("explicit", [None, GPU])
async def test_D053_the_implicit_name_serves_a_class_with_and_without_a_name(cluster, explicit):
    await cluster.create(
        a_node("n1"),
        a_device_class("gpu", extended_resource_name=explicit),
        a_slice("n1-gpus", node="n1", devices=1),
    )
    asked = {f"{IMPLICIT}gpu": "1"}
    await cluster.create(a_pod("p", requests=asked, limits=asked))
    await runs_with_one_claim(cluster)


async def test_D055_after_the_newest_class_is_deleted_the_other_serves(gpus):
    await gpus.advance(2)
    await gpus.create(
        a_device_class("newer", selectors=['device.driver == "none"'], extended_resource_name=GPU)
    )
    await gpus.create(asking(gpu=1))
    assert "cannot allocate all claims" in await gpus.why("p")
    await gpus.delete(DEVICE_CLASSES, "newer")
    await gpus.create(asking("q", gpu=1))
    assert await gpus.node_of("q") == "n1"


async def test_D057_one_resource_by_device_plugin_and_another_by_devices(cluster):
    await cluster.create(
        a_node("n1", allocatable={NIC: "4"}),
        a_device_class("gpu", extended_resource_name=GPU),
        a_device_class("nic", extended_resource_name=NIC),
        a_slice("n1-gpus", node="n1", devices=1),
        asking(gpu=1, nic=2),
    )
    await runs_with_one_claim(cluster)
    [claim] = await claims_of(cluster)
    assert [r.exactly.device_class_name for r in claim.spec.devices.requests] == ["gpu"]
    mappings = (await cluster.pod("p")).status.extended_resource_claim_status.request_mappings
    assert [m.resource_name for m in mappings] == [GPU]


async def test_D059_a_pod_before_its_class_runs_after_the_class_is_created(cluster):
    await cluster.create(a_node("n1"), a_slice("n1-gpus", node="n1", devices=1), asking(gpu=1))
    assert f"Insufficient {GPU}" in await cluster.why("p")
    await cluster.create(a_device_class("gpu", extended_resource_name=GPU))
    await cluster.advance(2)
    await runs_with_one_claim(cluster)


async def test_D064_a_pod_waits_until_the_devices_of_another_are_free(gpus):
    await gpus.create(asking("first", gpu=2))
    await gpus.create(asking("second", gpu=1))
    assert "cannot allocate all claims" in await gpus.why("second")
    await gpus.delete(PODS, "first", "default")
    await gpus.advance(2)
    await runs_with_one_claim(gpus, "second")


async def test_a_claim_whose_pod_was_deleted_with_the_policy_orphan_is_deleted(gpus):
    """It names no pod any more, so that the garbage collector leaves it alone."""
    await gpus.create(asking("first", gpu=2))
    assert await gpus.node_of("first") == "n1"
    await gpus.client.delete(PODS, "first", "default", propagation="Orphan")
    await gpus.settle()
    assert await claims_of(gpus) == ()
    await gpus.create(asking("second", gpu=2))
    await runs_with_one_claim(gpus, "second")


async def test_a_claim_whose_pod_is_gone_when_the_controllers_start_is_deleted(gpus):
    await gpus.create(asking("first", gpu=2))
    async with gpus.components_stopped():
        await gpus.client.delete(PODS, "first", "default", propagation="Orphan", grace_seconds=0)
        [claim] = await claims_of(gpus)
        orphan = {"metadata": {"ownerReferences": None}}
        await gpus.client.patch(RESOURCE_CLAIMS, claim.name, orphan, "default")
    await gpus.settle()
    assert await claims_of(gpus) == ()


@pytest.mark.parametrize("trouble", ["unavailable", "conflict", "unavailable_after", "lost"])
async def test_D066_a_failed_creation_is_counted_leaves_nothing_and_is_retried(
    gpus, network, trouble
):
    network.add(Fault(trouble, method="POST", path="/resourceclaims"))
    await gpus.create(asking(gpu=1))
    assert gpus.metric(CREATES, status="failure") == 1
    assert not await gpus.node_of("p")
    await gpus.advance(10)
    await runs_with_one_claim(gpus)
    assert gpus.metric(CREATES, status="success") == 1


@pytest.mark.parametrize("trouble", ["unavailable", "conflict", "unavailable_after", "lost"])
@pytest.mark.parametrize("path", ["/pods/p/status", "/resourceclaims/"])
async def test_D067_a_failed_write_after_the_creation_deletes_the_claim(
    gpus, network, trouble, path
):
    network.add(Fault(trouble, method="PATCH", path=path))
    await gpus.create(asking(gpu=2))
    await gpus.advance(10)
    await runs_with_one_claim(gpus)


async def test_D067_a_failed_binding_clears_the_pod_status_and_the_claim(gpus, network):
    network.add(Fault("unavailable", method="POST", path="/pods/p/binding"))
    await gpus.create(asking(gpu=1))
    assert not await claims_of(gpus)
    status = (await gpus.pod("p")).status
    assert (status.extended_resource_claim_status, status.nominated_node_name) == (None, "")
    assert not gpus.world.devices.allocated_devices.unshared
    await gpus.advance(5)
    await runs_with_one_claim(gpus)


@pytest.mark.parametrize(
    ("method", "path"),
    [("PATCH", "/resourceclaims/"), ("PATCH", "/pods/p/status"), ("POST", "/pods/p/binding")],
)
async def test_D068_a_crash_between_the_writes_leaves_one_claim_in_the_end(
    gpus, network, method, path
):
    network.add(Fault("delay", method=method, path=path, seconds=3600))
    await gpus.create(asking(gpu=2), settle=False)
    await gpus.clock.settle()
    await gpus.restart_components()
    await gpus.advance(15)
    await runs_with_one_claim(gpus)
    created = (await claims_of(gpus))[0].name
    assert (await gpus.pod("p")).status.phase == "Running"
    await gpus.advance(60)
    assert [claim.name for claim in await claims_of(gpus)] == [created]


async def test_D068_the_pod_status_does_not_name_a_claim_that_is_deleted(gpus, network):
    network.add(Fault("delay", method="POST", path="/pods/p/binding", seconds=3600))
    await gpus.create(asking(gpu=1), settle=False)
    await gpus.clock.settle()
    status = (await gpus.pod("p")).status
    assert status.extended_resource_claim_status
    assert status.nominated_node_name == "n1"
    async with gpus.components_stopped():
        await gpus.create(a_node("n2"), settle=False)
        await gpus.client.delete(NODES, "n1")
    await gpus.advance(5)
    assert not await claims_of(gpus)
    assert (await gpus.pod("p")).status.extended_resource_claim_status is None


async def test_D068_a_waiting_pod_does_not_name_a_claim_that_is_gone(gpus):
    """Undoing an attempt may fail half-way: the claim is deleted, the status is not written."""
    await gpus.create(asking(gpu=3))
    container = (await gpus.pod("p")).spec.containers[0].name
    mapping = {"containerName": container, "resourceName": GPU, "requestName": "r"}
    named = {"resourceClaimName": "gone", "requestMappings": [mapping]}
    status = {"status": {"extendedResourceClaimStatus": named}}
    await gpus.client.patch(PODS, "p", status, "default", subresource="status")
    assert (await gpus.pod("p")).status.extended_resource_claim_status
    await gpus.create(a_node("n2"))
    await gpus.advance(5)
    assert (await gpus.pod("p")).status.extended_resource_claim_status is None


async def test_D069_a_pod_with_33_devices_stays_pending_without_a_claim(gpus):
    await gpus.create(asking(gpu=33))
    assert "number of requested devices 33 exceeds the claim limit of 32" in await gpus.why("p")
    assert not await claims_of(gpus)


def container(name, *, sidecar=False, **amounts):
    asked = {f"example.com/{key}": str(amount) for key, amount in amounts.items()}
    more = {"restartPolicy": "Always"} if sidecar else {}
    resources = {"requests": asked, "limits": asked}
    return {"name": name, "image": "nginx", "resources": resources} | more


async def requests_and_mappings(cluster, *, init=(), regular=()):
    """Run a pod; return its claim's requests, its mappings and the number of its devices."""
    await cluster.create(a_pod("p", initContainers=list(init), containers=list(regular)))
    assert await cluster.node_of("p") == "n1", await cluster.why("p")
    [claim] = await claims_of(cluster)
    status = (await cluster.pod("p")).status.extended_resource_claim_status
    return (
        {r.name: r.exactly.count for r in claim.spec.devices.requests},
        {(m.container_name, m.resource_name, m.request_name) for m in status.request_mappings},
        len(claim.status.allocation.devices.results),
    )


async def test_D056_nodes_with_and_without_the_resource_of_their_own(gpus):
    await gpus.create(a_node("plugin", allocatable={GPU: "1"}), a_node("none"))
    for name in "abc":
        await gpus.create(asking(name, gpu=1))
    placed = {name: await gpus.node_of(name) for name in "abc"}
    assert sorted(placed.values()) == ["n1", "n1", "plugin"]
    served = {
        name: (await gpus.pod(name)).status.extended_resource_claim_status is not None
        for name in "abc"
    }
    assert served == {name: node == "n1" for name, node in placed.items()}
    assert len(await claims_of(gpus)) == 2


async def test_D058_a_quantity_of_zero_makes_no_claim(gpus):
    await gpus.create(asking(gpu=0))
    assert await gpus.node_of("p")
    assert not await claims_of(gpus)


async def test_D060_two_resources_in_two_containers_are_four_requests(gpus):
    await gpus.create(
        a_device_class(
            "nic", selectors=['device.driver == "nic.example.com"'], extended_resource_name=NIC
        ),
        a_slice("n1-nics", node="n1", devices=2, driver="nic.example.com"),
    )
    names = {f"container-{i}-request-{j}" for i in (0, 1) for j in (0, 1)}
    requests, mappings, devices = await requests_and_mappings(
        gpus, regular=[container("a", gpu=1, nic=1), container("b", gpu=1, nic=1)]
    )
    assert requests == dict.fromkeys(names, 1)
    assert len(mappings) == devices == 4


async def test_D061_an_init_container_uses_devices_of_the_regular_one(gpus):
    requests, mappings, devices = await requests_and_mappings(
        gpus, init=[container("i", gpu=2)], regular=[container("c", gpu=1)]
    )
    assert requests == {"container-0-request-0": 1, "container-1-request-0": 1}
    assert len([m for m in mappings if m[0] == "i"]) == 2
    assert devices == 2


async def test_D062_an_init_container_before_a_sidecar_uses_its_device(gpus):
    requests, mappings, devices = await requests_and_mappings(
        gpus,
        init=[container("i", gpu=1), container("s", gpu=1, sidecar=True)],
        regular=[container("c")],
    )
    assert requests == {"container-1-request-0": 1}
    assert mappings == {("s", GPU, "container-1-request-0"), ("i", GPU, "container-1-request-0")}
    assert devices == 1


async def test_D062_an_init_container_after_a_sidecar_has_a_device_of_its_own(gpus):
    requests, _, devices = await requests_and_mappings(
        gpus,
        init=[container("s", gpu=1, sidecar=True), container("i", gpu=1)],
        regular=[container("c")],
    )
    assert requests == {"container-0-request-0": 1, "container-1-request-0": 1}
    assert devices == 2


async def test_D063_two_init_containers_share_the_larger_request(gpus):
    requests, mappings, devices = await requests_and_mappings(
        gpus, init=[container("small", gpu=1), container("large", gpu=2)], regular=[container("c")]
    )
    assert requests == {"container-1-request-0": 2}
    assert {m[0] for m in mappings} == {"small", "large"}
    assert devices == 2


async def test_D065_a_claim_and_a_resource_of_one_pod_get_different_devices(gpus):
    asked = {GPU: "1"}
    entries = [{"name": "dev", "resourceClaimName": "c"}]
    await gpus.create(
        a_claim("c"), a_pod("p", requests=asked, limits=asked, resource_claims=entries)
    )
    assert await gpus.node_of("p") == "n1"
    results = [r for c in await claims_of(gpus) for r in c.status.allocation.devices.results]
    assert len({result.device for result in results}) == 2


async def test_D070_a_claim_beside_a_resource_of_a_device_plugin(cluster):
    asked = {GPU: "1"}
    entries = [{"name": "dev", "resourceClaimName": "c"}]
    await cluster.create(
        a_node("n1", allocatable={GPU: "1"}),
        a_device_class("gpu", extended_resource_name=GPU),
        a_slice("n1-gpus", node="n1", devices=1),
        a_claim("c"),
        a_pod("p", requests=asked, limits=asked, resource_claims=entries),
    )
    assert await cluster.node_of("p") == "n1"
    assert [claim.name for claim in await claims_of(cluster)] == ["c"]
