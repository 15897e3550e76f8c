from __future__ import annotations

import pytest

from holdfast.api.resource import Resource
from holdfast.api.scheme import DEPLOYMENTS, NAMESPACES, PODS
from holdfast.controllers.namespace import RemainingObjects, plan_conditions, without_finalizer
from holdfast.runtime.errors import Forbidden, NotFound
from holdfast.testing import a_deployment, a_namespace, a_node, a_pod, typed

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", dict)


def test_the_conditions_name_the_remaining_objects():
    space = typed(a_namespace("team"))
    pods = (typed(a_pod("p"), finalizers=["x.io/y"]), typed(a_pod("q")))
    patch = plan_conditions(space, [RemainingObjects(PODS, pods)], 0.0)
    said = {c["type"]: c for c in patch.patch["status"]["conditions"]}
    assert said["NamespaceContentRemaining"]["message"] == (
        "Some resources are remaining: pods. has 2 resource instances"
    )
    assert said["NamespaceFinalizersRemaining"]["message"] == (
        "Some content in the namespace has finalizers remaining: x.io/y in 1 resource instances"
    )
    known = typed(a_namespace("team") | {"status": patch.patch["status"]})
    assert plan_conditions(known, [RemainingObjects(PODS, pods)], 99.0) is None


def test_only_the_finalizer_of_the_controller_is_removed():
    raw = {"metadata": {"name": "x"}, "spec": {"finalizers": ["kubernetes", "x.io/y"]}}
    assert without_finalizer(raw)["spec"]["finalizers"] == ["x.io/y"]


async def test_A036_a_namespace_is_deleted_with_its_contents(cluster):
    await cluster.create(
        a_namespace("team"), a_node("n"), a_deployment("web", replicas=2, namespace="team")
    )
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    await cluster.client.create(CONFIG_MAPS, config, "team")
    await cluster.bind_all("n", "team")
    assert len(await cluster.pods("team")) == 2

    await cluster.client.delete(NAMESPACES, "team")
    with pytest.raises(Forbidden, match="because it is being terminated"):
        await cluster.client.create(CONFIG_MAPS, config | {"metadata": {"name": "late"}}, "team")
    await cluster.clock.advance(5)

    with pytest.raises(NotFound):
        await cluster.get(NAMESPACES, "team")
    assert (await cluster.client.list(DEPLOYMENTS)).items == ()
    assert (await cluster.client.list(PODS)).items == ()
    assert (await cluster.client.list(CONFIG_MAPS, "team")).items == ()


async def test_a_namespace_waits_for_objects_with_finalizers_and_reports_them(cluster):
    held = {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "held", "finalizers": ["x.io/y"]},
    }  # fmt: skip
    await cluster.create(a_namespace("team"))
    await cluster.client.create(CONFIG_MAPS, held, "team")

    await cluster.client.delete(NAMESPACES, "team")
    await cluster.clock.advance(5)
    space = await cluster.get(NAMESPACES, "team")
    assert space.status.phase == "Terminating"
    said = {c.type: c for c in space.status.conditions}
    assert said["NamespaceContentRemaining"].status == "True"
    assert "configmaps. has 1" in said["NamespaceContentRemaining"].message

    free = {"metadata": {"finalizers": None}}
    await cluster.client.patch(CONFIG_MAPS, "held", free, "team")
    await cluster.clock.advance(5)
    with pytest.raises(NotFound):
        await cluster.get(NAMESPACES, "team")
