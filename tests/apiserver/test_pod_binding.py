import asyncio

import pytest

from apiserver.sample_objects import PODS, binding, pod

MERGE = {"content-type": "application/merge-patch+json"}


async def bind(api, body, name="a"):
    return await api.call("POST", f"{PODS}/{name}/binding", body)


async def test_A038_binding_sets_the_node_and_the_condition_once(api):
    made = await api.create(PODS, pod("a"))
    nominate = {"status": {"nominatedNodeName": "n9"}}
    await api.call("PATCH", f"{PODS}/a/status", nominate, headers=MERGE)
    uid = made["metadata"]["uid"]
    answer = await bind(
        api, binding("a", "n1", uid=uid, annotations={"x": "1"}, labels={"zone": "z"})
    )
    assert answer.status == 201
    assert answer.body == (
        b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}\n'
    )
    bound = (await api.call("GET", f"{PODS}/a")).json
    assert bound["spec"]["nodeName"] == "n1"
    assert "nominatedNodeName" not in bound["status"]
    assert bound["metadata"]["annotations"] == {"x": "1"}
    assert bound["metadata"]["labels"] == {"zone": "z"}
    assert bound["metadata"]["generation"] == made["metadata"]["generation"]
    condition = bound["status"]["conditions"][0]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    again = await bind(api, binding("a", "n2"))
    assert again.status == 409
    assert again.json["message"] == (
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"'
    )


async def test_A038_a_gated_pod_cannot_be_bound(api):
    await api.create(PODS, pod("a", schedulingGates=[{"name": "g"}]))
    answer = await bind(api, binding("a", "n1"))
    assert answer.status == 409
    assert answer.json["message"].endswith("pod a has non-empty .spec.schedulingGates")


async def test_a_pod_under_deletion_cannot_be_bound(api):
    body = pod("a")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await api.create(PODS, body)
    await api.call("DELETE", f"{PODS}/a")
    answer = await bind(api, binding("a", "n1"))
    assert answer.status == 409
    assert "pod a is being deleted, cannot be assigned to a host" in answer.json["message"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (binding("b", "n1"), 400),
        (binding("a", ""), 422),
        ({**binding("a", "n1"), "target": {"kind": "Pod", "name": "n1"}}, 422),
        (binding("a", "n1", uid="other"), 409),
        (binding("a", "n1", resourceVersion="1"), 409),
    ],
)
async def test_an_invalid_binding_is_rejected(api, body, status):
    await api.create(PODS, pod("a"))
    answer = await bind(api, body)
    assert answer.status == status, answer.body
    assert "nodeName" not in (await api.call("GET", f"{PODS}/a")).json["spec"]


async def test_of_concurrent_bindings_one_succeeds(api):
    await api.create(PODS, pod("a"))
    answers = await asyncio.gather(*(bind(api, binding("a", f"n{i}")) for i in range(20)))
    assert sorted(a.status for a in answers) == [201] + [409] * 19


async def test_a_binding_can_be_posted_to_the_collection(api):
    await api.create(PODS, pod("a"))
    path = "/api/v1/namespaces/default/bindings"
    assert (await api.call("POST", path, binding("a", "n1"))).status == 201
    assert (await api.call("GET", f"{PODS}/a")).json["spec"]["nodeName"] == "n1"


async def test_a_dry_run_binds_nothing(api):
    await api.create(PODS, pod("a"))
    answer = await api.call("POST", f"{PODS}/a/binding", binding("a", "n1"), dryRun="All")
    assert answer.status == 201
    assert "nodeName" not in (await api.call("GET", f"{PODS}/a")).json["spec"]
