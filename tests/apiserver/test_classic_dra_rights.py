"""Who may read and write classic claims: nodes, drivers, users of a namespace."""

import pytest

from apiserver.classic_objects import (
    CLAIMS,
    CLASSES,
    PODS,
    SCHEDULINGS,
    claim,
    pod,
    scheduling,
    status,
)
from apiserver.role_grants import TENANT, grant, grant_in_every_namespace
from apiserver.sample_objects import binding
from holdfast.api.classic_dra.names import POD_CLAIMS

INVENTORIES = "/apis/dra.holdfast.dev/v1alpha1/namespaces/default/nodeinventories"
MERGE = {"content-type": "application/merge-patch+json"}
MINE = {"name": "named", "claim": {"resourceClaimName": "mine"}}
INLINE = {"name": "inline", "claim": {"template": {"spec": {"resourceClassName": "gpu"}}}}


def node(name):
    return {"impersonate-user": f"system:node:{name}", "impersonate-group": "system:nodes"}


@pytest.fixture
async def nodes(api):
    """Create claims, and a pod on each of two nodes; that of n1 uses some of them."""
    for name in ("mine", "p-inline", "other", "annotated"):
        await api.create(CLAIMS, claim(name))
    await api.create(SCHEDULINGS, scheduling("p", selectedNode="n1"))
    structured = {"name": "both", "resourceClaimName": "other"}
    annotated = pod(name="r")
    annotated["metadata"]["annotations"] = {
        POD_CLAIMS: '[{"name": "a", "claim": {"resourceClaimName": "annotated"}}]'
    }
    for body, on in (
        (pod(MINE, INLINE, structured), "n1"),
        (pod(MINE, name="q"), "n2"),
        (annotated, "n1"),
    ):
        await api.create(PODS, body)
        name = body["metadata"]["name"]
        await api.create(f"{PODS}/{name}/binding", binding(name, on))
    return api


async def test_C080_a_node_reads_the_claims_of_its_pods_and_writes_none(nodes):
    api = nodes
    for name, n1, n2 in (
        ("mine", 200, 200),
        ("p-inline", 200, 403),
        ("other", 403, 403),
        ("annotated", 200, 403),
    ):
        for on, code in (("n1", n1), ("n2", n2)):
            answer = await api.call("GET", f"{CLAIMS}/{name}", headers=node(on))
            assert answer.status == code, (name, on)
    modern = CLAIMS.replace("core.k8s.io/v1alpha1", "resource.k8s.io/v1")
    assert (await api.call("GET", f"{modern}/mine", headers=node("n1"))).status == 403
    assert (await api.call("GET", f"{modern}/other", headers=node("n1"))).status == 404
    added = {POD_CLAIMS: '[{"name": "a", "claim": {"resourceClaimName": "other"}}]'}
    for name in ("p", "r"):
        patch = {"metadata": {"annotations": added}}
        answer = await api.call("PATCH", f"{PODS}/{name}/status", patch, headers=node("n1") | MERGE)
        assert (answer.status, POD_CLAIMS in answer.json["message"]) == (403, True)
    mine = (await api.call("GET", f"{CLAIMS}/mine")).json
    for method, path, body in (
        ("GET", CLAIMS, None),
        ("POST", CLAIMS, claim("new")),
        ("PUT", f"{CLAIMS}/mine", mine),
        ("PUT", f"{CLAIMS}/mine/status", {**mine, "status": status()}),
        ("PATCH", f"{CLAIMS}/mine", {}),
        ("PATCH", f"{CLAIMS}/mine/status", {"status": status()}),
        ("DELETE", f"{CLAIMS}/mine", None),
        ("GET", f"{SCHEDULINGS}/p", None),
        ("POST", SCHEDULINGS, scheduling("q")),
        ("PATCH", f"{SCHEDULINGS}/p", {}),
        ("PATCH", f"{SCHEDULINGS}/p/status", {}),
        ("DELETE", f"{SCHEDULINGS}/p", None),
        ("POST", CLASSES, {"metadata": {"name": "x"}, "driverName": "d"}),
    ):
        headers = node("n1") | (MERGE if method == "PATCH" else {})
        answer = await api.call(method, path, body, headers=headers)
        assert answer.status == 403, (method, path)


async def test_C080_a_node_writes_only_its_own_inventory(api):
    for name, code in (("n1", 201), ("n2", 403)):
        body = {"metadata": {"name": name}, "spec": {"nodeName": name, "driverName": "d"}}
        assert (await api.call("POST", INVENTORIES, body, headers=node("n1"))).status == code
    of_other = {"metadata": {"name": "n2"}, "spec": {"nodeName": "n2", "driverName": "d"}}
    await api.create(INVENTORIES, of_other)
    headers = node("n1") | MERGE
    for method, path, code in (
        ("PATCH", "n1", 200),
        ("PATCH", "n2", 403),
        ("DELETE", "n1", 403),
        ("DELETE", "n2", 403),
        ("GET", "n1", 200),
        ("GET", "n2", 403),
        ("PATCH", "n1/status", 403),
    ):
        body = {"spec": {"ready": True}} if method == "PATCH" else None
        answer = await api.call(method, f"{INVENTORIES}/{path}", body, headers=headers)
        assert answer.status == code, (method, path)
    taken = {"spec": {"nodeName": "n2"}}
    assert (await api.call("PATCH", f"{INVENTORIES}/n1", taken, headers=headers)).status == 403


async def test_the_role_of_drivers_allows_what_a_driver_writes(api):
    """Its rights end where the scheduler's begin: it reserves in a status, but asks for no node."""
    await grant_in_every_namespace(api, "holdfast:classic-dra-driver", user="driver")
    await api.create(CLAIMS, claim())
    await api.create(SCHEDULINGS, scheduling(selectedNode="n1"))
    headers = {"impersonate-user": "driver"} | MERGE
    answers = {"claims": [{"podResourceClaimName": "gpu"}]}
    for path, patch, code in (
        (f"{CLAIMS}/c", {"metadata": {"finalizers": ["d.example.com/deletion-protection"]}}, 200),
        (f"{CLAIMS}/c/status", {"status": status("p")}, 200),
        (f"{SCHEDULINGS}/p/status", {"status": answers}, 200),
        (f"{SCHEDULINGS}/p", {"spec": {"selectedNode": "n2"}}, 403),
    ):
        assert (await api.call("PATCH", path, patch, headers=headers)).status == code, path
    assert (await api.call("POST", CLAIMS, claim("new"), headers=headers)).status == 403


async def test_editors_use_classes_and_admins_manage_them(api):
    """A class is in no namespace: edit in one gives no right to it, but all users may read it."""
    await api.create(CLASSES, {"metadata": {"name": "gpu"}, "driverName": "d"})
    await grant(api, "edit")
    another = {"metadata": {"name": "another"}, "driverName": "d"}
    for method, at, sent, code in (
        ("GET", CLASSES, None, 200),
        ("GET", f"{CLASSES}/gpu", None, 200),
        ("POST", CLASSES, another, 403),
        ("DELETE", f"{CLASSES}/gpu", None, 403),
        ("POST", CLAIMS, claim(), 201),
        ("POST", PODS, pod({"name": "gpu", "claim": {"resourceClaimName": "c"}}), 201),
        ("GET", SCHEDULINGS, None, 200),
        ("POST", SCHEDULINGS, scheduling(), 403),
        ("DELETE", f"{CLAIMS}/c", None, 200),
        ("POST", CLAIMS.replace("/default/", "/other/"), claim(), 403),
    ):
        answer = await api.call(method, at, sent, headers=TENANT)
        assert answer.status == code, (method, at, answer.json)
    assert (await api.call("POST", CLASSES, another)).status == 201
    assert (await api.call("GET", CLASSES, headers={"impersonate-user": "plain"})).status == 200
