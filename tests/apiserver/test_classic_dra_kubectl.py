"""Classic DRA with the real kubectl: which kind a name means, explain, apply, describe, edit."""

import json
from copy import deepcopy
from pathlib import Path

import pytest
import yaml

from apiserver.classic_objects import CLAIMS, PODS, STORY, TYPED, claim, pod

pytestmark = pytest.mark.kubectl
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "classic-dra.md"
FOLDERS = (ROOT / "examples", ROOT / "src" / "holdfast" / "cli" / "driver")


@pytest.fixture
def kubectl(api):
    async def run(*args, stdin=""):
        answer = await api.kubectl(*args, stdin=stdin)
        assert answer.code == 0, answer.err
        return answer

    return run


def story_pod(name="device-consumer"):
    body = pod({"name": "gpu", "template": STORY}, uses=["gpu"], name=name)
    return {"apiVersion": "v1", "kind": "Pod", **body}


async def test_a_bare_name_means_the_structured_kind(api, kubectl):
    await api.create(CLAIMS, claim("classic"))
    assert (await kubectl("get", "resourceclaims")).err.startswith("No resources found")
    for name in ("cclaim", "resourceclaims.core.k8s.io"):
        shown = (await kubectl("get", name)).out.split()
        head = ["NAME", "STATE", "CLASS", "MODE", "ALLOCATED-BY", "RESERVED-FOR", "AGE"]
        assert shown[:7] == head
        assert shown[7:11] == ["classic", "Pending", "gpu", "WaitForFirstConsumer"]
    assert "resourceclaim.core.k8s.io/classic" in (await kubectl("get", "classic-dra")).out


async def test_explain_knows_the_kinds_and_the_fields_of_pods(kubectl):
    said = (await kubectl("explain", "cclaim.spec.allocationMode")).out
    assert "Immediate" in said
    path = "pod.spec.resourceClaims.claim.template.spec"
    said = (await kubectl("explain", path)).out
    assert "resourceClassName" in said
    assert "resourceClaimTemplateName" in (await kubectl("explain", "pod.spec.resourceClaims")).out


async def test_objects_in_the_version_of_the_stories_are_applied_twice(kubectl):
    body = {"apiVersion": "core.k8s.io/v1", "kind": "ResourceClass", "metadata": {"name": "acme"}}
    for driver, word in (("a.example.com", "created"), ("a.example.com", "unchanged"),
                         ("b.example.com", "configured")):  # fmt: skip
        done = await kubectl("apply", "-f", "-", stdin=json.dumps({**body, "driverName": driver}))
        assert done.out.strip().endswith(word)
        assert "Warning: core.k8s.io/v1 ResourceClass" in done.err


async def test_C084_the_pod_of_the_story_is_applied_described_and_changed(api, kubectl):
    text, versions = json.dumps(story_pod()), set()
    for _ in range(2):
        done = await kubectl("apply", "--validate=strict", "-f", "-", stdin=text)
        assert done.err == ""
        stored = (await api.call("GET", f"{PODS}/device-consumer")).json
        versions.add(stored["metadata"]["resourceVersion"])
    assert len(versions) == 1
    assert "device-consumer" in (await kubectl("describe", "pod", "device-consumer")).out
    await kubectl("set", "image", "pod/device-consumer", "c=other")
    shown = yaml.safe_load((await kubectl("get", "pod", "device-consumer", "-o", "yaml")).out)
    assert shown["spec"]["resourceClaims"] == [TYPED]
    assert shown["spec"]["containers"][0]["image"] == "other"


async def test_C084_a_deployment_keeps_its_claims_when_typed_commands_change_it(api, kubectl):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": story_pod()["spec"]}
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    await kubectl("apply", "-f", "-", stdin=json.dumps(body))
    await kubectl("set", "image", "deployment/d", "c=other")
    spec["replicas"] = 1
    assert "configured" in (await kubectl("apply", "-f", "-", stdin=json.dumps(body))).out
    stored = (await api.call("GET", f"{DEPLOYMENTS}/d")).json["spec"]
    assert stored["replicas"] == 1
    assert stored["template"]["spec"]["resourceClaims"] == [TYPED]


def claims_of(workload):
    return workload["spec"]["template"]["spec"].get("resourceClaims", [])


def workloads_of_the_examples():
    """Return the workloads with classic claims in their templates, of examples and scaffolds."""
    files = [path for folder in FOLDERS for path in folder.rglob("*.yaml*")]
    objects = [
        obj
        for path in sorted(files)
        for obj in yaml.safe_load_all(path.read_text().replace("@", ""))
        if obj["kind"] in ("Deployment", "DaemonSet", "StatefulSet", "ReplicaSet", "Job")
    ]
    return [one for one in objects if any({"claim", "template"} & {*c} for c in claims_of(one))]


@pytest.mark.parametrize("body", workloads_of_the_examples(), ids=lambda b: b["metadata"]["name"])
async def test_a_workload_of_the_examples_is_applied_changed_and_applied_again(api, kubectl, body):
    """kubectl computes its patch with the published schema, which has the typed form only."""
    changed = deepcopy(body)
    for entry in claims_of(changed):
        entry["claim"]["template"]["spec"] = {"resourceClassName": "other"}
    for sent, word in ((body, "created"), (changed, "configured"), (changed, "unchanged"),
                       (body, "configured"), (body, "unchanged")):  # fmt: skip
        done = await kubectl("apply", "--validate=strict", "-f", "-", stdin=json.dumps(sent))
        assert (done.out.strip().rpartition(" ")[2], done.err) == (word, "")
        path = f"{DEPLOYMENTS}/{body['metadata']['name']}"
        assert claims_of((await api.call("GET", path)).json) == claims_of(sent)


async def test_the_story_form_in_a_template_cannot_be_changed_by_apply(api, kubectl, monkeypatch):
    """The limit that the page names, with its two ways out."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": story_pod()["spec"]}
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    await kubectl("apply", "-f", "-", stdin=json.dumps(body))
    message = 'unable to find api field in struct PodResourceClaim for the json field "{}"'
    other = {**STORY, "resourceClassName": "other"}
    story, typed = deepcopy(body), deepcopy(body)
    story["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "gpu", "template": other}]
    typed_entry = {"name": "gpu", "claim": {"template": {"spec": other}}}
    typed["spec"]["template"]["spec"]["resourceClaims"] = [typed_entry]
    refused = await api.kubectl("apply", "-f", "-", stdin=json.dumps(story))
    assert (refused.code, message.format("template") in refused.err) == (1, True)
    assert message.format("template") in PAGE.read_text()
    await kubectl("replace", "-f", "-", stdin=json.dumps(story))
    assert claims_of((await api.call("GET", f"{DEPLOYMENTS}/d")).json) == [typed_entry]
    typed_entry["claim"]["template"]["spec"] = STORY
    await kubectl("apply", "-f", "-", stdin=json.dumps(typed))
    assert claims_of((await api.call("GET", f"{DEPLOYMENTS}/d")).json) == [TYPED]
    monkeypatch.setenv("KUBE_EDITOR", "sed -i s/acme-gpu/edited/")
    edited = await api.kubectl("edit", "deployment", "d")
    assert (edited.code, message.format("claim") in edited.err) == (1, True)
