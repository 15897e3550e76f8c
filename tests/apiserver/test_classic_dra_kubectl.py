"""Classic DRA with the real kubectl: which kind a name means, explain, apply, describe, edit."""

import json

import pytest
import yaml

from apiserver.classic_objects import CLAIMS, PODS, STORY, claim, pod
from apiserver.test_classic_dra_pods import TYPED

pytestmark = pytest.mark.kubectl
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


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
