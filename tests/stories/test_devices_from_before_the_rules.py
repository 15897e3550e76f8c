"""Devices, classes and claim templates that another server accepted: none stops a component."""

import pytest

from apiserver.direct_store import write_directly
from holdfast.api import scheme
from holdfast.store import ObjectKey
from holdfast.testing import a_claim, a_device_class, a_node, a_pod, a_slice
from validation.device_objects import BAD_CLASSES, BAD_TEMPLATES
from validation.slice_objects import BAD_SLICES

KINDS = {
    "slices": (scheme.RESOURCE_SLICES, BAD_SLICES),
    "classes": (scheme.DEVICE_CLASSES, BAD_CLASSES),
    "templates": (scheme.RESOURCE_CLAIM_TEMPLATES, BAD_TEMPLATES),
}


def users(kind, number):
    """Return objects that use a stored object."""
    name = f"bad-{number}"
    if kind == "slices":
        return []
    entry = {"name": "dev", "resourceClaimName": name}
    if kind == "templates":
        entry = {"name": "dev", "resourceClaimTemplateName": name}
    made = [a_claim(name, device_class=name)] if kind == "classes" else []
    return [*made, a_pod(f"user-{number}", resource_claims=[entry])]


@pytest.mark.parametrize("kind", KINDS)
async def test_pods_are_scheduled_beside_objects_that_break_the_rules(cluster, kind):
    resource, bad = KINDS[kind]
    space = "default" if resource.namespaced else ""
    for number, body in enumerate(bad.values()):
        meta = {"name": f"bad-{number}"} | ({"namespace": space} if space else {})
        key = ObjectKey(resource.group, resource.plural, space, meta["name"])
        await write_directly(cluster.store, key, {**body, "metadata": meta})
    mine = [{"name": "dev", "resourceClaimName": "mine"}]
    await cluster.create(
        a_node("n1", cpu="1000", memory="1Ti"),
        a_device_class("gpu"),
        a_slice("gpu", node="n1", devices=32),
        *[one for number in range(len(bad)) for one in users(kind, number)],
        a_device_class("sound", driver="sound.example.com"),
        a_slice("sound", node="n1", driver="sound.example.com"),
        a_claim("mine", device_class="sound"),
        a_pod("mine", resource_claims=mine),
        a_pod("plain"),
    )
    await cluster.advance(30)
    assert (await cluster.node_of("mine"), await cluster.node_of("plain")) == ("n1", "n1")
    listed = await cluster.client.list(resource, space)
    assert len([obj for obj in listed.items if obj.name.startswith("bad-")]) == len(bad)
