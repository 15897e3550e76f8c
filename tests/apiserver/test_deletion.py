import pytest

from apiserver.sample_objects import CONFIGMAPS, NAMESPACES, PODS, binding, configmap, pod
from holdfast.api.timestamps import parse_rfc3339

MERGE = {"content-type": "application/merge-patch+json"}
REPLICASETS = "/apis/apps/v1/namespaces/default/replicasets"


async def bound(api, name="a", **spec):
    await api.create(PODS, pod(name, **spec))
    assert (await api.call("POST", f"{PODS}/{name}/binding", binding(name, "n1"))).status == 201


async def gone(api, path):
    return (await api.call("GET", path)).status == 404


async def test_an_unscheduled_pod_is_deleted_at_once_and_returned(api):
    made = await api.create(PODS, pod("a"))
    answer = await api.call("DELETE", f"{PODS}/a")
    assert answer.status == 200
    assert answer.json["kind"] == "Pod"
    assert answer.json["metadata"]["uid"] == made["metadata"]["uid"]
    assert await gone(api, f"{PODS}/a")


async def test_deletion_of_other_kinds_returns_a_status(api):
    made = await api.create(CONFIGMAPS, configmap("a"))
    answer = await api.call("DELETE", f"{CONFIGMAPS}/a")
    assert answer.body == (
        b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success",'
        b'"details":{"name":"a","kind":"configmaps","uid":"'
        + made["metadata"]["uid"].encode()
        + b'"}}\n'
    )
    missing = await api.call("DELETE", f"{CONFIGMAPS}/a")
    assert missing.body == (
        b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
        b'"message":"configmaps \\"a\\" not found","reason":"NotFound",'
        b'"details":{"name":"a","kind":"configmaps"},"code":404}\n'
    )


async def test_a_bound_pod_has_a_grace_period_that_may_only_become_shorter(api):
    await bound(api)
    path = f"{PODS}/a"
    first = (await api.call("DELETE", path)).json["metadata"]
    assert first["deletionGracePeriodSeconds"] == 30
    assert first["generation"] == 2
    longer = (await api.call("DELETE", path, {"gracePeriodSeconds": 60})).json["metadata"]
    assert longer == first
    shorter = (await api.call("DELETE", path, {"gracePeriodSeconds": 10})).json["metadata"]
    assert shorter["deletionGracePeriodSeconds"] == 10
    times = [parse_rfc3339(m["deletionTimestamp"]) for m in (first, shorter)]
    assert times[0] - times[1] == 20
    await api.call("DELETE", path, {"gracePeriodSeconds": 0})
    assert await gone(api, path)


@pytest.mark.parametrize(
    ("spec", "options", "grace"),
    [
        ({"terminationGracePeriodSeconds": 5}, {}, 5),
        ({}, {"gracePeriodSeconds": 7}, 7),
        ({}, {"gracePeriodSeconds": -1}, 1),
    ],
)
async def test_the_grace_period_is_that_of_the_options_or_the_pod(api, spec, options, grace):
    await bound(api, **spec)
    answer = await api.call("DELETE", f"{PODS}/a", options)
    assert answer.json["metadata"]["deletionGracePeriodSeconds"] == grace


async def test_a_finished_pod_has_no_grace_period(api):
    await bound(api)
    done = {"status": {"phase": "Succeeded"}}
    await api.call("PATCH", f"{PODS}/a/status", done, headers=MERGE)
    await api.call("DELETE", f"{PODS}/a")
    assert await gone(api, f"{PODS}/a")


async def test_A033_an_object_with_a_finalizer_is_deleted_when_the_finalizer_is_removed(api):
    body = configmap("a")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await api.create(CONFIGMAPS, body)
    path = f"{CONFIGMAPS}/a"
    kept = await api.call("DELETE", path)
    assert kept.json["kind"] == "ConfigMap"
    assert kept.json["metadata"]["deletionTimestamp"]
    more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    refused = await api.call("PATCH", path, more, headers=MERGE)
    assert refused.status == 422
    assert (
        "no new finalizers can be added if the object is being deleted" in (refused.json["message"])
    )
    await api.call("PATCH", path, {"metadata": {"finalizers": None}}, headers=MERGE)
    assert await gone(api, path)


async def test_a_pod_with_a_finalizer_waits_for_the_grace_period_and_the_finalizer(api):
    await bound(api)
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    await api.call("PATCH", f"{PODS}/a", hold, headers=MERGE)
    await api.call("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert not await gone(api, f"{PODS}/a")
    await api.call("PATCH", f"{PODS}/a", {"metadata": {"finalizers": None}}, headers=MERGE)
    assert await gone(api, f"{PODS}/a")


@pytest.mark.parametrize("precondition", [{"uid": "wrong"}, {"resourceVersion": "1"}])
async def test_A034_a_wrong_precondition_is_a_conflict(api, precondition):
    made = await api.create(CONFIGMAPS, configmap("a"))
    answer = await api.call("DELETE", f"{CONFIGMAPS}/a", {"preconditions": precondition})
    assert (answer.status, answer.json["reason"]) == (409, "Conflict")
    right = {"uid": made["metadata"]["uid"],
             "resourceVersion": made["metadata"]["resourceVersion"]}  # fmt: skip
    answer = await api.call("DELETE", f"{CONFIGMAPS}/a", {"preconditions": right})
    assert answer.status == 200


@pytest.mark.parametrize(
    ("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")]
)
async def test_propagation_is_left_to_the_garbage_collector(api, policy, finalizer):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    await api.create(REPLICASETS, {"metadata": {"name": "r"}, "spec": spec})
    answer = await api.call("DELETE", f"{REPLICASETS}/r", {"propagationPolicy": policy})
    assert answer.json["metadata"]["finalizers"] == [finalizer]
    assert answer.json["metadata"]["deletionGracePeriodSeconds"] == 0
    await api.call("PATCH", f"{REPLICASETS}/r", {"metadata": {"finalizers": None}}, headers=MERGE)
    assert await gone(api, f"{REPLICASETS}/r")


async def test_contradicting_options_are_rejected(api):
    await api.create(CONFIGMAPS, configmap("a"))
    for options in (
        {"propagationPolicy": "Sideways"},
        {"propagationPolicy": "Orphan", "orphanDependents": True},
    ):
        assert (await api.call("DELETE", f"{CONFIGMAPS}/a", options)).status == 422


async def test_a_collection_is_deleted_by_selector(api):
    for name, tier in (("a", "x"), ("b", "x"), ("c", "y")):
        body = configmap(name)
        body["metadata"]["labels"] = {"tier": tier}
        await api.create(CONFIGMAPS, body)
    answer = await api.call("DELETE", CONFIGMAPS, labelSelector="tier=x")
    assert [i["metadata"]["name"] for i in answer.json["items"]] == ["a", "b"]
    left = (await api.call("GET", CONFIGMAPS)).json["items"]
    assert [i["metadata"]["name"] for i in left] == ["c"]


async def test_the_system_namespaces_cannot_be_deleted(api):
    assert (await api.call("DELETE", f"{NAMESPACES}/default")).status == 403


async def evict(api, name="a", **options):
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    if options:
        body["deleteOptions"] = options
    return await api.call("POST", f"{PODS}/{name}/eviction", body)


async def running(api, name="a"):
    body = pod(name)
    body["metadata"]["labels"] = {"app": "x"}
    await api.create(PODS, body)
    await api.call("POST", f"{PODS}/{name}/binding", binding(name, "n1"))
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    await api.call("PATCH", f"{PODS}/{name}/status", ready, headers=MERGE)


async def budget(api, name, **status):
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    selector = {"matchLabels": {"app": "x"}}
    await api.create(path, {"metadata": {"name": name},
                            "spec": {"minAvailable": 1, "selector": selector}})  # fmt: skip
    change = {"status": {"observedGeneration": 1, **status}}
    await api.call("PATCH", f"{path}/{name}/status", change, headers=MERGE)
    return f"{path}/{name}"


async def test_eviction_without_a_budget_deletes_with_grace_period(api):
    await running(api)
    assert (await evict(api)).status == 201
    left = (await api.call("GET", f"{PODS}/a")).json
    assert left["metadata"]["deletionTimestamp"]
    assert left["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"


async def test_eviction_is_rejected_while_the_budget_allows_no_disruption(api):
    await running(api)
    path = await budget(api, "b", disruptionsAllowed=0, desiredHealthy=1, currentHealthy=1)
    answer = await evict(api)
    assert (answer.status, answer.json["reason"]) == (429, "TooManyRequests")
    assert "retry-after" not in answer.headers, "kubectl drain has a rhythm of its own"
    cause = answer.json["details"]["causes"][0]
    assert cause["reason"] == "DisruptionBudget"
    assert cause["message"] == "The disruption budget b needs 1 healthy pods and has 1 currently"
    room = {"status": {"disruptionsAllowed": 1}}
    await api.call("PATCH", f"{path}/status", room, headers=MERGE)
    assert (await evict(api)).status == 201
    status = (await api.call("GET", path)).json["status"]
    assert status["disruptionsAllowed"] == 0
    assert set(status["disruptedPods"]) == {"a"}


async def test_a_budget_that_is_not_processed_yet_allows_no_disruption(api):
    await running(api)
    path = await budget(api, "b")
    for status, code, after in (
        ({}, 429, None),
        ({"disruptionsAllowed": 1, "observedGeneration": 0}, 429, "10"),
        ({"disruptionsAllowed": -1, "observedGeneration": 1}, 403, None),
    ):
        await api.call("PATCH", f"{path}/status", {"status": status}, headers=MERGE)
        answer = await evict(api)
        assert (answer.status, answer.headers.get("retry-after")) == (code, after)


async def test_two_budgets_for_one_pod_are_an_error(api):
    await running(api)
    await budget(api, "b", disruptionsAllowed=1)
    await budget(api, "c", disruptionsAllowed=1)
    assert (await evict(api)).status == 500


async def test_a_pending_pod_is_evicted_without_the_budget(api):
    body = pod("a")
    body["metadata"]["labels"] = {"app": "x"}
    await api.create(PODS, body)
    await budget(api, "b", disruptionsAllowed=0)
    assert (await evict(api)).status == 201
    assert await gone(api, f"{PODS}/a")
