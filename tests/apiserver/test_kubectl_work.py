"""Common kubectl commands: edit, apply, wait, drain, explain."""

import asyncio
import json

import pytest

from apiserver.role_grants import create_role, grant
from apiserver.sample_objects import CONFIGMAPS, PODS, binding, pod
from apiserver.widgets import CRDS, definition
from kubectl_program import find_kubectl, minor_version

pytestmark = pytest.mark.kubectl
MERGE = {"content-type": "application/merge-patch+json"}
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture
def kubectl(api):
    """Run kubectl; fail with its error output if it must succeed."""

    async def run(*args, fails=False, stdin=""):
        answer = await api.kubectl(*args, stdin=stdin)
        assert fails or answer.code == 0, answer.err
        return answer

    return run


def deployment(*containers):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": list(containers)}}
    return json.dumps({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template},
    })  # fmt: skip


def container(name, cpu):
    return {"name": name, "image": "nginx", "resources": {"requests": {"cpu": cpu}}}


async def containers_of(api):
    spec = (await api.call("GET", f"{DEPLOYMENTS}/d")).json["spec"]["template"]["spec"]
    return [(c["name"], c["resources"].get("requests", {}).get("cpu")) for c in spec["containers"]]


async def running(api, name, node, **spec):
    body = pod(name, **spec)
    body["metadata"]["labels"] = {"app": "x"}
    body["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
    ]
    await api.create(PODS, body)
    await api.call("POST", f"{PODS}/{name}/binding", binding(name, node))
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    await api.call("PATCH", f"{PODS}/{name}/status", ready, headers=MERGE)


async def test_A002_api_resources_are_listed_and_cached(api, kubectl):
    listed = await kubectl("api-resources")
    rows = [line.split() for line in listed.out.splitlines()]
    assert ["pods", "po", "v1", "true", "Pod"] in rows
    assert ["resourceclaims", "resource.k8s.io/v1", "true", "ResourceClaim"] in rows
    assert (await kubectl("api-resources")).out == listed.out
    counted = (await api.call("GET", "/metrics")).body.decode().splitlines()
    unchanged = [line for line in counted if "request_total" in line and 'code="304"' in line]
    assert [line.split()[-1] for line in unchanged] == ["2.0"]


async def test_A007_unknown_fields_are_errors_or_warnings(api, kubectl):
    body = json.dumps(pod("a", foo=1))
    refused = await kubectl("create", "-f", "-", stdin=body, fails=True)
    assert refused.code == 1
    assert 'strict decoding error: unknown field "spec.foo"' in refused.err
    warned = await kubectl("create", "--validate=warn", "-f", "-", stdin=body)
    assert 'Warning: unknown field "spec.foo"' in warned.err
    assert "foo" not in (await api.call("GET", f"{PODS}/a")).json["spec"]


async def test_A008_zero_replicas_are_kept_in_protobuf(api, kubectl):
    await kubectl("create", "deployment", "d", "--image=x", "--replicas=0")
    assert (await api.call("GET", f"{DEPLOYMENTS}/d")).json["spec"]["replicas"] == 0


async def test_A010_who_am_i_and_what_may_i(api, kubectl):
    assert "kubernetes-admin" in (await kubectl("auth", "whoami")).out
    assert (await kubectl("auth", "can-i", "create", "pods")).out == "yes\n"
    bobs = await kubectl("auth", "can-i", "--list", "--as=bob")
    assert "selfsubjectaccessreviews" in bobs.out
    assert "pods" not in bobs.out


async def test_rights_about_scheduling_are_listed(api, kubectl):
    """Without --list kubectl asks for a resource of this name in the group of pods."""
    right = ("scheduling.holdfast.dev", ["podallocations"], ["write"])
    await create_role(api, "allocations", right)
    await grant(api, "allocations")
    listed = (await kubectl("auth", "can-i", "--list", "--as=tenant")).out
    [line] = [line for line in listed.splitlines() if "scheduling.holdfast.dev" in line]
    assert line.split() == ["podallocations.scheduling.holdfast.dev", "[]", "[]", "[write]"]


async def test_A011_apply_changes_only_the_changed_fields_of_the_manifest(api, kubectl):
    first = deployment(container("b", "1"), container("a", "2"))
    await kubectl("apply", "-f", "-", stdin=first)
    second = deployment(container("b", "1"), container("a", "3"))
    await kubectl("apply", "-f", "-", stdin=second)
    assert await containers_of(api) == [("b", "1"), ("a", "3")]


async def test_A012_apply_removes_fields_that_left_the_manifest_and_no_others(api, kubectl):
    first = deployment(container("a", "1"), container("b", "2"))
    await kubectl("apply", "-f", "-", stdin=first)
    added = {"spec": {"template": {"spec": {"containers": [container("other", "9")]}}}}
    await kubectl("patch", "deployment", "d", "-p", json.dumps(added))
    await kubectl("apply", "-f", "-", stdin=deployment(container("a", "1")))
    assert sorted(await containers_of(api)) == [("a", "1"), ("other", "9")]


async def test_A015_diff_changes_nothing(api, kubectl):
    same, other = deployment(container("a", "1")), deployment(container("a", "2"))
    await kubectl("apply", "-f", "-", stdin=same)
    before = api.store.revision
    assert (await kubectl("diff", "-f", "-", stdin=same)).code == 0
    changed = await kubectl("diff", "-f", "-", stdin=other, fails=True)
    assert changed.code == 1
    assert 'cpu: "2"' in changed.out
    assert api.store.revision == before


async def test_A016_three_patch_types_and_a_test_operation_that_fails(api, kubectl):
    await api.create(CONFIGMAPS, {"metadata": {"name": "c"}, "data": {"x": "1"}})
    for kind, change in (
        ("strategic", {"data": {"s": "1"}}), ("merge", {"data": {"m": "1"}}),
        ("json", [{"op": "add", "path": "/data/j", "value": "1"}]),
    ):  # fmt: skip
        await kubectl("patch", "configmap", "c", "--type", kind, "-p", json.dumps(change))
    wrong = [{"op": "test", "path": "/data/x", "value": "9"}, {"op": "remove", "path": "/data"}]
    refused = await kubectl(
        "patch", "configmap", "c", "--type", "json", "-p", json.dumps(wrong), fails=True
    )
    assert refused.code == 1
    stored = (await api.call("GET", f"{CONFIGMAPS}/c")).json
    assert stored["data"] == {"x": "1", "s": "1", "m": "1", "j": "1"}


async def test_A017_kubectl_edit_changes_a_pod(api, kubectl, monkeypatch):
    await api.create(PODS, pod("a"))
    monkeypatch.setenv("KUBE_EDITOR", "sed -i s/nginx/other/")
    await kubectl("edit", "pod", "a")
    stored = (await api.call("GET", f"{PODS}/a")).json
    assert stored["spec"]["containers"][0]["image"] == "other"


async def test_A018_labels_and_annotations_change_the_version_not_the_generation(api, kubectl):
    made = await api.create(PODS, pod("a"))
    versions = [made["metadata"]["resourceVersion"]]
    for args in (("label", "pod", "a", "x=y"), ("annotate", "pod", "a", "x=y"),
                 ("annotate", "pod", "a", "x-")):  # fmt: skip
        await kubectl(*args)
        meta = (await api.call("GET", f"{PODS}/a")).json["metadata"]
        versions.append(meta["resourceVersion"])
        assert meta["generation"] == 1
    assert len(set(versions)) == 4
    assert meta["labels"] == {"x": "y"}
    assert "annotations" not in meta


async def waiting(api, kubectl, *args):
    """Start kubectl wait and return once its watch is open."""
    before = len(api.server.context.watches)
    task = asyncio.create_task(kubectl("wait", "--timeout=60s", *args))
    while len(api.server.context.watches) == before and not task.done():
        await asyncio.sleep(0.02)
    return task


@pytest.mark.parametrize("streaming", ["true", "false"])
async def test_A029_wait_sees_a_change_with_and_without_streaming_lists(
    api, kubectl, streaming, monkeypatch
):
    monkeypatch.setenv("KUBE_FEATURE_WatchListClient", streaming)
    await api.create(PODS, pod("a"))
    task = await waiting(api, kubectl, "--for=jsonpath={.status.phase}=Running", "pod/a")
    assert not task.done()
    change = {"status": {"phase": "Running"}}
    await api.call("PATCH", f"{PODS}/a/status", change, headers=MERGE)
    assert (await task).out == "pod/a condition met\n"


async def test_A030_wait_for_creation(api, kubectl):
    if minor_version(find_kubectl()) < 31:
        pytest.skip("kubectl wait --for=create needs kubectl 1.31 or newer")
    creation = asyncio.create_task(kubectl("wait", "--for=create", "pod/a", "--timeout=60s"))
    await api.create(PODS, pod("a"))
    await creation


async def test_A030_wait_for_ready_and_for_deletion(api, kubectl):
    await api.create(PODS, pod("a"))
    ready = await waiting(api, kubectl, "--for=condition=Ready", "pod/a")
    change = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await api.call("PATCH", f"{PODS}/a/status", change, headers=MERGE)
    await ready
    gone = await waiting(api, kubectl, "--for=delete", "pod/a")
    await api.call("DELETE", f"{PODS}/a")
    await gone


async def test_A032_unscheduled_pods_are_deleted_at_once_and_bound_ones_after_the_grace_period(
    api, kubectl
):
    await api.create(PODS, pod("free"))
    await kubectl("delete", "pod", "free")
    assert (await api.call("GET", f"{PODS}/free")).status == 404
    await running(api, "bound", "n1")
    await kubectl("delete", "pod", "bound", "--wait=false")
    await kubectl("delete", "pod", "bound", "--wait=false", "--grace-period=60")
    meta = (await api.call("GET", f"{PODS}/bound")).json["metadata"]
    assert (meta["deletionGracePeriodSeconds"], bool(meta["deletionTimestamp"])) == (30, True)
    await kubectl("delete", "pod", "bound", "--wait=false", "--grace-period=5")
    meta = (await api.call("GET", f"{PODS}/bound")).json["metadata"]
    assert meta["deletionGracePeriodSeconds"] == 5
    await kubectl("delete", "pod", "bound", "--force", "--grace-period=0")
    assert (await api.call("GET", f"{PODS}/bound")).status == 404


@pytest.mark.long
async def test_A039_nodes_are_cordoned_tainted_and_drained_as_budgets_allow(api, kubectl):
    await api.create("/api/v1/nodes", {"metadata": {"name": "n1"}})
    await kubectl("cordon", "n1")
    await kubectl("taint", "node", "n1", "k=v:NoSchedule")
    node = (await api.call("GET", "/api/v1/nodes/n1")).json["spec"]
    assert node["unschedulable"] is True
    assert {"key": "k", "value": "v", "effect": "NoSchedule"} in node["taints"]
    await running(api, "a", "n1", terminationGracePeriodSeconds=0)
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    selector = {"matchLabels": {"app": "x"}}
    await api.create(budgets, {"metadata": {"name": "b"},
                               "spec": {"minAvailable": "100%", "selector": selector}})  # fmt: skip
    full = {"status": {"observedGeneration": 1, "desiredHealthy": 1, "currentHealthy": 1,
                       "expectedPods": 1, "disruptionsAllowed": 0}}  # fmt: skip
    await api.call("PATCH", f"{budgets}/b/status", full, headers=MERGE)
    refused = await kubectl("drain", "n1", "--timeout=3s", fails=True)
    assert refused.code == 1
    assert "Cannot evict pod as it would violate the pod's disruption budget" in refused.err
    assert (await api.call("GET", f"{PODS}/a")).status == 200
    room = {"status": {"disruptionsAllowed": 1}}
    await api.call("PATCH", f"{budgets}/b/status", room, headers=MERGE)
    await kubectl("drain", "n1")
    assert (await api.call("GET", f"{PODS}/a")).status == 404
    await kubectl("uncordon", "n1")


async def test_A042_describe_shows_events_lease_and_allocated_resources(api, kubectl):
    status = {"capacity": {"cpu": "4", "pods": "9"}}
    await api.create("/api/v1/nodes", {"metadata": {"name": "n1"}, "status": status})
    await running(api, "a", "n1")
    made = (await api.call("GET", f"{PODS}/a")).json["metadata"]
    about = {"kind": "Pod", "namespace": "default", "name": "a", "uid": made["uid"]}
    await api.create("/api/v1/namespaces/default/events", {
        "metadata": {"name": "e"}, "involvedObject": about, "reason": "Scheduled",
        "message": "Successfully assigned default/a to n1", "type": "Normal", "count": 1,
        "lastTimestamp": "2026-01-01T00:00:00Z",
    })  # fmt: skip
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    await api.create(leases, {"metadata": {"name": "n1"}, "spec": {
        "holderIdentity": "n1", "renewTime": "2026-01-01T00:00:00.000000Z"}})  # fmt: skip
    shown = (await kubectl("describe", "pod", "a")).out
    assert "Successfully assigned default/a to n1" in shown
    node = (await kubectl("describe", "node", "n1")).out
    assert "HolderIdentity:  n1" in node
    assert "(1 in total)" in node


async def test_A043_explain_works_for_pods_and_a_new_custom_resource(api, kubectl):
    shown = (await kubectl("explain", "pod.spec.containers")).out
    assert "FIELD: containers <[]Container>" in shown
    await api.create(CRDS, definition())
    shown = (await kubectl("explain", "widget.spec")).out
    assert "colour" in shown and "GROUP:      example.com" in shown


async def test_A044_custom_resources_through_kubectl(api, kubectl):
    await api.create(CRDS, definition())
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"},
            "spec": {"size": 3, "nonsense": 1}}  # fmt: skip
    await kubectl("create", "--validate=ignore", "-f", "-", stdin=json.dumps(body))
    shown = (await kubectl("get", "wd")).out.splitlines()
    assert [line.split() for line in shown] == [["NAME", "SIZE"], ["w", "3"]]
    stored = json.loads((await kubectl("get", "widget", "w", "-o", "json")).out)
    assert stored["spec"] == {"size": 3, "colour": "red"}
    body["metadata"]["name"], body["spec"]["size"] = "x", "big"
    refused = await kubectl(
        "create", "--validate=ignore", "-f", "-", stdin=json.dumps(body), fails=True
    )
    assert refused.code == 1
    assert "spec.size" in refused.err
