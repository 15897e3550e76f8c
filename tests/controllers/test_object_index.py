"""An index that is built when it is first read equals one that follows every change."""

import random

import pytest

from holdfast.client.informer_cache import InformerCache
from holdfast.controllers.object_index import ControllerIndex, ObjectIndex
from holdfast.testing import a_pod, typed

NODES = ("", "n1", "n2")


def by_node(pod):
    return pod.spec.node_name


def a_version(name, node, version):
    owner = {"kind": "ReplicaSet", "name": "rs", "uid": f"owner-{node}", "controller": True}
    metadata = {
        "uid": f"uid-{name}", "resourceVersion": str(version),
        "ownerReferences": [owner] if node else [],
    }  # fmt: skip
    return typed(a_pod(name, node=node, metadata=metadata))


def versions(pods):
    return {(pod.name, pod.metadata.resource_version) for pod in pods}


def random_changes(rng, objects):
    """Change one object after the other and yield what an informer passes to its handlers."""
    for version in range(60):
        name = f"p{rng.randrange(8)}"
        if rng.random() < 0.3:
            yield from objects.remove(f"default/{name}")
        else:
            yield from objects.put(a_version(name, rng.choice(NODES), version))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("read_in_handler", [False, True])
def test_an_index_built_late_equals_one_that_follows_every_change(seed, read_in_handler):
    rng, objects = random.Random(seed), InformerCache()
    early, late = ObjectIndex(by_node), ObjectIndex(by_node, objects.objects)
    owned, late_owned = ControllerIndex(), ControllerIndex(objects.objects)
    first_read = rng.randrange(60)
    for number, change in enumerate(random_changes(rng, objects)):
        if read_in_handler and number == first_read:
            late.of("n1")  # the cache has the change already, the index gets it next
        for index in (early, late, owned, late_owned):
            index.on_change(*change)
        if number >= first_read:
            for node in NODES[1:]:
                assert versions(late.of(node)) == versions(early.of(node))
                owner = f"owner-{node}"
                assert versions(late_owned.of(owner)) == versions(owned.of(owner))
            assert versions(late_owned.orphans("default")) == versions(owned.orphans("default"))


def test_an_index_that_is_not_read_does_not_look_at_changes():
    def fails(_pod):
        raise AssertionError("the index is not needed")

    index = ObjectIndex(fails, {})
    index.on_change("added", None, a_version("p", "n1", 1))
