from __future__ import annotations

import pytest

from controllers.small_cluster import start_small_cluster
from holdfast.api.resource import Resource
from holdfast.api.scheme import NODES, PODS, RESERVATIONS
from holdfast.controllers.controller_manager import BESIDE_KUBERNETES, ControllerManager
from holdfast.controllers.garbage_collector import RETRY_SECONDS, GarbageCollector
from holdfast.runtime.errors import NotFound
from holdfast.testing import (
    Fault,
    FaultyTransport,
    a_namespace,
    a_node,
    a_pod,
    a_replica_set,
    a_reservation,
)

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", dict)
CRDS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", dict,
    namespaced=False,
)  # fmt: skip
WIDGETS = Resource("example.com", "v1", "widgets", "Widget", dict)
WIDGET_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "singular": "widget"},
        "versions": [
            {
                "name": "v1", "served": True, "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": True
                    }
                },
            }
        ],
    },
}  # fmt: skip


def a_config(name, owner=None, namespace="default", api_version="v1", kind="ConfigMap"):
    meta = {"name": name, "namespace": namespace}
    if owner is not None:
        meta["ownerReferences"] = [
            {
                "apiVersion": api_version, "kind": kind, "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
            }
        ]  # fmt: skip
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


async def make(cluster, resource, raw):
    made = await cluster.client.create(resource, raw, raw["metadata"].get("namespace", ""))
    await cluster.clock.settle()
    return made


async def exists(cluster, resource, name, namespace="default"):
    await cluster.clock.advance(1)
    try:
        await cluster.client.get(resource, name, namespace)
    except NotFound:
        return False
    return True


async def test_an_object_created_with_a_missing_owner_is_deleted(cluster):
    owner = await make(cluster, CONFIG_MAPS, a_config("owner"))
    await cluster.client.delete(CONFIG_MAPS, "owner", "default")
    await make(cluster, CONFIG_MAPS, a_config("late", owner))
    assert not await exists(cluster, CONFIG_MAPS, "late")


async def test_an_owner_of_the_same_name_with_another_uid_does_not_count(cluster):
    first = await make(cluster, CONFIG_MAPS, a_config("owner"))
    await cluster.client.delete(CONFIG_MAPS, "owner", "default")
    await make(cluster, CONFIG_MAPS, a_config("owner"))
    await make(cluster, CONFIG_MAPS, a_config("child", first))
    assert not await exists(cluster, CONFIG_MAPS, "child")
    assert await exists(cluster, CONFIG_MAPS, "owner")


async def test_an_owner_in_another_namespace_counts_as_absent(cluster):
    await cluster.create(a_namespace("far"))
    owner = await make(cluster, CONFIG_MAPS, a_config("owner", namespace="far"))
    await make(cluster, CONFIG_MAPS, a_config("child", owner))
    assert not await exists(cluster, CONFIG_MAPS, "child")


async def test_a_cluster_scoped_object_with_a_namespaced_owner_is_kept(cluster):
    owner = await make(cluster, CONFIG_MAPS, a_config("owner"))
    reference = a_config("x", owner)["metadata"]["ownerReferences"]
    await cluster.create(a_node("n", metadata={"ownerReferences": reference}))
    await cluster.client.delete(CONFIG_MAPS, "owner", "default")
    assert await exists(cluster, NODES, "n", "")


async def test_a_remaining_owner_keeps_the_object_and_the_other_is_removed(cluster):
    one = await make(cluster, CONFIG_MAPS, a_config("one"))
    two = await make(cluster, CONFIG_MAPS, a_config("two"))
    child = a_config("child", one)
    child["metadata"]["ownerReferences"] += a_config("x", two)["metadata"]["ownerReferences"]
    await make(cluster, CONFIG_MAPS, child)
    await cluster.client.delete(CONFIG_MAPS, "one", "default")
    assert await exists(cluster, CONFIG_MAPS, "child")
    kept = await cluster.client.get(CONFIG_MAPS, "child", "default")
    assert [o["name"] for o in kept["metadata"]["ownerReferences"]] == ["two"]


async def test_custom_resources_own_and_are_owned(cluster):
    await make(cluster, CRDS, WIDGET_CRD)
    await cluster.clock.advance(1)
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    owner = await make(
        cluster, WIDGETS, widget | {"metadata": {"name": "w", "namespace": "default"}}
    )
    await make(
        cluster, CONFIG_MAPS, a_config("child", owner, "default", "example.com/v1", "Widget")
    )
    assert await exists(cluster, CONFIG_MAPS, "child")
    await cluster.client.delete(WIDGETS, "w", "default")
    assert not await exists(cluster, CONFIG_MAPS, "child")


async def test_foreground_deletion_keeps_the_owner_while_a_dependent_blocks_it(cluster):
    owner = await make(cluster, CONFIG_MAPS, a_config("owner"))
    reference = a_config("x", owner)["metadata"]["ownerReferences"][0]
    slow = a_pod(
        "slow", node="n", annotations={"holdfast.dev/stop-after": "10s"},
        metadata={"ownerReferences": [reference | {"blockOwnerDeletion": True}]},
    )  # fmt: skip
    await cluster.create(a_node("n"), slow)
    await cluster.client.delete(CONFIG_MAPS, "owner", "default", propagation="Foreground")
    assert await exists(cluster, CONFIG_MAPS, "owner")
    assert (await cluster.get(PODS, "slow", "default")).terminating
    await cluster.clock.advance(12)
    with pytest.raises(NotFound):
        await cluster.get(PODS, "slow", "default")
    assert not await exists(cluster, CONFIG_MAPS, "owner")


async def test_an_object_whose_owner_was_deleted_while_controllers_were_stopped_is_deleted(cluster):
    owner = await make(cluster, CONFIG_MAPS, a_config("owner"))
    reference = a_config("x", owner)["metadata"]["ownerReferences"]
    await cluster.create(a_pod("child", metadata={"ownerReferences": reference}))
    await cluster.controllers.stop()
    await cluster.client.delete(CONFIG_MAPS, "owner", "default")
    assert await exists(cluster, PODS, "child")

    cluster.controllers = ControllerManager(cluster.client, cluster.clock)
    await cluster.controllers.start()
    assert not await exists(cluster, PODS, "child")


async def test_discovery_that_fails_is_repeated_soon(tmp_path):
    faulty = []

    def failing(transport, _clock):
        faulty.append(FaultyTransport(transport))
        return faulty[-1]

    async with start_small_cluster(tmp_path, failing, (GarbageCollector,)) as cluster:
        faulty[0].add(Fault("unavailable", "GET", "/apis"))
        await make(cluster, CRDS, WIDGET_CRD)
        assert faulty[0].injected_faults
        raw = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "owner"}}
        owner = await cluster.client.create(WIDGETS, raw, "default")
        await make(
            cluster, CONFIG_MAPS, a_config("child", owner, "default", "example.com/v1", "Widget")
        )
        await cluster.client.delete(WIDGETS, "owner", "default")
        await cluster.clock.advance(RETRY_SECONDS)
        assert not await exists(cluster, CONFIG_MAPS, "child")


async def test_beside_a_kube_controller_manager_only_the_reservation_controller_runs(cluster):
    await cluster.controllers.stop()
    cluster.controllers = ControllerManager(cluster.client, cluster.clock, kinds=BESIDE_KUBERNETES)
    await cluster.controllers.start()
    await cluster.create(a_node("n"), a_replica_set("rs"), a_reservation("r", ttl="10s"))
    await cluster.clock.advance(12)
    assert await cluster.pods() == ()
    assert (await cluster.get(RESERVATIONS, "r")).status.phase == "Failed"
