"""What the scheduler gave a pod is written by holders of a right only."""

import msgspec
import pytest

from apiserver.role_grants import RBAC, TENANT, create_role, grant
from apiserver.sample_objects import PODS, binding, pod
from holdfast.api.allocation_keys import ALLOCATION_ANNOTATIONS, FOREIGN_ALLOCATIONS

SCHEDULER = {"impersonate-user": "system:kube-scheduler"}
CONTROLLERS = {"impersonate-user": "system:kube-controller-manager"}
NODE = {"impersonate-user": "system:node:n1", "impersonate-group": "system:nodes"}
SIMULATED = {
    "impersonate-user": "system:holdfast:simulated-nodes",
    "impersonate-group": "system:holdfast:simulated-nodes",
}
KEYS = pytest.mark.parametrize("key", ALLOCATION_ANNOTATIONS)
PATCH_TYPES = ("merge-patch+json", "strategic-merge-patch+json", "json-patch+json")


def annotated(name, annotations, **spec):
    made = pod(name, **spec)
    made["metadata"]["annotations"] = annotations
    return made


async def read(api, name="a"):
    return (await api.call("GET", f"{PODS}/{name}")).json


async def annotations_of(api, name="a"):
    return (await read(api, name))["metadata"].get("annotations", {})


def assert_forbidden(answer, *keys):
    assert (answer.status, answer.json["reason"]) == (403, "Forbidden"), answer.json
    for key in keys:
        assert (
            f"metadata.annotations[{key}]: only the scheduler may write it"
            in answer.json["message"]
        )
    assert "podallocations.scheduling.holdfast.dev" in answer.json["message"]


def patched(kind, notes):
    """Return the body of a patch that sets annotations; None removes one."""
    if kind != "json-patch+json":
        return {"metadata": {"annotations": notes}}
    return [
        {"op": "remove", "path": f"/metadata/annotations/{key.replace('/', '~1')}"}
        if text is None
        else {"op": "add", "path": f"/metadata/annotations/{key.replace('/', '~1')}", "value": text}
        for key, text in notes.items()
    ]


@KEYS
@pytest.mark.parametrize("kind", PATCH_TYPES)
@pytest.mark.parametrize("query", ["", "?dryRun=All"])
async def test_a_tenant_cannot_patch_what_its_pod_was_given(tenant, key, kind, query):
    await tenant.create(PODS, annotated("a", {key: "{}", "mine": "1"}, nodeName="n1"))
    headers = TENANT | {"content-type": f"application/{kind}"}
    path = f"{PODS}/a{query}"
    for notes in ({key: "{ }"}, {key: None}, {key: ""}):
        refused = await tenant.call("PATCH", path, patched(kind, notes), headers=headers)
        assert_forbidden(refused, key)
    change = patched(kind, {key: "{}", "mine": "2"})
    allowed = await tenant.call("PATCH", path, change, headers=headers)
    assert allowed.status == 200
    assert (await annotations_of(tenant))[key] == "{}"


@KEYS
async def test_a_tenant_cannot_add_what_its_pod_was_not_given(tenant, key):
    await tenant.create(PODS, annotated("a", {"mine": "1"}, nodeName="n1"))
    headers = TENANT | {"content-type": "application/merge-patch+json"}
    change = {"metadata": {"annotations": {key: "{}"}}}
    assert_forbidden(await tenant.call("PATCH", f"{PODS}/a", change, headers=headers), key)
    new = await read(tenant)
    new["metadata"]["annotations"][key] = "{}"
    for query in ("", "?dryRun=All"):
        assert_forbidden(await tenant.call("PUT", f"{PODS}/a{query}", new, headers=TENANT), key)


async def test_a_tenant_cannot_replace_a_pod_without_its_keys(tenant):
    keys = dict.fromkeys(ALLOCATION_ANNOTATIONS, "{}")
    await tenant.create(PODS, annotated("a", keys, nodeName="n1"))
    new = await read(tenant)
    new["metadata"]["labels"] = {"x": "y"}
    assert (await tenant.call("PUT", f"{PODS}/a", new, headers=TENANT)).status == 200
    del new["metadata"]["annotations"], new["metadata"]["resourceVersion"]
    assert_forbidden(await tenant.call("PUT", f"{PODS}/a", new, headers=TENANT), *keys)


@KEYS
async def test_the_status_and_other_subresources_are_no_way_around(tenant, key):
    """A right to write the status of pods is no right to write their allocations."""
    await create_role(
        tenant, "status",
        ("", ["pods/status", "pods/resize", "pods/ephemeralcontainers"], ["patch", "update"]),
    )  # fmt: skip
    await grant(tenant, "status")
    await tenant.create(PODS, annotated("a", {"mine": "1"}, nodeName="n1"))
    new = await read(tenant)
    new["metadata"]["annotations"][key] = "{}"
    assert_forbidden(await tenant.call("PUT", f"{PODS}/a/status", new, headers=TENANT), key)
    for part in ("status", "resize", "ephemeralcontainers"):
        for kind in PATCH_TYPES:
            headers = TENANT | {"content-type": f"application/{kind}"}
            answer = await tenant.call(
                "PATCH", f"{PODS}/a/{part}", patched(kind, {key: "{}"}), headers=headers
            )
            if part == "status":
                assert_forbidden(answer, key)
            assert answer.status >= 400
    assert key not in await annotations_of(tenant)


@KEYS
async def test_a_pod_with_a_node_cannot_be_created_with_a_key(tenant, key):
    for query in ("", "?dryRun=All"):
        bound = annotated("a", {key: "{}"}, nodeName="n1")
        assert_forbidden(await tenant.call("POST", f"{PODS}{query}", bound, headers=TENANT), key)
    empty = annotated("a", {key: ""}, nodeName="n1")
    assert (await tenant.call("POST", PODS, empty, headers=TENANT)).status == 201


@KEYS
async def test_a_node_cannot_record_allocations_by_a_mirror_pod_or_a_status(api, key):
    node = (await api.create("/api/v1/nodes", {"metadata": {"name": "n1"}}))["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": node["uid"],
             "controller": True}  # fmt: skip
    mirror = annotated("static", {"kubernetes.io/config.mirror": "x"}, nodeName="n1")
    mirror["metadata"]["ownerReferences"] = [owner]
    with_key = msgspec.json.decode(msgspec.json.encode(mirror))
    with_key["metadata"]["annotations"][key] = "{}"
    assert_forbidden(await api.call("POST", PODS, with_key, headers=NODE), key)
    assert (await api.call("POST", PODS, mirror, headers=NODE)).status == 201
    headers = NODE | {"content-type": "application/strategic-merge-patch+json"}
    change = {"status": {"phase": "Running"}}
    answer = await api.call("PATCH", f"{PODS}/static/status", change, headers=headers)
    assert answer.status == 200
    change["metadata"] = {"annotations": {key: "{}"}}
    assert_forbidden(await api.call("PATCH", f"{PODS}/static/status", change, headers=headers), key)


@KEYS
async def test_a_binding_empties_what_a_pod_was_created_with(tenant, key):
    """A template that was copied from a pod is no mistake, but it gives nothing."""
    made = await tenant.call("POST", PODS, annotated("a", {key: "{}", "b": "1"}), headers=TENANT)
    assert made.status == 201
    assert f"metadata.annotations[{key}]: only the scheduler writes it" in made.headers["Warning"]
    assert (await tenant.call("POST", f"{PODS}/a/binding", binding("a", "n1"))).status == 201
    assert await annotations_of(tenant) == {"b": "1"}


@KEYS
async def test_a_binding_overwrites_what_a_pod_was_created_with(tenant, key):
    others = dict.fromkeys(ALLOCATION_ANNOTATIONS, "{}")
    await tenant.call("POST", PODS, annotated("a", others), headers=TENANT)
    body = binding("a", "n1", annotations={key: "true"})
    assert (await tenant.call("POST", f"{PODS}/a/binding", body, headers=SCHEDULER)).status == 201
    assert await annotations_of(tenant) == {key: "true"}


async def test_what_a_scheduler_writes_before_the_binding_stays(tenant):
    """koord-scheduler patches a pod before it binds it, as ours does if an extender binds it."""
    first, second, *_ = ALLOCATION_ANNOTATIONS
    await tenant.call("POST", PODS, annotated("a", {first: "{}", second: "{}"}), headers=TENANT)
    headers = {"content-type": "application/merge-patch+json"}
    change = {"metadata": {"annotations": {second: "true"}}}
    answer = await tenant.call("PATCH", f"{PODS}/a", change, headers=SCHEDULER | headers)
    assert answer.status == 200
    await tenant.call("POST", f"{PODS}/a/binding", binding("a", "n1"))
    assert await annotations_of(tenant) == {second: "true"}


async def test_the_mark_of_foreign_keys_cannot_be_removed_or_forged(tenant):
    first, second, *_ = ALLOCATION_ANNOTATIONS
    headers = TENANT | {"content-type": "application/merge-patch+json"}
    forged = {first: "{}", FOREIGN_ALLOCATIONS: second}
    await tenant.call("POST", PODS, annotated("a", forged), headers=TENANT)
    assert (await annotations_of(tenant))[FOREIGN_ALLOCATIONS] == first
    for text in (None, "", second):
        change = {"metadata": {"annotations": {FOREIGN_ALLOCATIONS: text}}}
        answer = await tenant.call("PATCH", f"{PODS}/a", change, headers=headers)
        assert answer.status == 200
        assert (await annotations_of(tenant))[FOREIGN_ALLOCATIONS] == first
    await tenant.call("POST", PODS, annotated("b", {FOREIGN_ALLOCATIONS: first}), headers=TENANT)
    assert await annotations_of(tenant, "b") == {}
    await tenant.call("POST", f"{PODS}/a/binding", binding("a", "n1"))
    assert await annotations_of(tenant) == {}


@KEYS
async def test_a_binding_with_a_key_needs_the_right(tenant, key):
    await create_role(tenant, "binder", ("", ["bindings", "pods/binding"], ["create"]))
    await grant(tenant, "binder")
    await tenant.create(PODS, pod("a"))
    body = binding("a", "n1", annotations={key: "{}"})
    for path in (f"{PODS}/a/binding", "/api/v1/namespaces/default/bindings"):
        assert_forbidden(await tenant.call("POST", path, body, headers=TENANT), key)
    assert "nodeName" not in (await read(tenant))["spec"]
    answer = await tenant.call("POST", f"{PODS}/a/binding", binding("a", "n1"), headers=TENANT)
    assert answer.status == 201


@KEYS
async def test_the_scheduler_writes_keys_and_other_components_do_not(api, key):
    await api.create(PODS, annotated("a", {"b": "1"}, nodeName="n1"))
    headers = {"content-type": "application/merge-patch+json"}
    for text in ("{}", "true", None):
        change = {"metadata": {"annotations": {key: text}}}
        for who in (CONTROLLERS, SIMULATED, NODE):
            answer = await api.call("PATCH", f"{PODS}/a", change, headers=who | headers)
            assert answer.status == 403, who
        answer = await api.call("PATCH", f"{PODS}/a", change, headers=SCHEDULER | headers)
        assert answer.status == 200


async def test_a_role_grants_the_right_and_the_roles_of_users_do_not(api):
    key = ALLOCATION_ANNOTATIONS[0]
    await api.create(PODS, annotated("a", {"b": "1"}, nodeName="n1"))
    await api.create("/api/v1/namespaces", {"metadata": {"name": "other"}})
    await create_role(
        api, "allocations", ("scheduling.holdfast.dev", ["podallocations"], ["write"])
    )
    headers = {"content-type": "application/merge-patch+json"}
    change = {"metadata": {"annotations": {key: "{}"}}}
    for role, code in (("edit", 403), ("admin", 403), ("allocations", 200)):
        await grant(api, role, user="operator")
        who = {"impersonate-user": "operator"}
        answer = await api.call("PATCH", f"{PODS}/a", change, headers=who | headers)
        assert answer.status == code, (role, answer.json)
    await grant(api, "edit", "other", user="operator")
    body = annotated("a", {key: "{}"}, nodeName="n1")
    other = PODS.replace("default", "other")
    assert_forbidden(await api.call("POST", other, body, headers=who), key)


async def test_an_admin_of_a_namespace_cannot_grant_itself_the_right(api):
    await grant(api, "admin")
    rules = [
        {"apiGroups": ["scheduling.holdfast.dev"], "resources": ["podallocations"], "verbs": ["*"]}
    ]
    role = {"metadata": {"name": "mine"}, "rules": rules}
    answer = await api.call("POST", f"{RBAC}/namespaces/default/roles", role, headers=TENANT)
    assert answer.status == 403
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
           "name": "system:kube-scheduler"}  # fmt: skip
    body = {"metadata": {"name": "mine"}, "roleRef": ref, "subjects": []}
    path = f"{RBAC}/namespaces/default/rolebindings"
    assert (await api.call("POST", path, body, headers=TENANT)).status == 403


@pytest.mark.parametrize("notes", [7, [], "x", {ALLOCATION_ANNOTATIONS[0]: 7}])
async def test_annotations_of_a_wrong_type_are_no_server_error(tenant, notes):
    for node in ({}, {"nodeName": "n1"}):
        made = await tenant.call("POST", PODS, annotated("a", notes, **node), headers=TENANT)
        assert 400 <= made.status < 500


@pytest.mark.parametrize("notes", [7, [], "x", None])
async def test_a_binding_with_annotations_of_a_wrong_type_is_no_server_error(tenant, notes):
    key = ALLOCATION_ANNOTATIONS[0]
    await tenant.call("POST", PODS, annotated("a", {key: "{}"}), headers=TENANT)
    answer = await tenant.call("POST", f"{PODS}/a/binding", binding("a", "n1", annotations=notes))
    assert answer.status == (201 if notes is None else 400)
    if notes is None:
        assert "annotations" not in (await read(tenant))["metadata"]
