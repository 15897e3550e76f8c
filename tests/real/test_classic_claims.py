"""The CRDs of classic DRA on a real kube-apiserver: it judges as the embedded server does."""

import asyncio
import json
from pathlib import Path

import pytest

from apiserver.classic_objects import (
    CLAIMS,
    CLASSES,
    SCHEDULINGS,
    STATUS_CHANGES,
    claim,
    scheduling,
    selector,
    status,
)
from apiserver.server_fixture import start_server
from real.both_servers import refused_fields, send
from real.programs import until

pytestmark = pytest.mark.real
DEPLOY = Path(__file__).parents[2] / "deploy"
STRICT = "?fieldValidation=Strict"
NODES = [f"n{i}" for i in range(257)]
CREATED = {
    "C001": (CLAIMS, claim()),
    "C002": (CLAIMS, claim(allocationMode="Later")),
    "no class": (CLAIMS, claim(resourceClassName="")),
    "parameters": (CLAIMS, claim(parametersRef={"kind": "K"})),
    "driver": (CLASSES, {"metadata": {"name": "x"}, "driverName": "A"}),
    "long driver": (CLASSES, {"metadata": {"name": "x"}, "driverName": "a" * 64}),
    "class": (CLASSES, {"metadata": {"name": "x"}, "driverName": "a",
                        "suitableNodes": selector("n")}),
    "no terms": (CLASSES, {"metadata": {"name": "x"}, "driverName": "a",
                           "suitableNodes": {"nodeSelectorTerms": []}}),
    "values": (CLASSES, {"metadata": {"name": "x"}, "driverName": "a", "suitableNodes": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]}}),
    "C008": (SCHEDULINGS, scheduling(potentialNodes=NODES)),
    "256 nodes": (SCHEDULINGS, scheduling(potentialNodes=NODES[:256])),
    "same node": (SCHEDULINGS, scheduling(potentialNodes=["a", "a"])),
    "no node name": (SCHEDULINGS, scheduling(selectedNode="A")),
}  # fmt: skip


@pytest.fixture(scope="module")
def plane(control_plane):
    control_plane.kubectl("apply", "-f", str(DEPLOY / "crds"))
    control_plane.kubectl(
        "wait", "--for=condition=Established", "-f", str(DEPLOY / "crds"), "--timeout=30s"
    )
    control_plane.kubectl("apply", "-f", str(DEPLOY / "admission" / "classic-claims.yaml"))
    path = SCHEDULINGS.replace("core.k8s.io", "dra.holdfast.dev") + "?dryRun=All"
    head = {"apiVersion": "dra.holdfast.dev/v1alpha1", "kind": "PodScheduling"}
    body = head | {"metadata": {"name": "ownerless"}}
    until(lambda: send(control_plane, "POST", path, body)[0], 422)
    yield control_plane
    control_plane.kubectl("delete", "-f", str(DEPLOY / "admission" / "classic-claims.yaml"))


@pytest.fixture
async def embedded(tmp_path):
    async with start_server(tmp_path) as running:
        yield running


KINDS = {
    "resourceclaims": "ResourceClaim",
    "resourceclasses": "ResourceClass",
    "podschedulings": "PodScheduling",
}
MERGE = "application/merge-patch+json"


async def ask(plane, embedded, method, path, bodies):
    """Send a request to both servers, each its own body; the status must be the same.

    Return it, then both answers.
    """
    kind = next(kind for plural, kind in KINDS.items() if plural in path)
    sent = []
    for group, body in zip(("dra.holdfast.dev", "core.k8s.io"), bodies, strict=True):
        head = {"apiVersion": f"{group}/v1alpha1", "kind": kind}
        sent.append(head | body if method in ("POST", "PUT") else body)
    form = MERGE if method == "PATCH" else "application/json"
    ours = await embedded.call(method, path, sent[1], headers={"content-type": form})
    real_path = path.replace("core.k8s.io", "dra.holdfast.dev")
    headers = {"Content-Type": form}
    code, real = await asyncio.to_thread(send, plane, method, real_path, sent[0], **headers)
    assert code == ours.status, (method, path, real, ours.json)
    return code, real, ours.json


async def both(plane, embedded, method, path, body=None):
    """Send the same to both servers."""
    return await ask(plane, embedded, method, path, (body, body))


async def write(plane, embedded, claims, new_status):
    """Write the status of both servers' claims."""
    bodies = [{**one, "status": new_status} for one in claims]
    return await ask(plane, embedded, "PUT", f"{CLAIMS}/c/status", bodies)


async def test_both_servers_accept_and_refuse_the_same_objects(plane, embedded):
    for name, (path, body) in CREATED.items():
        code, real, ours = await both(plane, embedded, "POST", f"{path}{STRICT}&dryRun=All", body)
        assert (code == 201) == (name in ("C001", "class", "256 nodes")), name
        if code == 422:
            assert refused_fields(real) == refused_fields(ours), name
        else:
            assert real.get("spec") == ours.get("spec"), name
    for body in ({"metadata": {"name": "p"}}, scheduling()):
        wanted = 201 if "ownerReferences" in body["metadata"] else 422
        assert (await both(plane, embedded, "POST", SCHEDULINGS, body))[0] == wanted


async def test_both_servers_keep_the_invariants_of_a_status(plane, embedded):
    for name, (before, after, fields) in STATUS_CHANGES.items():
        _, *made = await both(plane, embedded, "POST", CLAIMS, claim())
        code, *stored = await write(plane, embedded, made, before)
        assert code == 200, name
        code, real, ours = await write(plane, embedded, stored, after)
        assert code == (422 if fields else 200), name
        if fields:
            assert {at for at, _ in refused_fields(real)} == fields, name
            assert refused_fields(real) == refused_fields(ours), name
        await both(plane, embedded, "DELETE", f"{CLAIMS}/c")


async def test_both_servers_keep_the_spec_and_add_no_user_to_a_deleted_claim(plane, embedded):
    _, *made = await both(plane, embedded, "POST", CLAIMS, claim())
    await write(plane, embedded, made, status("p", shared=True))
    kept = {"metadata": {"finalizers": ["d.example.com/deletion-protection"]}}
    changed = {"spec": {"resourceClassName": "other"}}
    for patch, wanted in ((kept, 200), (changed, 422)):
        assert (await both(plane, embedded, "PATCH", f"{CLAIMS}/c", patch))[0] == wanted
    assert (await both(plane, embedded, "DELETE", f"{CLAIMS}/c"))[0] == 200
    _, *stored = await both(plane, embedded, "GET", f"{CLAIMS}/c")
    for users, wanted in ((("p", "q"), 422), (("q",), 422), ((), 200)):
        answer = await write(plane, embedded, stored, status(*users, shared=True))
        assert answer[0] == wanted, users
    free = {"metadata": {"finalizers": None}}
    assert (await both(plane, embedded, "PATCH", f"{CLAIMS}/c", free))[0] == 200
    assert (await both(plane, embedded, "GET", f"{CLAIMS}/c"))[0] == 404


def inventory(node):
    return {
        "apiVersion": "dra.holdfast.dev/v1alpha1", "kind": "NodeInventory",
        "metadata": {"name": node}, "spec": {"driverName": "d.example.com", "nodeName": node},
    }  # fmt: skip


def test_C080_the_node_part_of_a_driver_writes_only_the_inventory_of_its_node(plane):
    plane.kubectl("apply", "-f", str(DEPLOY / "rbac" / "classic-drivers.yaml"))
    tokens = {}
    for account in ("classic-driver", "classic-driver-node"):
        plane.kubectl("create", "serviceaccount", account)
        role = f"--clusterrole=holdfast-{account}"
        plane.kubectl("create", "clusterrolebinding", account, role,
                      f"--serviceaccount=default:{account}")  # fmt: skip
        tokens[account] = plane.kubectl("create", "token", account).strip()
    node = json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "inventory-1"}})
    plane.kubectl("create", "-f", "-", text=node)
    bound = ("--bound-object-kind=Node", "--bound-object-name=inventory-1")
    tokens["on inventory-1"] = plane.kubectl(
        "create", "token", "classic-driver-node", *bound
    ).strip()
    path = "/apis/dra.holdfast.dev/v1alpha1/namespaces/default/nodeinventories"

    def ask(who, method, name, body=None, query=""):
        token = f"Bearer {tokens[who]}"
        where = (path if method == "POST" else f"{path}/{name}") + query
        form = MERGE if method == "PATCH" else "application/json"
        return send(plane, method, where, body, Authorization=token, **{"Content-Type": form})[0]

    mine, other = "inventory-1", "inventory-2"
    until(lambda: ask("classic-driver-node", "POST", mine, inventory(mine), "?dryRun=All"), 403)
    assert ask("on inventory-1", "POST", mine, inventory(mine)) == 201
    assert ask("on inventory-1", "POST", other, inventory(other)) == 403
    assert ask("classic-driver", "POST", other, inventory(other)) == 201
    ready = {"spec": {"ready": True}}
    assert ask("on inventory-1", "PATCH", other, ready) == 403
    assert ask("on inventory-1", "PATCH", mine, ready) == 200
    assert ask("classic-driver", "PATCH", mine, ready) == 200
    plane.kubectl("delete", "nodeinventories", mine, other)
    plane.kubectl("delete", "node", "inventory-1")
