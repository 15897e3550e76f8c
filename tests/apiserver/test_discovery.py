import pytest

from apiserver.sample_objects import PODS, pod

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
V2BETA1 = V2.replace("v=v2", "v=v2beta1")


async def test_aggregated_discovery_lists_every_group_and_supports_etags(api):
    accept = {"accept": f"{V2},{V2BETA1},application/json"}
    core = await api.call("GET", "/api", headers=accept)
    assert core.headers["content-type"] == V2
    resources = core.json["items"][0]["versions"][0]["resources"]
    pods = next(r for r in resources if r["resource"] == "pods")
    assert (pods["shortNames"], pods["scope"], pods["singularResource"]) == (
        ["po"], "Namespaced", "pod",
    )  # fmt: skip
    parts = {p["subresource"]: p for p in pods["subresources"]}
    assert parts["eviction"]["responseKind"] == {
        "group": "policy", "version": "v1", "kind": "Eviction",
    }  # fmt: skip
    apis = await api.call("GET", "/apis", headers=accept)
    groups = [item["metadata"]["name"] for item in apis.json["items"]]
    assert {"apps", "resource.k8s.io", "apiextensions.k8s.io"} <= set(groups)
    assert "" not in groups
    again = await api.call("GET", "/apis", headers=accept | {"if-none-match": apis.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


async def test_v2beta1_of_aggregated_discovery_is_supported(api):
    answer = await api.call("GET", "/apis", headers={"accept": V2BETA1})
    assert answer.headers["content-type"] == V2BETA1
    assert answer.json["apiVersion"] == "apidiscovery.k8s.io/v2beta1"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api", "APIVersions"), ("/api/", "APIVersions"), ("/apis", "APIGroupList"),
        ("/apis/apps", "APIGroup"), ("/apis/apps/v1", "APIResourceList"),
        ("/api/v1", "APIResourceList"), ("/api/v1/", "APIResourceList"),
    ],
)  # fmt: skip
async def test_A003_legacy_documents_with_and_without_a_trailing_slash(api, path, kind):
    answer = await api.call("GET", path)
    assert answer.status == 200
    assert answer.json["kind"] == kind


async def test_legacy_resources_list_subresources_with_their_kind(api):
    rows = {r["name"]: r for r in (await api.call("GET", "/api/v1")).json["resources"]}
    assert rows["pods/eviction"] == {
        "name": "pods/eviction", "singularName": "", "namespaced": True, "group": "policy",
        "version": "v1", "kind": "Eviction", "verbs": ["create"],
    }  # fmt: skip
    assert "group" not in rows["pods/status"]
    assert rows["nodes"]["namespaced"] is False


async def test_unknown_groups_and_paths_are_not_found(api):
    for path in ("/apis/none.example.com", "/apis/apps/v9", "/api/v2", "/nowhere"):
        answer = await api.call("GET", path)
        assert (answer.status, answer.body) == (404, b"404 page not found\n")
    answer = await api.call("GET", "/apis/apps/v1/nothings")
    assert answer.status == 404
    assert answer.json["message"] == "the server could not find the requested resource"


async def test_health_version_and_metrics(api):
    for path in ("/healthz", "/livez", "/readyz", "/livez/ping"):
        answer = await api.call("GET", path)
        assert (answer.status, answer.body) == (200, b"ok")
    for path in ("/version", "/version/"):
        assert (await api.call("GET", path)).json["minor"] == "36"
    await api.create(PODS, pod("a"))
    async with api.watch(PODS):
        text = (await api.call("GET", "/metrics")).body.decode()
    assert (
        'apiserver_request_total{code="201",group="",resource="pods",subresource="",'
        'verb="CREATE",version="v1"} 1.0'
    ) in text
    assert "apiserver_longrunning_requests 1.0" in text
    assert "apiserver_request_duration_seconds_bucket" in text


async def test_a_stopped_server_returns_503(api):
    await api.server.stop()
    assert (await api.call("GET", PODS)).status == 503
