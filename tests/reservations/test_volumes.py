"""Volumes of a reservation: they are held for its owner and counted, and none is provisioned."""

from holdfast.api.scheme import PERSISTENT_VOLUME_CLAIMS
from holdfast.testing import a_csi_node, a_storage_class, a_volume, a_volume_claim, mounting
from reservations.objects import allocated_from, held, node, non_owner, owner

IN_USE = "ReadWriteOncePod access mode already in-use by another pod"
TOO_MANY = "node(s) exceed max volume count"


def bound(*claims, mode="ReadWriteOnce"):
    """Yield claims with the volumes they are bound to."""
    for claim in claims:
        yield a_volume(f"v-{claim}", claim_ref={"namespace": "default", "name": claim})
        yield a_volume_claim(claim, volume=f"v-{claim}", mode=mode)


def holding(*claims, **more):
    return held(template={"volumes": mounting(*claims)}, **more)


async def test_R049_a_ReadWriteOncePod_claim_is_kept_for_the_owner(cluster):
    await cluster.create(node("n1"), node("n2"), *bound("data", mode="ReadWriteOncePod"))
    await cluster.create(holding("data"))
    await cluster.create(non_owner(volumes=mounting("data")))
    assert IN_USE in await cluster.why("stranger")
    await cluster.create(owner(volumes=mounting("data")))
    where = (await cluster.reservation("r")).status.node_name
    assert await cluster.node_of("owner") == where
    assert await allocated_from(cluster, "owner") == "r"


async def test_R050_a_volume_counts_for_the_reservation_and_then_for_its_owner(cluster):
    await cluster.create(node(), a_csi_node("n1", disk_example_com=1), *bound("data", "other"))
    await cluster.create(holding("data"))
    await cluster.create(non_owner(volumes=mounting("other")))
    assert TOO_MANY in await cluster.why("stranger")
    await cluster.create(owner(volumes=mounting("data")))
    assert await allocated_from(cluster, "owner") == "r"


async def test_an_owner_may_use_another_volume_instead(cluster):
    await cluster.create(node(), a_csi_node("n1", disk_example_com=1), *bound("data", "other"))
    await cluster.create(holding("data", allocate_once=False))
    await cluster.create(owner(volumes=mounting("other")))
    assert await allocated_from(cluster, "owner") == "r"
    await cluster.create(owner("second", volumes=mounting("data")))
    assert TOO_MANY in await cluster.why("second")


async def test_an_exclusive_disk_is_kept_for_the_owner(cluster):
    disk = [{"name": "d", "gcePersistentDisk": {"pdName": "disk"}}]
    await cluster.create(node(), held(template={"volumes": disk}, allocate_once=False))
    await cluster.create(non_owner(volumes=disk))
    assert "node(s) had no available disk" in await cluster.why("stranger")
    await cluster.create(owner(volumes=disk))
    assert await allocated_from(cluster, "owner") == "r"
    await cluster.create(owner("second", volumes=disk))
    assert "node(s) had no available disk" in await cluster.why("second")


async def test_no_volume_is_provisioned_for_a_reservation(cluster):
    await cluster.create(node(), a_storage_class("wait", provisioner="disk.example.com"))
    await cluster.create(a_volume_claim("data"), holding("data"))
    assert (await cluster.reservation("r")).status.phase == "Available"
    claim = await cluster.client.get(PERSISTENT_VOLUME_CLAIMS, "data", "default")
    assert "volume.kubernetes.io/selected-node" not in claim.metadata.annotations


async def test_volumes_are_held_again_after_a_restart(cluster):
    await cluster.create(node(), *bound("data", mode="ReadWriteOncePod"), holding("data"))
    await cluster.restart()
    await cluster.create(non_owner(volumes=mounting("data")), owner(volumes=mounting("data")))
    assert IN_USE in await cluster.why("stranger")
    assert await allocated_from(cluster, "owner") == "r"
