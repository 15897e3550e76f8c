"""The index of what belongs to a node, kept up to date, equals one that is computed from nothing.

The reference looks only for names in the JSON of pods and volumes; every name occurs in one field.
"""

import random
from itertools import product

import msgspec
import pytest

from holdfast.runtime.clock import SystemClock
from holdfast.server.access.node_graph import NodeGraph
from holdfast.server.schema.stored_objects import value_builder
from holdfast.server.store import ObjectKey, Store
from soak_size import SEED, TIMES

NODES, NAMESPACES, NUMBERS = ("n1", "n2", ""), ("a", "b"), range(3)
PLURALS = ("secrets", "configmaps", "persistentvolumeclaims", "resourceclaims", "serviceaccounts")
STEPS = 60


def random_pod(rng, namespace, name):
    """A pod that refers to objects called KIND-NUMBER, each by one of the ways to do so."""

    def any_of(kind):
        return f"{kind}-{rng.choice(NUMBERS)}"

    secret, map_, claim = any_of("secrets"), any_of("configmaps"), any_of("resourceclaims")
    data = any_of("persistentvolumeclaims")
    ways = [
        {"imagePullSecrets": [{"name": secret}]},
        {"containers": [{"envFrom": [{"secretRef": {"name": secret}}]}]},
        {"initContainers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": secret}}}]}]},
        {"ephemeralContainers": [{"envFrom": [{"configMapRef": {"name": map_}}]}]},
        {"containers": [{"env": [{"valueFrom": {"configMapKeyRef": {"name": map_}}}]}]},
        {"volumes": [{"secret": {"secretName": secret}}, {"configMap": {"name": map_}}]},
        {"volumes": [{"projected": {"sources": [{"secret": {"name": secret}}]}}]},
        {"volumes": [{"projected": {"sources": [{"configMap": {"name": map_}}]}}]},
        {"volumes": [{"csi": {"nodePublishSecretRef": {"name": secret}}}]},
        {"volumes": [{"persistentVolumeClaim": {"claimName": data}}]},
        {"serviceAccountName": any_of("serviceaccounts")},
        {"resourceClaims": [{"name": "x", "resourceClaimName": claim}]},
        {"resourceClaims": [{"name": "x", "resourceClaimTemplateName": "t"}]},
        {"volumes": None, "containers": [None, 1], "resourceClaims": "x"},
    ]
    statuses = [
        {},
        {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": claim}]},
        {"extendedResourceClaimStatus": {"resourceClaimName": claim}},
    ]
    spec = {key: value for way in rng.sample(ways, 2) for key, value in way.items()}
    if node := rng.choice(NODES):
        spec["nodeName"] = node
    meta = {"namespace": namespace, "name": name, "uid": f"{namespace}-{name}"}
    if rng.random() < 0.1:
        meta["annotations"] = {"kubernetes.io/config.mirror": "x"}
    return {"metadata": meta, "spec": spec, "status": rng.choice(statuses)}


def random_volume(rng, name):
    claim = {"namespace": rng.choice(NAMESPACES), "name": f"persistentvolumeclaims-{name[-1]}"}
    secret = {"name": f"secrets-{rng.choice(NUMBERS)}", "namespace": rng.choice(NAMESPACES)}
    spec = {"csi": {"nodeStageSecretRef": secret}} if rng.random() < 0.5 else {"rbd": {}}
    if rng.random() < 0.8:
        spec["claimRef"] = claim
    return {"metadata": {"name": name, "uid": name}, "spec": spec}


def names_in(value, found):
    """Collect the strings KIND-NUMBER in a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        names_in(inner, found)
    if isinstance(value, str) and value.rpartition("-")[0] in PLURALS:
        found.add((value.rpartition("-")[0], value))
    return found


def claims_without_entry(pod):
    """Names of claims in the status that no entry of the spec asks for."""
    asked = pod["spec"].get("resourceClaims")
    named = isinstance(asked, list) and "resourceClaimTemplateName" in asked[0]
    statuses = pod["status"].get("resourceClaimStatuses") or ()
    kept = names_in({**pod, "status": {}}, set())
    return set() if named else {("resourceclaims", s["resourceClaimName"]) for s in statuses} - kept


def recomputed(objects, node):
    """Everything that is related to a node, from all pods and volumes."""
    related = set()
    for key, obj in objects.items():
        if key.plural == "pods" and obj["spec"].get("nodeName") == node:
            related.add(("pods", key.namespace, key.name))
            if "annotations" not in obj["metadata"]:
                for plural, name in names_in(obj, set()) - claims_without_entry(obj):
                    related.add((plural, key.namespace, name))
    for key, obj in objects.items():
        claim = obj["spec"].get("claimRef")
        if key.plural != "persistentvolumes" or claim is None:
            continue
        if ("persistentvolumeclaims", claim["namespace"], claim["name"]) in related:
            related.add(("persistentvolumes", "", key.name))
            if secret := obj["spec"].get("csi", {}).get("nodeStageSecretRef"):
                related.add(("secrets", secret["namespace"], secret["name"]))
    return related


EVERYTHING = [
    *((plural, ns, f"{plural}-{n}") for plural, ns, n in product(PLURALS, NAMESPACES, NUMBERS)),
    *(("pods", ns, f"p{n}") for ns, n in product(NAMESPACES, NUMBERS)),
    *(("persistentvolumes", "", f"v{n}") for n in NUMBERS),
]


@pytest.mark.parametrize("seed", range(SEED, SEED + 2 * TIMES))
async def test_the_index_kept_up_to_date_equals_one_made_from_nothing(tmp_path, seed):
    rng, objects = random.Random(seed), {}
    store = Store.open(tmp_path, SystemClock())
    graph = NodeGraph(store)
    keys = [ObjectKey("", "pods", ns, f"p{n}") for ns, n in product(NAMESPACES, NUMBERS)]
    keys += [ObjectKey("", "persistentvolumes", "", f"v{n}") for n in NUMBERS]
    try:
        for _ in range(STEPS):
            for key in rng.sample(keys, rng.randint(1, 3)):
                await change(store, rng, key, objects)
            node = rng.choice(("n1", "n2"))  # the other one lags behind
            wanted = recomputed(objects, node)
            for kept in (graph, NodeGraph(store)):
                found = {one for one in EVERYTHING if kept.relates(node, *one)}
                assert found == wanted
    finally:
        await store.close()


async def change(store, rng, key, objects):
    """Create, replace or delete an object."""
    stored = store.latest(key)
    if stored is not None and rng.random() < 0.3:
        del objects[key]
        await store.delete(stored, lambda revision: stored.value)
        return
    if key.plural == "pods":
        new = random_pod(rng, key.namespace, key.name)
    else:
        new = random_volume(rng, key.name)
    objects[key] = msgspec.json.decode(msgspec.json.encode(new))
    build = value_builder(new)
    await (store.create(key, build) if stored is None else store.update(stored, build))
