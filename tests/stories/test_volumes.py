"""Volumes in a running cluster: they restrict a pod's nodes and are bound to its claims."""

from holdfast.api.scheme import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from holdfast.testing import (
    a_node,
    a_pod,
    a_storage_class,
    a_volume,
    a_volume_claim,
    mounting,
)

ZONE = "topology.kubernetes.io/zone"
LOCAL = a_storage_class("local", provisioner="kubernetes.io/no-provisioner")


def nodes():
    return [a_node(f"n-{zone}", labels={ZONE: zone}) for zone in "abc"]


async def set_available(cluster, name):
    """Set a volume's phase to Available, as the volume controller does."""
    status = {"status": {"phase": "Available"}}
    await cluster.client.patch(PERSISTENT_VOLUMES, name, status, subresource="status")


async def finish_binding(cluster, claim, volume):
    """Bind claim and volume, as the volume controller does once the volume has a claimRef."""
    change = {
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": volume},
    }
    await cluster.client.patch(PERSISTENT_VOLUME_CLAIMS, claim, change, "default")


async def test_a_pod_waits_for_its_volume_and_runs_on_the_volumes_node(cluster):
    volume = a_volume("disk", storage_class="local", nodes={ZONE: "b"})
    await cluster.create(*nodes(), LOCAL, volume, a_volume_claim("data", storage_class="local"))
    await set_available(cluster, "disk")
    await cluster.create(a_pod("db", volumes=mounting("data")))
    kept = (await cluster.client.get(PERSISTENT_VOLUMES, "disk")).spec.claim_ref
    assert (kept.namespace, kept.name) == ("default", "data")
    claim = await cluster.client.get(PERSISTENT_VOLUME_CLAIMS, "data", "default")
    assert kept.uid == claim.uid
    await cluster.advance(5)
    assert await cluster.node_of("db") == ""
    await finish_binding(cluster, "data", "disk")
    await cluster.advance(2)
    pod = await cluster.pod("db")
    assert (pod.spec.node_name, pod.status.phase) == ("n-b", "Running")


async def test_a_volume_assumed_for_one_pod_is_not_used_for_another(cluster):
    claims = [a_volume_claim(name, storage_class="local") for name in ("one", "two")]
    await cluster.create(*nodes(), LOCAL, a_volume("disk", storage_class="local"), *claims)
    await set_available(cluster, "disk")
    await cluster.create(*[a_pod(n, volumes=mounting(n)) for n in ("one", "two")])
    await finish_binding(cluster, "one", "disk")
    await cluster.advance(2)
    assert await cluster.node_of("one") != ""
    assert await cluster.node_of("two") == ""


async def test_a_pod_whose_volume_is_never_bound_is_retried(cluster):
    volume = a_volume("disk", storage_class="local", nodes={ZONE: "b"})
    await cluster.create(*nodes(), LOCAL, volume, a_volume_claim("data", storage_class="local"))
    await set_available(cluster, "disk")
    await cluster.create(a_pod("db", volumes=mounting("data")))
    await cluster.advance(605)
    messages = [message for reason, message in await cluster.events("db") if "Failed" in reason]
    assert messages == [
        'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'
    ]
    await finish_binding(cluster, "data", "disk")
    await cluster.advance(15)
    assert await cluster.node_of("db") == "n-b"


async def test_a_pod_with_a_bound_volume_runs_on_the_volumes_node(cluster):
    volume = a_volume("disk", nodes={ZONE: "c"}, phase="Bound")
    claim = a_volume_claim("data", volume="disk")
    await cluster.create(*nodes(), a_storage_class(), volume, claim)
    await cluster.create(a_pod("db", volumes=mounting("data")))
    pod = await cluster.pod("db")
    assert (pod.spec.node_name, pod.status.phase) == ("n-c", "Running")
