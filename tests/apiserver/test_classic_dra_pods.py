"""The KEP's pod fields: every form is stored as the typed one, in pods and in pod templates."""

import pytest
import pytest_asyncio

from apiserver.classic_objects import PODS, STORY, TYPED, pod
from apiserver.data.protobuf_fields import field, framed
from apiserver.server_fixture import start_server
from holdfast.api.classic_dra.claims import classic_entries
from holdfast.api.decode import convert_object
from holdfast.api.pod import Pod
from holdfast.client.classic_group import find_classic_group
from holdfast.client.client import Client
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.server.data import load
from holdfast.server.inprocess import InProcessTransport

pytestmark = pytest.mark.asyncio(loop_scope="module")
NAMED = {"name": "gpu", "claim": {"resourceClaimName": "mine"}}
MERGE = {"content-type": "application/merge-patch+json"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
WORKLOADS = {
    "Deployment": "/apis/apps/v1/namespaces/default/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/default/replicasets",
    "StatefulSet": "/apis/apps/v1/namespaces/default/statefulsets",
    "DaemonSet": "/apis/apps/v1/namespaces/default/daemonsets",
    "Job": "/apis/batch/v1/namespaces/default/jobs",
    "ReplicationController": "/api/v1/namespaces/default/replicationcontrollers",
}
CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"
POD_TEMPLATES = "/api/v1/namespaces/default/podtemplates"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(tmp_path_factory):
    async with start_server(tmp_path_factory.mktemp("pods")) as running:
        yield running


async def judged(api, body, **query):
    """Return status and warnings of a dry run, and what is stored or the paths of the errors."""
    answer = await api.call("POST", PODS, body, dryRun="All", **query)
    if answer.status == 422:
        return 422, {cause["field"] for cause in answer.json["details"]["causes"]}
    assert "warning" not in answer.headers
    return answer.status, answer.json["spec"]


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        pytest.param({"name": "gpu", "template": STORY}, TYPED, id="story"),
        pytest.param({"name": "gpu", "template": {"spec": STORY}}, TYPED, id="template"),
        pytest.param({"name": "gpu", "claim": {"template": STORY}}, TYPED, id="claim"),
        pytest.param(TYPED, TYPED, id="typed"),
        pytest.param(NAMED, NAMED, id="named"),
        pytest.param(
            {"name": "gpu", "resourceClaimName": "mine"},
            {"name": "gpu", "resourceClaimName": "mine"},
            id="structured",
        ),
        pytest.param(
            {"name": "gpu", "source": {"resourceClaimTemplateName": "t"}},
            {"name": "gpu", "resourceClaimTemplateName": "t"},
            id="structured of 1.26",
        ),
    ],
)
async def test_C012_every_form_is_accepted_and_stored_in_the_typed_form(api, given, stored):
    for uses in (["gpu"], [{"name": "gpu"}]):
        code, spec = await judged(api, pod(given, uses=uses), fieldValidation="Strict")
        assert code == 201
        assert spec["resourceClaims"] == [stored]
        assert spec["containers"][0]["resources"]["claims"] == [{"name": "gpu"}]
        typed = convert_object({"metadata": {"name": "p"}, "spec": spec}, Pod)
        assert len(classic_entries(typed)) == ("claim" in stored)


LABELS = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": STORY}


WRONG = [
    pytest.param(
        [{**NAMED, "name": f"c{i}"} for i in range(33)], [], "spec.resourceClaims", id="C009"
    ),
    pytest.param(
        [NAMED], ["other"], "spec.containers[0].resources.claims[0]", id="C010 undeclared"
    ),
    pytest.param([NAMED], ["gpu", "gpu"], "spec.containers[0].resources.claims[1]", id="twice"),
    pytest.param([NAMED], [{"name": "gpu", "request": "r"}],
                 "spec.containers[0].resources.claims[0].request", id="request"),
    pytest.param([{"name": "gpu", "claim": {"resourceClaimName": "a", "template": STORY}}], [],
                 "spec.resourceClaims[0].claim", id="C011 both"),
    pytest.param([{"name": "gpu", "claim": {}}], [], "spec.resourceClaims[0].claim",
                 id="C011 neither"),
    pytest.param([{"name": "gpu", "claim": {"future": 1}}], [], "spec.resourceClaims[0].claim",
                 id="C011 unknown only"),
    pytest.param([{**NAMED, "resourceClaimName": "a"}], [], "spec.resourceClaims[0]",
                 id="C011 classic and structured"),
    pytest.param([{**NAMED, "template": STORY}], [], "spec.resourceClaims[0].claim",
                 id="C011 name and story"),
    pytest.param([{"name": "gpu"}], [], "spec.resourceClaims[0]", id="C011 no source"),
    pytest.param([NAMED, NAMED], [], "spec.resourceClaims[1].name", id="same name"),
    pytest.param([{**NAMED, "name": "a.b"}], [], "spec.resourceClaims[0].name", id="no label"),
    pytest.param([{"name": "gpu", "template": {"metadata": {"name": "n"}, "spec": STORY}}], [],
                 "spec.resourceClaims[0].claim.template.metadata.name", id="C014"),
    pytest.param([{"name": "gpu", "template": {"metadata": {"labels": {"a b": ""}}}}], [],
                 "spec.resourceClaims[0].claim.template.metadata.labels", id="label"),
    pytest.param([{"name": "gpu", "template": {"spec": {}}}], [],
                 "spec.resourceClaims[0].claim.template.spec.resourceClassName", id="no class"),
    pytest.param([{"name": "gpu", "template": {**STORY, "allocationMode": "Later"}}], [],
                 "spec.resourceClaims[0].claim.template.spec.allocationMode", id="mode"),
    pytest.param([{"name": "gpu", "template": {**STORY, "parametersRef": {"kind": "K"}}}], [],
                 "spec.resourceClaims[0].claim.template.spec.parametersRef.name", id="no name"),
    pytest.param([{"name": "gpu", "claim": {"resourceClaimName": "A_b"}}], [],
                 "spec.resourceClaims[0].claim.resourceClaimName", id="claim name"),
]  # fmt: skip


def wrong(number=""):
    """Decorate a test with the wrong entries that show a scenario; without a number, the others."""
    chosen = [
        case for case in WRONG if (case.id.startswith(number) if number else case.id[0] != "C")
    ]
    return pytest.mark.parametrize(("entries", "uses", "field"), chosen)


async def check_refused(api, entries, uses, field):
    code, found = await judged(api, pod(*entries, uses=uses))
    assert (code, field in found) == (422, True), found


@wrong()
async def test_other_wrong_claims_are_refused_with_their_path(api, entries, uses, field):
    await check_refused(api, entries, uses, field)


@wrong("C009")
async def test_C009_a_pod_has_at_most_32_claims(api, entries, uses, field):
    await check_refused(api, entries, uses, field)


@wrong("C010")
async def test_C010_a_container_uses_only_claims_of_its_pod(api, entries, uses, field):
    await check_refused(api, entries, uses, field)


@wrong("C011")
async def test_C011_an_entry_has_exactly_one_source(api, entries, uses, field):
    await check_refused(api, entries, uses, field)


@wrong("C014")
async def test_C014_a_template_has_no_name(api, entries, uses, field):
    await check_refused(api, entries, uses, field)


async def test_a_pod_may_mix_32_classic_with_structured_claims(api):
    classic = [{**NAMED, "name": f"c{i}"} for i in range(32)]
    code, spec = await judged(api, pod(*classic, {"name": "s", "resourceClaimName": "x"}))
    assert (code, len(spec["resourceClaims"])) == (201, 33)
    code, spec = await judged(api, pod({"name": "gpu", "template": LABELS}))
    assert spec["resourceClaims"][0]["claim"]["template"] == LABELS


async def test_C013_pod_and_entry_name_must_make_the_name_of_a_claim(api):
    long = "p" * 250
    assert (await judged(api, pod(TYPED, name="p" * 249)))[0] == 201
    assert await judged(api, pod(TYPED, name=long)) == (422, {"spec.resourceClaims[0].name"})
    assert (await judged(api, pod(NAMED, name=long)))[0] == 201
    body = pod({**TYPED, "name": "n" * 63})
    body["metadata"] = {"generateName": "p" * 250}  # the server cuts it
    assert (await judged(api, body))[0] == 201


@pytest.mark.parametrize(
    "wrong",
    [
        {"resourceClaims": [{"name": "gpu", "claim": "mine"}]},
        {"resourceClaims": [{"name": "gpu", "template": ["x"]}]},
        {"resourceClaims": [{"name": "gpu", "claim": {"template": {"spec": 7}}}]},
        {"resourceClaims": [{"name": 7, "template": STORY}]},
        {"resourceClaims": ["gpu"]},
        {"resourceClaims": {"name": "gpu"}},
        {"containers": [{"name": "c", "image": "i", "resources": {"claims": [["gpu"]]}}]},
        {"containers": [{"name": "c", "image": "i", "resources": {"claims": "gpu"}}]},
        {"containers": [{"name": "c", "image": "i", "resources": ["gpu"]}]},
    ],
)
async def test_fields_of_wrong_types_are_refused(api, wrong):
    body = pod()
    answer = await api.call("POST", PODS, {**body, "spec": {**body["spec"], **wrong}})
    assert answer.status in (400, 422)
    deep: dict = {}
    for _ in range(150):
        deep = {"template": deep}
    answer = await api.call("POST", PODS, pod({"name": "gpu", "template": deep}))
    assert answer.status in (400, 422)


async def test_unknown_fields_of_a_claim_are_named(api):
    body = pod({"name": "gpu", "claim": {"template": {"spec": {**STORY, "future": 1}}}})
    answer = await api.call("POST", PODS, body, dryRun="All", fieldValidation="Warn")
    at = 'unknown field \\"spec.resourceClaims[0].claim.template.spec.future\\"'
    assert (answer.status, at in answer.headers["warning"]) == (201, True)
    answer = await api.call("POST", PODS, body, fieldValidation="Strict")
    assert answer.status == 400


@pytest.mark.parametrize("kind", [*WORKLOADS, "CronJob", "PodTemplate"])
async def test_C012_pod_templates_store_the_typed_form_and_keep_it(api, kind):
    """A typed client reads entries without ``claim`` and writes them back."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod(
        {"name": "gpu", "template": STORY}, uses=["gpu"])["spec"]}  # fmt: skip
    template["spec"]["restartPolicy"] = "Never" if kind in ("Job", "CronJob") else "Always"
    spec = {"template": template}
    path, at = WORKLOADS.get(kind, CRON_JOBS), ("spec", "template", "spec")
    if kind == "CronJob":
        spec = {"schedule": "* * * * *", "jobTemplate": {"spec": spec}}
        at = ("spec", "jobTemplate", "spec", "template", "spec")
    elif kind not in ("Job", "PodTemplate"):
        labels = {"a": "b"}
        spec["selector"] = labels if kind == "ReplicationController" else {"matchLabels": labels}
    body = {"metadata": {"name": "w"}, "spec": spec}
    if kind == "PodTemplate":
        path, at = POD_TEMPLATES, ("template", "spec")
        body = {"metadata": {"name": "w"}, "template": template}
    made = await api.create(path, body)

    def inner(obj):
        for key in at:
            obj = obj[key]
        return obj

    assert inner(made)["resourceClaims"] == [TYPED]
    assert inner(made)["containers"][0]["resources"]["claims"] == [{"name": "gpu"}]
    inner(made)["resourceClaims"] = [{"name": "gpu"}]
    made["metadata"]["labels"] = {"changed": "true"}
    answer = await api.call("PUT", f"{path}/w", made)
    assert (answer.status, inner(answer.json)["resourceClaims"]) == (200, [TYPED])
    wrong = inner_patch(at, {"resourceClaims": [{"name": "gpu", "claim": {"template": {}}}]})
    answer = await api.call("PATCH", f"{path}/w", wrong, headers=MERGE)
    field = ".".join((*at, "resourceClaims[0].claim.template.spec.resourceClassName"))
    assert (answer.status, answer.json["details"]["causes"][0]["field"]) == (422, field)
    patch = inner_patch(at, {"resourceClaims": [{"name": "gpu", "claim": {"template": STORY}}]})
    answer = await api.call("PATCH", f"{path}/w", patch, headers=STRATEGIC)
    assert (answer.status, inner(answer.json)["resourceClaims"]) == (200, [TYPED])


def inner_patch(at, value):
    for key in reversed(at):
        value = {key: value}
    return value


async def test_C012_the_claims_of_a_pod_cannot_change_but_a_typed_client_may_write_it(api):
    body = pod({"name": "gpu", "template": STORY}, uses=["gpu"], name="stored")
    made = await api.create(PODS, body)
    assert made["spec"]["resourceClaims"] == [TYPED]
    for entries, code in (
        ([{"name": "gpu"}], 200),
        ([{"name": "gpu", "template": STORY}], 200),
        ([NAMED], 422),
        ([], 422),
        ([{"name": "other"}], 422),
    ):
        body = {**made, "spec": {**made["spec"], "resourceClaims": entries}}
        body["metadata"] = {**made["metadata"], "labels": {"n": str(len(entries))}}
        del body["metadata"]["resourceVersion"]
        answer = await api.call("PUT", f"{PODS}/stored", body)
        assert answer.status == code, entries
        if code == 200:
            assert answer.json["spec"]["resourceClaims"] == [TYPED]


def protobuf(message, value):
    """Encode an object as Go does, by the table with which the server decodes."""
    if isinstance(value, str):
        return value.encode()
    out = b""
    for number, name, kind, flags in load("protobuf")["messages"][message]:
        for item in value.get(name, ()) if flags & 1 else [value[name]] if name in value else ():
            if flags & 2:
                for key, text in item.items():
                    out += field(number, field(1, key.encode()) + field(2, text.encode()))
            elif kind == "int":
                out += bytes([number << 3, item])
            elif kind == "string" or isinstance(item, dict):
                out += field(number, protobuf(kind, item))
    return out


async def test_C012_a_typed_client_that_sends_protobuf_removes_no_claim(api):
    template = {"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}],
                         "resourceClaims": [{"name": "gpu", "template": STORY}]}}  # fmt: skip
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    path = WORKLOADS["Deployment"]
    await api.create(path, {"metadata": {"name": "proto"}, "spec": spec})
    template["spec"]["resourceClaims"] = [{"name": "gpu"}]
    sent = {"metadata": {"name": "proto"}, "spec": {**spec, "replicas": 3}}
    body = framed("apps/v1", "Deployment", protobuf("k8s.io.api.apps.v1.Deployment", sent))
    headers = {"content-type": "application/vnd.kubernetes.protobuf"}
    answer = await api.call("PUT", f"{path}/proto", body, headers=headers)
    assert (answer.status, answer.json["spec"]["replicas"]) == (200, 3)
    assert answer.json["spec"]["template"]["spec"]["resourceClaims"] == [TYPED]


async def test_C078_without_the_gate_new_pods_lose_their_claims_and_old_ones_keep_them(
    tmp_path_factory,
):
    directory = tmp_path_factory.mktemp("gate")
    async with start_server(directory) as api:
        before = await api.create(PODS, pod(TYPED, uses=["gpu"], name="before"))
    off = FeatureGates.parse("DynamicResourceAllocation=false")
    async with start_server(directory, feature_gates=off) as api:
        groups = [group["name"] for group in (await api.call("GET", "/apis")).json["groups"]]
        assert "core.k8s.io" not in groups
        # Inventories of drivers are served in the group of the CRDs; claims are not.
        assert "dra.holdfast.dev" in groups
        assert await find_classic_group(Client(InProcessTransport(api.server))) == ""
        answer = await api.call("GET", "/apis/core.k8s.io/v1alpha1/resourceclasses")
        assert answer.status == 404
        new = await api.create(PODS, pod(TYPED, uses=["gpu"], name="new"))
        assert "resourceClaims" not in new["spec"]
        assert "claims" not in new["spec"]["containers"][0]["resources"]
        before["metadata"]["labels"] = {"a": "b"}
        before["spec"]["resourceClaims"] = [{"name": "gpu"}]
        answer = await api.call("PUT", f"{PODS}/before", before)
        assert answer.json["spec"]["resourceClaims"] == [TYPED]
    async with start_server(directory) as api:
        assert await find_classic_group(Client(InProcessTransport(api.server))) == "core.k8s.io"
        assert (await api.call("GET", "/apis/core.k8s.io/v1alpha1/resourceclasses")).status == 200
        await api.create(PODS, pod(TYPED, uses=["gpu"], name="again"))
