"""The webhook gives pods their shadows, refuses wrong annotations, and changes nothing else."""

import base64
import json

import pytest

from holdfast.api.classic_dra.names import POD_CLAIMS
from holdfast.runtime.errors import BadRequest
from holdfast.state.classic_dra.admission_review import Result, answer_review, pod_patch

ENTRY = {"name": "gpu", "claim": {"resourceClaimName": "mine"}, "containers": ["a"]}
NAME_OF = "{}-new".format


def a_pod(text, **spec):
    containers = [{"name": "a", "resources": {"limits": {"cpu": "1"}}}, {"name": "b"}]
    meta = {"generateName": "web-", "annotations": {"other": "x", POD_CLAIMS: text}}
    return {"metadata": meta, "spec": {"containers": containers, **spec}}


def a_review(pod, operation="CREATE", kind="Pod", **more):
    request = {"uid": "r1", "kind": {"group": "", "version": "v1", "kind": kind},
               "operation": operation, "object": pod, "dryRun": True, **more}  # fmt: skip
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(body).encode()


def test_shadows_are_added_once():
    pod = a_pod(json.dumps([ENTRY]))
    result, answer = answer_review(a_review(pod), NAME_OF)
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response = answer["response"]
    assert (result, response["uid"], response["allowed"]) == (Result.PATCHED, "r1", True)
    assert response["patchType"] == "JSONPatch"
    patch = json.loads(base64.b64decode(response["patch"]))
    resources = {"limits": {"cpu": "1"}, "claims": [{"name": "gpu"}]}
    claims = [{"name": "gpu", "resourceClaimName": "gpu-new"}]
    assert patch == [
        {"op": "add", "path": "/spec/resourceClaims", "value": claims},
        {"op": "add", "path": "/spec/containers/0/resources", "value": resources},
    ]
    pod["spec"]["resourceClaims"] = claims
    pod["spec"]["containers"][0]["resources"] = resources
    assert answer_review(a_review(pod), "other-{}".format)[0] is Result.UNCHANGED


def test_the_annotation_may_have_the_form_of_the_stories():
    entry = {"name": "gpu", "template": {"resourceClassName": "acme"}}
    first, *_ = pod_patch(a_pod(json.dumps([entry])), NAME_OF)
    assert first["path"] == "/metadata/annotations/dra.holdfast.dev~1resource-claims"
    template = {"spec": {"resourceClassName": "acme"}}
    assert json.loads(first["value"]) == [{"name": "gpu", "claim": {"template": template}}]


@pytest.mark.parametrize(
    ("before", "patched"), [({}, True), ({"schedulerName": "default-scheduler"}, True),
                            ({"schedulerName": "mine"}, False)],
)  # fmt: skip
def test_only_the_default_scheduler_is_replaced(before, patched):
    patch = pod_patch(a_pod(json.dumps([ENTRY]), **before), NAME_OF, "holdfast")
    added = {"op": "add", "path": "/spec/schedulerName", "value": "holdfast"}
    assert (added in patch) is patched


@pytest.mark.parametrize(
    "review",
    [
        a_review({"metadata": {}, "spec": {}}),
        a_review({}),
        a_review(None),
        a_review(a_pod("broken"), "UPDATE"),
        a_review(a_pod("broken"), kind="Binding"),
        a_review(a_pod("broken"), subResource="status"),
    ],
)
def test_what_does_not_concern_it_is_allowed(review):
    result, answer = answer_review(review, NAME_OF)
    assert result is Result.UNCHANGED
    assert answer["response"] == {"uid": "r1", "allowed": True}


@pytest.mark.parametrize(
    ("text", "spec", "message"),
    [
        ("", {}, "not the JSON of a list"),
        ("{}", {}, "not the JSON of a list"),
        ("[" * 5000, {}, "not the JSON of a list"),
        ("[1]", {}, "[0]: Expected `object`"),
        (json.dumps([{**ENTRY, "name": "Gpu"}]), {}, "[0].name: Invalid value"),
        (json.dumps([{**ENTRY, "containers": ["c"]}]), {}, "[0].containers[0]: Not found"),
        (json.dumps([ENTRY, ENTRY]), {}, "[1].name: Duplicate value"),
        (json.dumps([{**ENTRY, "name": f"g{i}"} for i in range(33)]), {}, "Too many: 33"),
        (json.dumps([{"name": "gpu"}]), {}, "[0].claim: Invalid value"),
        (json.dumps([ENTRY]),
         {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]},
         "spec.resourceClaims[0].resourceClaimName: Required value"),
    ],
)  # fmt: skip
def test_a_wrong_annotation_is_refused_with_its_field(text, spec, message):
    result, answer = answer_review(a_review(a_pod(text, **spec)), NAME_OF)
    assert result is Result.REFUSED
    response = answer["response"]
    assert (response["allowed"], response["status"]["code"]) == (False, 422)
    assert message in response["status"]["message"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[]", b'{"apiVersion": "v1", "kind": "Pod", "request": {"uid": "x"}}',
     b'{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": '
     b'{"uid": "x"}}', a_review([1]), b"[" * 100_000],
)  # fmt: skip
def test_what_is_no_review_raises(body):
    with pytest.raises(BadRequest):
        answer_review(body, NAME_OF)
