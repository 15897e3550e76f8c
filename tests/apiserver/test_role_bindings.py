"""Role bindings: permissions to write them, and the roles they may refer to."""

import pytest

from apiserver.role_grants import RBAC
from apiserver.sessions import session_for

MERGE = {"content-type": "application/merge-patch+json"}


def binding_to(kind, name, **metadata):
    return {
        "metadata": {"name": "early", **metadata},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [{"kind": "User", "name": "ann"}],
    }


async def grant_everywhere(api, user, verbs, resources):
    rules = [{"verbs": verbs, "apiGroups": ["rbac.authorization.k8s.io"], "resources": resources}]
    await api.create(f"{RBAC}/clusterroles", {"metadata": {"name": user}, "rules": rules})
    await api.create(f"{RBAC}/clusterrolebindings", {
        **binding_to("ClusterRole", user), "metadata": {"name": user},
    })  # fmt: skip


@pytest.mark.parametrize("kind", ["Role", "ClusterRole"])
async def test_a_binding_to_a_role_that_does_not_exist_yet_is_not_found(api, kind):
    await grant_everywhere(
        api, "ann", ["create", "update", "patch"], ["rolebindings", "clusterrolebindings"]
    )
    wheres = [f"{RBAC}/namespaces/default/rolebindings"]
    wheres += [f"{RBAC}/clusterrolebindings"] if kind == "ClusterRole" else []
    async with session_for(api, "ann") as ann:
        for where in wheres:
            made = await api.call("POST", where, binding_to(kind, "later"), session=ann)
            assert made.status == 404
            resource = where.rpartition("/")[2]
            assert made.json["message"] == f'{resource}.rbac.authorization.k8s.io "later" not found'
            assert made.json["reason"] == "NotFound"
            details = {"name": "later", "group": "rbac.authorization.k8s.io", "kind": resource}
            assert made.json["details"] == details
            # The admin may create it; a change of the roleRef is rejected anyway.
            await api.create(where, binding_to(kind, "later"))
            label = {"metadata": {"labels": {"a": "b"}}}
            put = await api.call(
                "PUT", f"{where}/early", binding_to(kind, "later", labels={"a": "b"}), session=ann
            )
            patched = await api.call("PATCH", f"{where}/early", label, headers=MERGE, session=ann)
            assert (put.status, patched.status) == (404, 404)
            # As upstream, changes of fields for garbage collection are allowed.
            held = {"metadata": {"finalizers": ["example.com/hold"]}}
            kept = await api.call("PATCH", f"{where}/early", held, headers=MERGE, session=ann)
            assert kept.status == 200, kept.body
            moved = binding_to(kind, "elsewhere")
            refused = await api.call("PUT", f"{where}/early", moved)
            assert refused.json["message"].endswith(
                'roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io",'
                f'"Kind":"{kind}","Name":"elsewhere"}}: cannot change roleRef'
            )


async def test_the_verb_bind_allows_binding_a_role_that_does_not_exist_yet(api):
    await grant_everywhere(
        api, "ann", ["create", "bind"], ["rolebindings", "clusterrolebindings", "clusterroles"]
    )
    async with session_for(api, "ann") as ann:
        for where in (f"{RBAC}/namespaces/default/rolebindings", f"{RBAC}/clusterrolebindings"):
            body = binding_to("ClusterRole", "later")
            assert (await api.call("POST", where, body, session=ann)).status == 201


async def test_a_cluster_role_binding_cannot_refer_to_a_role(api):
    refused = await api.call(
        "POST", f"{RBAC}/clusterrolebindings", binding_to("Role", "cluster-admin")
    )
    assert refused.status == 422
    assert (
        'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"'
        in (refused.json["message"])
    )


async def test_a_binding_without_a_role_or_with_invalid_subjects_is_rejected(api):
    body = binding_to("Nonsense", "")
    body["subjects"] = [{"kind": "ServiceAccount", "name": "a"}, {"kind": "Crowd", "name": "b"}, {}]
    refused = await api.call("POST", f"{RBAC}/clusterrolebindings", body)
    assert refused.status == 422
    assert [cause["field"] for cause in refused.json["details"]["causes"]] == [
        "roleRef.kind", "roleRef.name", "subjects[0].namespace", "subjects[1].kind",
        "subjects[2].name", "subjects[2].kind",
    ]  # fmt: skip
