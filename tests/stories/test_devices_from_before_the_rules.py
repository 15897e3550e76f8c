"""Devices, classes, claims and templates that another server accepted stop no component."""

import json

import pytest

from apiserver.direct_store import write_directly
from holdfast.api import scheme
from holdfast.server.store import ObjectKey
from holdfast.testing import a_claim, a_device_class, a_node, a_pod, a_slice
from validation.device_objects import BAD_CLAIMS, BAD_CLASSES, BAD_TEMPLATES
from validation.device_statuses import BAD_STATUSES, CLAIM
from validation.slice_objects import BAD_SLICES


def in_own_pool(name):
    """Return a bad status whose devices no other claim has."""
    pool = f': "pool-{list(BAD_STATUSES).index(name)}"'
    return json.loads(json.dumps(BAD_STATUSES[name]).replace(': "pool"', pool))


KINDS = {
    "slices": (scheme.RESOURCE_SLICES, BAD_SLICES),
    "claims": (scheme.RESOURCE_CLAIMS, BAD_CLAIMS),
    "allocated claims": (
        scheme.RESOURCE_CLAIMS,
        {name: CLAIM | {"status": in_own_pool(name)} for name in BAD_STATUSES},
    ),
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
    unread = []
    listed = await cluster.client.list(resource, space, unreadable=unread.append)
    read = [obj for obj in listed.items if obj.name.startswith("bad-")]
    assert len(read) + len(unread) == len(bad)
