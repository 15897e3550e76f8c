import asyncio

import pytest

from apiserver.sample_objects import CONFIGMAPS, NAMESPACES, PODS, configmap, pod

MERGE = {"content-type": "application/merge-patch+json"}
JSON_PATCH = {"content-type": "application/json-patch+json"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}


async def test_a_new_object_gets_uid_and_times_from_the_server(api):
    body = configmap("a", x="1")
    body["metadata"] |= {"uid": "mine", "creationTimestamp": "1999-01-01T00:00:00Z",
                         "generation": 7, "deletionTimestamp": "1999-01-01T00:00:00Z"}  # fmt: skip
    made = await api.create(CONFIGMAPS, body)
    meta = made["metadata"]
    assert meta["uid"] != "mine" and len(meta["uid"]) == 36
    assert not meta["creationTimestamp"].startswith("1999")
    assert "generation" not in meta and "deletionTimestamp" not in meta
    assert meta["namespace"] == "default"
    assert list(made)[:3] == ["kind", "apiVersion", "metadata"]


async def test_a_hundred_generated_names_are_distinct(api):
    body = configmap()
    body["metadata"] = {"generateName": "web-"}
    made = await asyncio.gather(*(api.create(CONFIGMAPS, body) for _ in range(100)))
    names = {one["metadata"]["name"] for one in made}
    assert len(names) == 100
    assert all(name.startswith("web-") and len(name) == 9 for name in names)


async def test_a_generated_name_that_exists_is_generated_again(api):
    class Loaded:
        def __init__(self, *suffixes):
            self.suffixes = list(suffixes)

        def choices(self, _, k):
            return list(self.suffixes.pop(0))

    api.server.context.rng = Loaded("bbbbb", "bbbbb", "ccccc")
    body = configmap()
    body["metadata"] = {"generateName": "web-"}
    first, second = await api.create(CONFIGMAPS, body), await api.create(CONFIGMAPS, body)
    assert first["metadata"]["name"] == "web-bbbbb"
    assert second["metadata"]["name"] == "web-ccccc"


async def test_A006_creating_twice_is_already_exists_byte_for_byte(api):
    body = {"metadata": {"name": "mock-2"}, "spec": {"ports": [{"port": 80}]}}
    path = "/api/v1/namespaces/default/services"
    await api.create(path, body)
    again = await api.call("POST", path, body)
    assert again.status == 409
    assert again.body == (
        b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
        b'"message":"services \\"mock-2\\" already exists","reason":"AlreadyExists",'
        b'"details":{"name":"mock-2","kind":"services"},"code":409}\n'
    )


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        (PODS, {"metadata": {}}, 422, "name or generateName is required"),
        (PODS, pod("UPPER"), 422, "metadata.name: Invalid value"),
        (PODS, {"metadata": {"name": "a"}, "spec": {}}, 422, "spec.containers: Required value"),
        (PODS, configmap("a"), 400, "cannot be handled as a Pod"),
        (PODS, {**pod("a"), "apiVersion": "v2"}, 400, 'no kind "Pod" is registered'),
        (PODS, b"{", 400, "json parse error"),
        (PODS, b"[1]", 400, "must be one JSON object"),
        ("/api/v1/namespaces/nowhere/pods", pod("a"), 404, 'namespaces "nowhere" not found'),
        ("/api/v1/namespaces/default/nothings", pod("a"), 404, "could not find the requested"),
        (PODS, {**pod("a"), "metadata": {"name": "a", "namespace": "x"}}, 400, "does not match"),
        (PODS, {**pod("a"), "metadata": {"name": "a", "resourceVersion": "1"}}, 400,
         "resourceVersion should not be set on objects to be created"),
        (PODS, pod("a", priorityClassName="none"), 403, "no PriorityClass with name none"),
    ],
)  # fmt: skip
async def test_invalid_objects_are_rejected_with_a_message(api, path, body, status, words):
    answer = await api.call("POST", path, body)
    assert answer.status == status, answer.body
    assert words in answer.json["message"]
    assert answer.json["code"] == status


async def test_nothing_is_created_in_a_terminating_namespace(api):
    await api.create(NAMESPACES, {"metadata": {"name": "going"}})
    gone = await api.call("DELETE", f"{NAMESPACES}/going")
    assert gone.json["status"]["phase"] == "Terminating"
    answer = await api.call("POST", f"{NAMESPACES}/going/pods", pod("a"))
    assert answer.status == 403
    assert answer.json["message"] == (
        'pods "a" is forbidden: unable to create new content in namespace going because it is '
        "being terminated"
    )
    assert answer.json["details"]["causes"][0]["reason"] == "NamespaceTerminating"


async def test_a_namespace_is_deleted_when_its_finalizer_is_removed(api):
    made = await api.create(NAMESPACES, {"metadata": {"name": "going"}})
    assert made["spec"]["finalizers"] == ["kubernetes"]
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "going"}
    dying = (await api.call("DELETE", f"{NAMESPACES}/going")).json
    again = await api.call("DELETE", f"{NAMESPACES}/going")
    assert (again.status, again.json) == (200, dying)
    dying["spec"] = {}
    assert (await api.call("PUT", f"{NAMESPACES}/going/finalize", dying)).status == 200
    assert (await api.call("GET", f"{NAMESPACES}/going")).status == 404


async def test_a_second_update_from_the_same_copy_is_a_conflict(api):
    copy = await api.create(CONFIGMAPS, configmap("a", x="1"))
    copy["data"]["x"] = "2"
    assert (await api.call("PUT", f"{CONFIGMAPS}/a", copy)).status == 200
    copy["data"]["x"] = "3"
    answer = await api.call("PUT", f"{CONFIGMAPS}/a", copy)
    assert answer.status == 409
    assert answer.json["message"] == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; please '
        "apply your changes to the latest version and try again"
    )


async def test_an_update_that_changes_nothing_keeps_the_version(api):
    made = await api.create(CONFIGMAPS, configmap("a", x="1"))
    before = api.store.revision
    answer = await api.call("PUT", f"{CONFIGMAPS}/a", made)
    assert answer.json == made
    change = await api.call("PATCH", f"{CONFIGMAPS}/a", {"data": {"x": "1"}}, headers=MERGE)
    assert change.json == made
    assert api.store.revision == before


async def test_an_update_without_a_version_is_unconditional_unless_the_kind_requires_one(api):
    await api.create(CONFIGMAPS, configmap("a", x="1"))
    assert (await api.call("PUT", f"{CONFIGMAPS}/a", configmap("a", x="2"))).status == 200
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    lease = {"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}}
    await api.create(leases, lease)
    answer = await api.call("PUT", f"{leases}/a", lease)
    assert answer.status == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified" in answer.json["message"]


@pytest.mark.parametrize(
    ("change", "status"), [({"uid": "x"}, 409), ({"name": "b"}, 400), ({"namespace": "x"}, 400)]
)
async def test_an_update_cannot_change_the_identity_of_an_object(api, change, status):
    made = await api.create(CONFIGMAPS, configmap("a"))
    made["metadata"] |= change
    assert (await api.call("PUT", f"{CONFIGMAPS}/a", made)).status == status


async def test_A041_spec_and_status_are_written_separately(api):
    made = await api.create(PODS, pod("a"))
    made["status"]["phase"] = "Running"
    made["spec"]["containers"][0]["image"] = "other"
    main = (await api.call("PUT", f"{PODS}/a", made)).json
    assert (main["status"]["phase"], main["spec"]["containers"][0]["image"]) == ("Pending", "other")
    main["status"]["phase"] = "Running"
    main["spec"]["containers"][0]["image"] = "third"
    status = (await api.call("PUT", f"{PODS}/a/status", main)).json
    assert status["status"]["phase"] == "Running"
    assert status["spec"]["containers"][0]["image"] == "other"
    change = {"status": {"phase": "Failed"}, "spec": {"activeDeadlineSeconds": 5}}
    patched = (await api.call("PATCH", f"{PODS}/a/status", change, headers=MERGE)).json
    assert patched["status"]["phase"] == "Failed"
    assert "activeDeadlineSeconds" not in patched["spec"]


async def test_generation_counts_spec_changes_only(api):
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
    body = {"metadata": {"name": "d"}, "spec": {
        "replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}}  # fmt: skip
    made = await api.create(deployments, body)
    assert made["metadata"]["generation"] == 1
    path = f"{deployments}/d"
    labelled = await api.call("PATCH", path, {"metadata": {"labels": {"x": "y"}}}, headers=MERGE)
    assert labelled.json["metadata"]["generation"] == 1
    assert labelled.json["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    scaled = await api.call("PATCH", path, {"spec": {"replicas": 2}}, headers=MERGE)
    assert scaled.json["metadata"]["generation"] == 2
    status = {"status": {"replicas": 2}}
    told = await api.call("PATCH", f"{path}/status", status, headers=MERGE)
    assert (told.json["metadata"]["generation"], told.json["status"]["replicas"]) == (2, 2)


async def test_a_json_patch_that_fails_a_test_changes_nothing(api):
    made = await api.create(CONFIGMAPS, configmap("a", x="1"))
    wrong = [{"op": "test", "path": "/data/x", "value": "2"},
             {"op": "replace", "path": "/data/x", "value": "3"}]  # fmt: skip
    assert (await api.call("PATCH", f"{CONFIGMAPS}/a", wrong, headers=JSON_PATCH)).status == 422
    assert (await api.call("GET", f"{CONFIGMAPS}/a")).json == made
    right = [{"op": "test", "path": "/data/x", "value": "1"}, wrong[1]]
    answer = await api.call("PATCH", f"{CONFIGMAPS}/a", right, headers=JSON_PATCH)
    assert answer.json["data"] == {"x": "3"}


async def test_a_strategic_patch_merges_containers_by_name(api):
    await api.create(PODS, pod("a"))
    change = {"spec": {"containers": [{"name": "c", "image": "new"}]}}
    answer = await api.call("PATCH", f"{PODS}/a", change, headers=STRATEGIC)
    assert answer.status == 200, answer.body
    container = answer.json["spec"]["containers"][0]
    assert (container["image"], container["terminationMessagePath"]) == (
        "new", "/dev/termination-log",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("media", "body", "status"),
    [
        ("application/apply-patch+yaml", {"metadata": {"name": "a"}}, 501),
        ("text/plain", {}, 415),
        ("application/merge-patch+json", [1], 400),
        ("application/json-patch+json", {"op": "add"}, 400),
        ("application/json-patch+json", [{"op": "nonsense", "path": "/a"}], 422),
        ("application/json-patch+json", [{"op": "remove", "path": "/nothing"}], 422),
        ("application/merge-patch+json", {"metadata": {"name": "b"}}, 400),
        ("application/merge-patch+json", {"metadata": {"resourceVersion": "1"}}, 409),
    ],
)
async def test_invalid_patches_are_rejected(api, media, body, status):
    await api.create(CONFIGMAPS, configmap("a", x="1"))
    headers = {"content-type": media}
    answer = await api.call("PATCH", f"{CONFIGMAPS}/a", body, headers=headers)
    assert answer.status == status, answer.body


async def test_concurrent_patches_are_all_applied(api):
    await api.create(CONFIGMAPS, configmap("a"))
    changes = [{"data": {f"k{i}": "v"}} for i in range(40)]
    await asyncio.gather(
        *(api.call("PATCH", f"{CONFIGMAPS}/a", change, headers=MERGE) for change in changes)
    )
    data = (await api.call("GET", f"{CONFIGMAPS}/a")).json["data"]
    assert len(data) == 40


async def test_a_dry_run_returns_the_object_and_stores_nothing(api):
    before = api.store.revision
    answer = await api.call("POST", PODS, pod("a"), dryRun="All")
    assert answer.status == 201
    assert answer.json["spec"]["restartPolicy"] == "Always"
    assert (await api.call("GET", f"{PODS}/a")).status == 404
    await api.create(CONFIGMAPS, configmap("c", x="1"))
    after = api.store.revision
    change = await api.call(
        "PATCH", f"{CONFIGMAPS}/c", {"data": {"x": "2"}}, headers=MERGE, dryRun="All"
    )
    assert change.json["data"] == {"x": "2"}
    gone = await api.call("DELETE", f"{CONFIGMAPS}/c", dryRun="All")
    assert gone.status == 200
    assert (await api.call("GET", f"{CONFIGMAPS}/c")).json["data"] == {"x": "1"}
    assert (before + 1, after) == (after, api.store.revision)
    assert (await api.call("POST", PODS, pod("a"), dryRun="Some")).status == 422


async def test_admission_sets_defaults_of_pods(api):
    made = await api.create(PODS, pod("a", schedulingGates=[{"name": "g"}]))
    spec = made["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert spec["serviceAccountName"] == "default"
    assert [t["key"] for t in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable",
    ]  # fmt: skip
    condition = made["status"]["conditions"][0]
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "SchedulingGated")
    critical = await api.create(PODS, pod("b", priorityClassName="system-node-critical"))
    assert critical["spec"]["priority"] == 2000001000


async def test_pods_without_a_priority_class_get_the_default_one(api):
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await api.create(classes, {"metadata": {"name": "low"}, "value": 7, "globalDefault": True,
                               "preemptionPolicy": "Never"})  # fmt: skip
    spec = (await api.create(PODS, pod("a")))["spec"]
    assert (spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]) == (
        "low", 7, "Never",
    )  # fmt: skip
    answer = await api.call("POST", PODS, pod("b", priority=8))
    assert answer.status == 403
    second = {"metadata": {"name": "lower"}, "value": 6, "globalDefault": True}
    answer = await api.call("POST", classes, second)
    assert answer.status == 403
    assert "Only one default can exist" in answer.json["message"]


@pytest.mark.parametrize(("name", "value"), [("system-mine", 1), ("high", 1_000_000_001)])
async def test_only_system_priority_classes_may_have_the_highest_values(api, name, value):
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    answer = await api.call("POST", classes, {"metadata": {"name": name}, "value": value})
    assert answer.status == 422


async def test_the_value_of_a_priority_class_cannot_change(api):
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await api.create(classes, {"metadata": {"name": "low"}, "value": 7})
    answer = await api.call("PATCH", f"{classes}/low", {"value": 8}, headers=MERGE)
    assert answer.status == 422
    assert answer.json["details"]["causes"][0]["field"] == "value"


async def test_a_post_to_the_path_of_an_object_is_rejected(api):
    assert (await api.call("POST", f"{PODS}/a", pod("a"))).status == 405
    assert (await api.call("PUT", PODS, pod("a"))).status == 405


async def test_most_fields_of_a_pod_cannot_change(api):
    made = await api.create(PODS, pod("a", schedulingGates=[{"name": "g"}]))
    made["spec"]["schedulerName"] = "other"
    answer = await api.call("PUT", f"{PODS}/a", made)
    assert answer.status == 422
    assert "pod updates may not change fields other than" in answer.json["message"]
    ungate = {"spec": {"schedulingGates": None}}
    assert (await api.call("PATCH", f"{PODS}/a", ungate, headers=MERGE)).status == 200
    regate = {"spec": {"schedulingGates": [{"name": "g"}]}}
    assert (await api.call("PATCH", f"{PODS}/a", regate, headers=MERGE)).status == 422


async def test_large_and_deeply_nested_bodies_are_rejected(api):
    big = configmap("a", x="y" * (3 * 1024 * 1024 + 10))
    assert (await api.call("POST", CONFIGMAPS, big)).status == 413
    middle = configmap("a", x="y" * (2 * 1024 * 1024))
    assert (await api.call("POST", CONFIGMAPS, middle)).status == 413
    for depth in (300, 100_000):
        deep = b'{"metadata":{"name":"a"},"data":' + b"[" * depth + b"]" * depth + b"}"
        assert (await api.call("POST", CONFIGMAPS, deep)).status == 400


async def test_yaml_bodies_and_responses(api):
    text = b"kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\ndata: {day: '2001-01-01'}\n"
    yaml = {"content-type": "application/yaml", "accept": "application/yaml"}
    answer = await api.call("POST", CONFIGMAPS, text, headers=yaml)
    assert answer.status == 201
    assert answer.headers["content-type"] == "application/yaml"
    assert b"day: '2001-01-01'" in answer.body
    aliased = b"metadata: {name: b}\ndata: &x {a: b}\nother: *x\n"
    assert (await api.call("POST", CONFIGMAPS, aliased, headers=yaml)).status == 400
    twice = b"metadata: {name: b}\ndata: {a: b, a: c}\n"
    assert (await api.call("POST", CONFIGMAPS, twice, headers=yaml)).status == 400


async def test_unknown_media_types_are_rejected(api):
    answer = await api.call("GET", PODS, headers={"accept": "image/png"})
    assert answer.status == 406
    answer = await api.call("POST", PODS, b"x", headers={"content-type": "text/csv"})
    assert answer.status == 415
