import ssl
import stat

import aiohttp
import pytest
import yaml

from apiserver.role_grants import RBAC
from apiserver.sample_objects import NAMESPACES, PODS, pod
from apiserver.server_fixture import start_server
from apiserver.sessions import session_for, time_of
from holdfast.runtime.certificates import make_authority, make_client_certificate
from holdfast.server.user import component_user
from tls_client import client_context


async def grant(api, user, verbs, resources, *, namespace="default", groups=("",)):
    rules = [{"verbs": verbs, "apiGroups": list(groups), "resources": resources}]
    where = f"{RBAC}/namespaces/{namespace}"
    await api.create(f"{where}/roles", {"metadata": {"name": user}, "rules": rules})
    await api.create(f"{where}/rolebindings", {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
        "subjects": [{"kind": "User", "name": user}],
    })  # fmt: skip


def token_of(api):
    config = yaml.safe_load(api.kubeconfig.read_text())
    return next(u["user"]["token"] for u in config["users"] if "token" in u["user"])


async def test_anonymous_clients_may_read_health_and_version_only(api):
    async with session_for(api) as anonymous:
        for path in ("/healthz", "/livez", "/readyz", "/version"):
            assert (await api.call("GET", path, session=anonymous)).status == 200
        for path in (PODS, "/api", "/apis", "/metrics", "/openapi/v3"):
            answer = await api.call("GET", path, session=anonymous)
            assert (answer.status, answer.json["message"]) == (401, "Unauthorized")


async def test_only_hashes_of_tokens_are_stored(api):
    token = token_of(api)
    kept = (api.credentials.directory / "tokens.json").read_text()
    assert token not in kept
    async with session_for(api, token=token) as admin:
        assert (await api.call("GET", PODS, session=admin)).status == 200
    async with session_for(api, token=token + "x") as stranger:
        assert (await api.call("GET", PODS, session=stranger)).status == 401
        assert (await api.call("GET", "/healthz", session=stranger)).status == 401


async def test_secrets_are_private_files(api):
    assert stat.S_IMODE(api.kubeconfig.stat().st_mode) == 0o600
    for name in ("ca.key", "server.key", "admin.key", "tokens.json"):
        mode = (api.credentials.directory / name).stat().st_mode
        assert stat.S_IMODE(mode) == 0o600
    assert stat.S_IMODE(api.credentials.directory.stat().st_mode) == 0o700


async def test_credentials_survive_a_restart(tmp_path):
    async with start_server(tmp_path) as api:
        before = (api.credentials.authority.certificate, api.credentials.admin)
        token = token_of(api)
    async with start_server(tmp_path) as api:
        assert (api.credentials.authority.certificate, api.credentials.admin) == before
        assert token_of(api) == token
        async with session_for(api, token=token) as admin:
            assert (await api.call("GET", PODS, session=admin)).status == 200


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("newest", "served"), [(ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True)]
)
async def test_old_tls_is_refused(api, newest, served):
    context = client_context(api.credentials)
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, newest
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as old:
        if served:
            assert (await api.call("GET", "/healthz", session=old)).status == 200
        else:
            with pytest.raises(aiohttp.ClientConnectorError):
                await api.call("GET", "/healthz", session=old)


async def test_a_certificate_of_another_authority_is_rejected(api):
    other = make_authority("another authority", time_of(api))
    pair = make_client_certificate(other, "eve", ["system:masters"], time_of(api))
    for part, data in (("crt", pair.certificate), ("key", pair.key)):
        (api.directory / f"eve.{part}").write_bytes(data)
    context = client_context(api.credentials, certificate=False)
    context.load_cert_chain(api.directory / "eve.crt", api.directory / "eve.key")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as eve:
        with pytest.raises(aiohttp.ClientError):
            await api.call("GET", "/healthz", session=eve)


async def test_requests_for_another_host_are_rejected(api):
    for headers in ({"host": "evil.example.com"}, {"origin": "https://evil.example.com"}):
        assert (await api.call("GET", "/version", headers=headers)).status == 403
    for host in ("localhost:1", "127.0.0.1", "[::1]:6443"):
        assert (await api.call("GET", "/version", headers={"host": host})).status == 200


async def test_without_a_role_everything_is_denied_with_upstreams_message(api):
    async with session_for(api, "bob") as bob:
        answer = await api.call("GET", PODS, session=bob)
        assert answer.status == 403
        assert answer.json["message"] == (
            'pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the '
            'namespace "default"'
        )
        assert answer.json["details"] == {"kind": "pods"}
        wide = await api.call("GET", "/apis/apps/v1/deployments", session=bob)
        assert wide.json["message"] == (
            'deployments.apps is forbidden: User "bob" cannot list resource "deployments" in API '
            'group "apps" at the cluster scope'
        )
        metrics = await api.call("GET", "/metrics", session=bob)
        assert metrics.json["message"] == 'forbidden: User "bob" cannot get path "/metrics"'
        assert (await api.call("GET", "/apis", session=bob)).status == 200


async def test_a_role_allows_its_rules_in_its_namespace(api):
    await grant(api, "bob", ["get", "list"], ["pods"])
    await api.create(NAMESPACES, {"metadata": {"name": "other"}})
    await api.create(PODS, pod("a"))
    async with session_for(api, "bob") as bob:
        assert (await api.call("GET", PODS, session=bob)).status == 200
        assert (await api.call("GET", f"{PODS}/a", session=bob)).status == 200
        for method, path in (
            ("GET", "/api/v1/pods"), ("GET", f"{NAMESPACES}/other/pods"),
            ("DELETE", f"{PODS}/a"), ("GET", f"{PODS}/a/log"), ("POST", PODS),
        ):  # fmt: skip
            assert (await api.call(method, path, session=bob)).status == 403
        await api.call("DELETE", f"{RBAC}/namespaces/default/rolebindings/bob")
        assert (await api.call("GET", PODS, session=bob)).status == 403


async def test_groups_names_and_subresources_of_rules_are_checked(api):
    rules = [
        {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"],
         "resourceNames": ["a"]},
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*/scale"]},
    ]  # fmt: skip
    await api.create(f"{RBAC}/clusterroles", {"metadata": {"name": "r"}, "rules": rules})
    await api.create(f"{RBAC}/clusterrolebindings", {
        "metadata": {"name": "r"}, "roleRef": {"kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "Group", "name": "ops"}],
    })  # fmt: skip
    await api.create(PODS, pod("a"))
    async with session_for(api, "ann", ["ops"]) as ann:
        assert (await api.call("GET", f"{PODS}/a", session=ann)).status == 200
        one = {"fieldSelector": "metadata.name=a"}
        assert (await api.call("GET", PODS, session=ann, **one)).status == 200
        assert (await api.call("GET", PODS, session=ann)).status == 403
        scale = "/apis/apps/v1/namespaces/default/deployments/d/scale"
        assert (await api.call("GET", scale, session=ann)).status == 404


async def test_the_scheduler_may_bind_and_not_read_secrets(api):
    await api.create(PODS, pod("a"))
    client = api.client(component_user("system:kube-scheduler"))
    target = {"metadata": {"name": "a"}, "target": {"name": "n1"}}
    await client.bind("default", "a", target)
    async with session_for(api, "system:kube-scheduler") as scheduler:
        path = "/api/v1/namespaces/default/secrets"
        assert (await api.call("GET", path, session=scheduler)).status == 403


async def test_reviews_return_the_user_and_its_access(api):
    await grant(api, "bob", ["get"], ["pods"])
    review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    async with session_for(api, "bob", ["dev"]) as bob:
        me = await api.call(
            "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, session=bob
        )
        assert me.json["status"]["userInfo"] == {
            "username": "bob", "groups": ["dev", "system:authenticated"],
        }  # fmt: skip
        for verb, allowed in (("get", True), ("delete", False)):
            about = {"namespace": "default", "verb": verb, "resource": "pods"}
            asked = {"spec": {"resourceAttributes": about}}
            answer = await api.call("POST", review, asked, session=bob)
            assert (answer.status, answer.json["status"]["allowed"]) == (201, allowed)
    asked = {"spec": {"user": "bob", "resourceAttributes": about | {"verb": "get"}}}
    theirs = await api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", asked)
    assert theirs["status"]["allowed"] is True


async def test_impersonation_needs_the_verb(api):
    as_bob = {"impersonate-user": "bob"}
    assert (await api.call("GET", PODS, headers=as_bob)).status == 403
    both = [("impersonate-user", "bob"), ("impersonate-group", "a"), ("impersonate-group", "b"),
            ("content-type", "application/json")]  # fmt: skip
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    async with api.session.post(api.url + path, data=b"{}", headers=both) as response:
        user = (await response.json())["status"]["userInfo"]
    assert user == {"username": "bob", "groups": ["a", "b", "system:authenticated"]}
    async with session_for(api, "eve") as eve:
        answer = await api.call("GET", PODS, headers={"impersonate-user": "x"}, session=eve)
        assert answer.status == 403
        assert 'cannot impersonate resource "users"' in answer.json["message"]


async def test_a_namespace_in_the_path_of_a_cluster_resource_gives_no_access(api):
    """All rights in a namespace give no rights for nodes, even with the namespace in the path."""
    await grant(api, "eve", ["*"], ["*"], groups=("*",))
    nodes, crowns = "/api/v1/namespaces/default/nodes", f"{RBAC}/namespaces/default"
    binding = {
        "metadata": {"name": "eve-rules"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin",
        },
        "subjects": [{"kind": "User", "name": "eve"}],
    }  # fmt: skip
    await api.create("/api/v1/nodes", {"metadata": {"name": "n1"}})
    async with session_for(api, "eve") as eve:
        for path in (nodes, f"{nodes}/n1", "/api/v1/namespaces/default/namespaces/kube-system"):
            assert (await api.call("GET", path, session=eve)).status == 404
        made = await api.call("POST", f"{crowns}/clusterrolebindings", binding, session=eve)
        assert made.status == 404
        assert (await api.call("GET", "/api/v1/namespaces/default", session=eve)).status == 200
        assert (await api.call("GET", "/api/v1/nodes", session=eve)).status == 403


async def test_a_user_cannot_grant_permissions_it_does_not_have(api):
    await grant(
        api, "ann", ["create", "update", "patch", "list"], ["roles", "rolebindings"],
        groups=("rbac.authorization.k8s.io",),
    )  # fmt: skip
    where = f"{RBAC}/namespaces/default"
    rules = [{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]
    held = [{"verbs": ["list"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]}]
    role = {"metadata": {"name": "thief"}, "rules": rules}
    binding = {
        "metadata": {"name": "thief"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "User", "name": "ann"}],
    }
    async with session_for(api, "ann") as ann:
        refused = await api.call("POST", f"{where}/roles", role, session=ann)
        assert refused.status == 403
        assert refused.json["message"] == (
            'roles.rbac.authorization.k8s.io "thief" is forbidden: user "ann" '
            '(groups=["system:authenticated"]) is attempting to grant RBAC permissions not '
            'currently held:\n{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'
        )
        assert (await api.call("POST", f"{where}/rolebindings", binding, session=ann)).status == 403
        mine = {"metadata": {"name": "thief"}, "rules": held}
        assert (await api.call("POST", f"{where}/roles", mine, session=ann)).status == 201
        grown = await api.call("PUT", f"{where}/roles/thief", role, session=ann)
        assert grown.status == 403
        patched = await api.call(
            "PATCH", f"{where}/roles/thief", {"rules": rules}, session=ann,
            headers={"content-type": "application/merge-patch+json"},
        )  # fmt: skip
        assert patched.status == 403
        renamed = {"metadata": {"name": "thief", "labels": {"a": "b"}}, "rules": held}
        assert (await api.call("PUT", f"{where}/roles/thief", renamed, session=ann)).status == 200


async def test_a_user_cannot_grant_permissions_in_the_cluster_it_does_not_have(api):
    group = "rbac.authorization.k8s.io"
    held = {"verbs": ["create", "list"], "apiGroups": [group],
            "resources": ["clusterroles", "clusterrolebindings"]}  # fmt: skip
    await api.create(f"{RBAC}/clusterroles", {"metadata": {"name": "ann"}, "rules": [held]})

    def binding(name, role):
        ref = {"apiGroup": group, "kind": "ClusterRole", "name": role}
        subjects = [{"kind": "User", "apiGroup": group, "name": "ann"}]
        return {"metadata": {"name": name}, "roleRef": ref, "subjects": subjects}

    await api.create(f"{RBAC}/clusterrolebindings", binding("ann", "ann"))
    secrets = {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}
    other = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    missing = "is attempting to grant RBAC permissions not currently held"
    async with session_for(api, "ann") as ann:
        for kind, body, status, words in (
            ("clusterroles", {"rules": [secrets]}, 403, missing),
            ("clusterroles", {"aggregationRule": other}, 403, missing),
            ("clusterroles", {"rules": [held]}, 201, None),
            ("clusterrolebindings", binding("thief", "cluster-admin"), 403, missing),
            ("clusterrolebindings", binding("thief", "later"), 404, '"later" not found'),
            ("clusterrolebindings", binding("thief", "ann"), 201, None),
        ):
            sent = {"metadata": {"name": "thief"}, **body}
            answer = await api.call("POST", f"{RBAC}/{kind}", sent, session=ann)
            assert answer.status == status, (kind, body, answer.json)
            assert words is None or words in answer.json["message"]


async def test_the_verbs_escalate_and_bind_let_a_user_grant_more(api):
    await grant(
        api, "ann", ["create", "escalate", "bind"], ["roles", "rolebindings", "clusterroles"],
        groups=("rbac.authorization.k8s.io",),
    )  # fmt: skip
    where = f"{RBAC}/namespaces/default"
    rules = [{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]
    binding = {
        "metadata": {"name": "more"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "User", "name": "bob"}],
    }
    async with session_for(api, "ann") as ann:
        role = {"metadata": {"name": "more"}, "rules": rules}
        assert (await api.call("POST", f"{where}/roles", role, session=ann)).status == 201
        assert (await api.call("POST", f"{where}/rolebindings", binding, session=ann)).status == 201


async def test_incomplete_impersonation_is_rejected(api):
    bot = "system:serviceaccount:default:bot"
    await grant(api, "ann", ["impersonate"], ["users"])
    review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

    async def act(headers, session=None):
        return await api.call("POST", review, {}, headers=headers, session=session)

    for header in ("impersonate-group", "impersonate-uid", "impersonate-extra-scopes"):
        assert (await act({header: "x"})).status == 400
    seen = (await act({"impersonate-user": bot})).json["status"]["userInfo"]
    assert seen["groups"] == [
        "system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated",
    ]  # fmt: skip
    rules = [{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"]}]
    await api.create(f"{RBAC}/clusterroles", {"metadata": {"name": "actor"}, "rules": rules})
    await api.create(f"{RBAC}/clusterrolebindings", {
        "metadata": {"name": "actor"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                    "name": "actor"},
        "subjects": [{"kind": "User", "name": "ann"}],
    })  # fmt: skip
    async with session_for(api, "ann") as ann:
        assert (await act({"impersonate-user": "bob"}, ann)).status == 201
        assert (await act({"impersonate-user": bot}, ann)).status == 403


async def test_editors_may_read_but_not_write_resources_of_the_cluster(api):
    await api.create(f"{RBAC}/namespaces/default/rolebindings", {
        "metadata": {"name": "ed"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "User", "name": "ed"}],
    })  # fmt: skip
    await api.create(PODS, pod("p"))
    async with session_for(api, "ed") as ed:
        bound = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
        for method, path, body in (
            ("POST", f"{PODS}/p/binding", bound),
            ("POST", "/api/v1/namespaces/default/bindings", bound),
            ("PUT", f"{PODS}/p/status", pod("p")),
            ("POST", "/api/v1/namespaces/default/resourcequotas", {"metadata": {"name": "q"}}),
            ("POST", "/api/v1/namespaces/default/limitranges", {"metadata": {"name": "l"}}),
        ):
            assert (await api.call(method, path, body, session=ed)).status == 403, path
        quotas = "/api/v1/namespaces/default/resourcequotas"
        assert (await api.call("GET", quotas, session=ed)).status == 200
        assert (await api.call("DELETE", f"{PODS}/p", session=ed)).status == 200
