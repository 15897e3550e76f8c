"""Manifests of the KEP become those of a real cluster, or an error names the field."""

import json

import pytest

from holdfast.api.classic_dra.claims import classic_entries
from holdfast.api.classic_dra.names import POD_CLAIMS
from holdfast.api.classic_dra.shadows import missing_shadow, shadow_names
from holdfast.api.decode import convert_object
from holdfast.api.pod import Pod
from holdfast.cli.classic_dra.convert_command import convert_manifest
from holdfast.runtime.errors import BadRequest

STORY = {"name": "gpu", "template": {"resourceClassName": "acme"}}
TYPED = {"name": "gpu", "claim": {"template": {"spec": {"resourceClassName": "acme"}}}}


def pod_spec(*entries, claims=("gpu",)):
    return {
        "initContainers": [{"name": "init", "resources": {"claims": [{"name": "gpu"}]}}],
        "containers": [
            {"name": "a", "resources": {"claims": list(claims), "limits": {"cpu": "1"}}},
            {"name": "b"},
        ],
        "resourceClaims": list(entries),
    }


def a_pod(*entries, **more):
    meta = {"name": "web", "namespace": "default", "uid": "u"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod_spec(*entries, **more)}


def annotation(obj):
    return json.loads(obj["metadata"]["annotations"][POD_CLAIMS])


@pytest.mark.parametrize("entry", [STORY, TYPED])
def test_a_pod_gets_the_annotation_and_its_shadows(entry):
    found = convert_manifest(a_pod(entry, {"name": "other", "source": {"resourceClaimName": "c"}}))
    assert found.needs_webhook == []
    assert annotation(found.obj) == [{**TYPED, "containers": ["init", "a"]}]
    spec = found.obj["spec"]
    assert spec["resourceClaims"] == [
        {"name": "other", "resourceClaimName": "c"},
        {"name": "gpu", "resourceClaimName": "web-gpu-shadow"},
    ]
    assert spec["containers"][0]["resources"] == {
        "claims": [{"name": "gpu"}],
        "limits": {"cpu": "1"},
    }
    assert "schedulerName" not in spec
    assert convert_manifest(found.obj).obj == found.obj

    pod = convert_object(found.obj, Pod)
    [read] = classic_entries(pod)
    assert (read.name, read.claim_name, read.containers) == ("gpu", "web-gpu", ("init", "a"))
    assert shadow_names(pod) == {"gpu": "web-gpu-shadow"}
    assert [entry.name for entry in pod.structured_claims] == ["other"]
    assert missing_shadow(pod, classic_entries(pod)) == ""


@pytest.mark.parametrize(
    "path",
    [
        "template",
        "spec.template",
        "spec.jobTemplate.spec.template",
        "spec.replicatedJobs.0.template",
    ],
)
def test_templates_of_every_kind_need_the_webhook(path):
    obj = {"metadata": {"labels": {"app": "x"}}, "spec": pod_spec(STORY)}
    keys = path.split(".")
    for key in reversed(keys):
        obj = [obj] if key == "0" else {key: obj}
    found = convert_manifest({"apiVersion": "x/v1", "kind": "X", **obj}, "holdfast")
    assert found.needs_webhook == [path.replace(".0", "[0]")]
    template = found.obj
    for key in keys:
        template = template[0 if key == "0" else key]
    assert annotation(template) == [{**TYPED, "containers": ["init", "a"]}]
    assert template["metadata"]["labels"] == {"app": "x"}
    assert template["spec"] == {
        "initContainers": [{"name": "init"}],
        "containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}}}, {"name": "b"}],
        "schedulerName": "holdfast",
    }


def test_a_pod_without_a_name_needs_the_webhook():
    pod = a_pod(STORY)
    pod["metadata"] = {"generateName": "web-"}
    found = convert_manifest(pod)
    assert found.needs_webhook == ["metadata.generateName"]
    assert "resourceClaims" not in found.obj["spec"]


def test_objects_of_the_kep_change_their_group():
    for kind, version in (("ResourceClass", "v1"), ("ResourceClaim", "v1alpha1")):
        obj = {"apiVersion": f"core.k8s.io/{version}", "kind": kind, "spec": {"x": 1}}
        converted = convert_manifest(obj).obj
        assert converted == {**obj, "apiVersion": "dra.holdfast.dev/v1alpha1"}
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "rules": [{"apiGroups": ["", "core.k8s.io"], "resources": ["x"], "verbs": ["get"]}],
    }
    assert convert_manifest(role).obj["rules"][0]["apiGroups"] == ["", "dra.holdfast.dev"]
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"resourceclaims": 2}}}
    assert convert_manifest(quota).obj["spec"]["hard"] == {
        "count/resourceclaims.dra.holdfast.dev": 2
    }


@pytest.mark.parametrize(
    "obj",
    [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod_spec()},
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {"spec": "containers"}},
        {"apiVersion": "v1", "kind": "Pod", "spec": None, "metadata": None},
        {},
    ],
)
def test_other_objects_stay_as_they_are(obj):
    text = json.dumps(obj)
    assert json.dumps(convert_manifest(obj, "holdfast").obj) == text.replace(
        '["gpu"]', '[{"name": "gpu"}]'
    )


@pytest.mark.parametrize(
    ("entries", "claims", "message"),
    [
        ([{"name": "gpu", "claim": {}}], ["gpu"], "spec.resourceClaims[0].claim: Invalid value"),
        ([{"name": "gpu", "claim": {"resourceClaimName": 5}}], ["gpu"],
         "spec.resourceClaims[0].claim.resourceClaimName: Expected `str"),
        ([{"name": "gpu", "claim": "mine"}], ["gpu"], "spec.resourceClaims[0].claim: Expected"),
        (["gpu"], ["gpu"], "spec.resourceClaims[0]: Expected `object`"),
        ([TYPED], [5], "spec.containers[0].resources.claims[0]: Expected `object"),
        ([STORY, STORY], ["gpu"], "spec.resourceClaims[1].name: Duplicate value"),
        ([STORY], ["gpu", "card"], "spec.containers[0].resources.claims[1]: Not found"),
        ([{"name": "gpu", "claim": {"template": {"metadata": {"name": "x"}, "spec": {}}}}],
         ["gpu"], "spec.resourceClaims[0].claim.template.metadata.name: Forbidden"),
    ],
)  # fmt: skip
def test_errors_name_the_field(entries, claims, message):
    with pytest.raises(BadRequest) as error:
        convert_manifest(a_pod(*entries, claims=claims))
    assert message in str(error.value)


def test_what_cannot_be_converted_is_an_error():
    quota = {"hard": {"gold.resourceclass.node.k8s.io/resourceclaims": 2}}
    both = a_pod(TYPED)
    both["metadata"] = {**both["metadata"], "annotations": {POD_CLAIMS: "[]"}}
    long = a_pod(TYPED)
    long["metadata"] = {"name": "p" * 250}
    deep = {"kind": "X"}
    for _ in range(200):
        deep = {"x": deep}
    wrong = {"apiVersion": "v1", "kind": "Pod"}
    template = {"spec": {"template": {"metadata": [1], "spec": pod_spec(TYPED)}}}
    for obj, message in (
        ({**wrong, "metadata": ["x"]}, "metadata: Expected `object`"),
        ({**wrong, "spec": 5}, "spec: Expected `object`"),
        ({**wrong, "spec": {"resourceClaims": {}}}, "spec.resourceClaims: Expected `array"),
        ({**wrong, "spec": {"containers": [{"resources": 5}]}}, "spec.containers[0].resources: "),
        (template, "spec.template.metadata: Expected `object`"),
        ({"apiVersion": "v1", "kind": "ResourceQuota", "spec": quota}, "spec.hard[gold."),
        (both, f"metadata.annotations[{POD_CLAIMS}]: the classic claims are in"),
        (long, "metadata.name: Invalid value"),
        (deep, "nested more than 100 levels"),
    ):
        with pytest.raises(BadRequest) as error:
            convert_manifest(obj)
        assert message in str(error.value)
