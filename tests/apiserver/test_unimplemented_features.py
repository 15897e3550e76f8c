"""Kinds and fields without effect cause warnings, and docs/status.md lists them."""

import re
from pathlib import Path

import msgspec
import pytest

from apiserver import every_kind
from holdfast.api import group_scheduling
from holdfast.client.transport import Request
from holdfast.server.inprocess import InProcessTransport
from holdfast.server.kinds import BUILT_IN
from holdfast.server.kinds.custom_resources import (
    KNOWN_CUSTOM_RESOURCES,
    UNIMPLEMENTED_CUSTOM_RESOURCES,
)
from holdfast.server.user import MASTERS, User, component_user
from holdfast.server.verbs.patching import merge_patch

STATUS = Path(__file__).parents[2] / "docs" / "status.md"
MERGE = {"content-type": "application/merge-patch+json"}
DESCRIBED = {
    (descriptor.resource.group, descriptor.resource.plural): descriptor
    for descriptor in (*BUILT_IN, *KNOWN_CUSTOM_RESOURCES.values())
    if not descriptor.deprecation
}
KINDS = {
    where: s.unimplemented.warning for where, s in DESCRIBED.items() if s.unimplemented.warning
}
FIELDS = {where: s.unimplemented.fields for where, s in DESCRIBED.items() if s.unimplemented.fields}
RESOURCES = {(s.resource.api_version, s.resource.kind): s.resource for s in DESCRIBED.values()}
SAMPLES = {
    (resource.group, resource.plural): obj
    for obj in every_kind.objects()
    if (resource := RESOURCES.get((obj["apiVersion"], obj["kind"])))
}
DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")
SAMPLES[DEFINITIONS] = every_kind.WIDGETS
PROBE = {"exec": {"command": ["true"]}}
VALUES = {
    "livenessProbe": PROBE, "readinessProbe": PROBE, "startupProbe": PROBE,
    "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}, "activeDeadlineSeconds": 5,
    "readinessGates": [{"conditionType": "example.com/gate"}], "runtimeClassName": "runc",
    "schedulingGroup": {"podGroupName": "group"},
    "ephemeral": {"volumeClaimTemplate": {"spec": every_kind.VOLUME_CLAIM}},
    "ignorePreviousPod": True,
    "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
    "maxResources": {"cpu": "4"}, "podAnnotations": {"a": "b"}, "podLabels": {"a": "b"},
}  # fmt: skip
ITEMS = {
    "containers": {"name": "c", "image": "nginx"},
    "initContainers": {"name": "init", "image": "nginx", "restartPolicy": "Always"},
    "volumes": {"name": "scratch"},
    "taints": {"key": "example.com/away"},
    "units": {"name": "first"},
}
"""Fields that a list item needs besides the one that is set."""
ACTED_ON = {
    ("", "bindings"): "the API server binds the pod",
    ("", "configmaps"): "data",
    ("", "endpoints"): "data, written by controllers",
    ("", "events"): "data, kept for an hour",
    ("", "namespaces"): "the namespace controller",
    ("", "nodes"): "the scheduler and the simulated nodes",
    ("", "pods"): "the scheduler and the simulated nodes",
    ("", "podtemplates"): "data",
    ("", "resourcequotas"): "admission and the ResourceQuota controller",
    ("", "secrets"): "data",
    ("apps", "controllerrevisions"): "data, written by controllers",
    ("apps", "deployments"): "the Deployment controller",
    ("apps", "replicasets"): "the ReplicaSet controller",
    ("events.k8s.io", "events"): "data, kept for an hour",
    ("authentication.k8s.io", "selfsubjectreviews"): "the API server answers",
    ("authentication.k8s.io", "tokenreviews"): "the API server refuses",
    ("authorization.k8s.io", "localsubjectaccessreviews"): "the API server answers",
    ("authorization.k8s.io", "selfsubjectaccessreviews"): "the API server answers",
    ("authorization.k8s.io", "selfsubjectrulesreviews"): "the API server answers",
    ("authorization.k8s.io", "subjectaccessreviews"): "the API server answers",
    ("policy", "poddisruptionbudgets"): "the disruption controller, evictions and preemption",
    ("rbac.authorization.k8s.io", "clusterrolebindings"): "authorization",
    ("rbac.authorization.k8s.io", "clusterroles"): "authorization",
    ("rbac.authorization.k8s.io", "rolebindings"): "authorization",
    ("rbac.authorization.k8s.io", "roles"): "authorization",
    ("storage.k8s.io", "csidrivers"): "the scheduler",
    ("storage.k8s.io", "csinodes"): "the scheduler",
    ("storage.k8s.io", "csistoragecapacities"): "the scheduler",
    ("apiextensions.k8s.io", "customresourcedefinitions"): "the API server serves the resource",
    ("scheduling.k8s.io", "priorityclasses"): "admission and the scheduler",
    ("coordination.k8s.io", "leases"): "leader election and the heartbeats of nodes",
    ("discovery.k8s.io", "endpointslices"): "data, written by controllers",
    ("core.k8s.io", "podschedulings"): "the scheduler and drivers",
    ("core.k8s.io", "resourceclaims"): "drivers and the scheduler",
    ("core.k8s.io", "resourceclasses"): "drivers and the scheduler",
    ("resource.k8s.io", "deviceclasses"): "the scheduler",
    ("resource.k8s.io", "devicetaintrules"): "the scheduler",
    ("resource.k8s.io", "resourceclaims"): "the scheduler and the claim controllers",
    ("resource.k8s.io", "resourceclaimtemplates"): "the claim controllers",
    ("resource.k8s.io", "resourceslices"): "the scheduler",
}
"""The built-in kinds without a warning, and the component that acts on each."""
ROWS = [(where, field) for where, fields in FIELDS.items() for field in fields]


def collection(where):
    resource = next(r for r in RESOURCES.values() if (r.group, r.plural) == where)
    return resource.path("default" if resource.namespaced else "")


def warnings_of(answer):
    return re.findall(r'299 - "((?:[^"\\]|\\.)*)"', answer.headers.get("warning", ""))


def expected_warning(sentence):
    return f"{sentence} (docs/status.md)"


def setting(path, value):
    """Return the merge patch that sets a value at a path; lists have one item."""
    head, *rest = path
    if not rest:
        return {head.replace("*", "name"): value}
    if rest[0] == "[]":
        return {head: [{**ITEMS[head], **setting(rest[1:], value)}]}
    return {head: setting(rest, value)}


async def create_warnings(api, where, obj):
    """Create an object as a dry run with strict validation; return the warnings."""
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    answer = await api.call("POST", collection(where), obj, **query)
    assert answer.status == 201, answer.body
    return warnings_of(answer)


def test_every_kind_has_an_acting_component_or_a_warning():
    served = {(s.resource.group, s.resource.plural) for s in BUILT_IN}
    assert set(KINDS) | set(ACTED_ON) == served
    assert not set(KINDS) & set(ACTED_ON)
    assert set(FIELDS) <= served | {("scheduling.sigs.x-k8s.io", "resourcepolicies")}


async def test_exactly_the_kinds_without_effect_cause_warnings(api):
    for where, sample in SAMPLES.items():
        expected = [expected_warning(KINDS[where])] if where in KINDS else []
        assert await create_warnings(api, where, sample) == expected, where


async def test_fields_without_effect_cause_warnings(api):
    for where, field in ROWS:
        for value in field.values or (VALUES.get(field.path[-1], "a"),):
            obj = merge_patch(SAMPLES[where], setting(field.path, value))
            assert await create_warnings(api, where, obj) == [expected_warning(field.warning)], (
                field.path
            )


async def test_changes_of_the_spec_cause_warnings_and_changes_of_metadata_or_status_do_not(api):
    jobs = collection(("batch", "jobs"))
    made = await api.call("POST", jobs, SAMPLES["batch", "jobs"])
    assert len(warnings_of(made)) == 1
    for change, count in (
        ({"metadata": {"labels": {"a": "b"}}}, 0), ({"spec": {"parallelism": 2}}, 1),
        ({"spec": {"parallelism": 2}}, 0),
    ):  # fmt: skip
        answer = await api.call("PATCH", f"{jobs}/sample", change, headers=MERGE)
        assert (answer.status, len(warnings_of(answer))) == (200, count)
    status = {"status": {"active": 1}}
    answer = await api.call("PATCH", f"{jobs}/sample/status", status, headers=MERGE)
    assert (answer.status, warnings_of(answer)) == (200, [])
    stored = (await api.call("GET", f"{jobs}/sample")).json
    changed = merge_patch(stored, {"spec": {"parallelism": 3}})
    assert len(warnings_of(await api.call("PUT", f"{jobs}/sample", changed))) == 1


async def test_values_with_effect_cause_no_warnings(api):
    policies = ("scheduling.sigs.x-k8s.io", "resourcepolicies")
    same = {"preemptPolicy": "AfterAllUnits", "matchPolicy": {"ignorePreviousPod": False},
            "whenTryNextUnits": {"policy": "LackResourceOrExceedMax"}}  # fmt: skip
    assert (
        await create_warnings(api, policies, merge_patch(SAMPLES[policies], {"spec": same})) == []
    )
    taint = {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}
    assert await create_warnings(api, ("", "nodes"), merge_patch(SAMPLES["", "nodes"], taint)) == []


async def test_components_of_the_cluster_get_no_warnings(api):
    path, body = collection(("batch", "jobs")), SAMPLES["batch", "jobs"]
    for user, count in (
        (component_user("system:kube-controller-manager", MASTERS), 0),
        (User("system:serviceaccount:default:app", (MASTERS,)), 1),
        (User("ada", (MASTERS,)), 1),
    ):
        request = Request("POST", path, {"dryRun": "All"}, {}, msgspec.json.encode(body))
        answer = await InProcessTransport(api.server, user).send(request)
        assert (answer.status, len(warnings_of(answer))) == (201, count)


@pytest.mark.kubectl
async def test_kubectl_shows_the_warnings(api):
    made = await api.kubectl("create", "job", "j", "--image=busybox")
    assert made.out == "job.batch/j created\n"
    assert made.err == f"Warning: {expected_warning(KINDS['batch', 'jobs'])}\n"
    exposed = await api.kubectl("create", "service", "clusterip", "s", "--tcp=80")
    assert exposed.err == f"Warning: {expected_warning(KINDS['', 'services'])}\n"


def kind_of(where):
    return next(r.kind for r in RESOURCES.values() if (r.group, r.plural) == where)


def expected_rows():
    """Return the table rows that docs/status.md must contain."""
    for where, sentence in KINDS.items():
        yield f"| {kind_of(where)} | {sentence} |"
    for where, (kind, _) in group_scheduling.KINDS.items():
        yield f"| {kind} | {UNIMPLEMENTED_CUSTOM_RESOURCES[where].warning} |"
    by_warning = {}
    for where, field in ROWS:
        by_warning.setdefault(field.warning, {}).setdefault(where, []).append(field)
    for sentence, places in by_warning.items():
        kinds = ", ".join(kind_of(where) for where in places)
        shown = []
        for field in next(iter(places.values())):
            path = ".".join(field.path).replace(".[]", "[]")
            if field.path[0] == "metadata":
                path = f"metadata.{field.path[1]}[{field.path[2]}]"
            values = ": " + ", ".join(field.values) if field.values else ""
            shown.append(f"`{path}{values}`")
        yield f"| {kinds} | {', '.join(shown)} | {sentence} |"


def test_the_status_page_lists_every_kind_and_field_of_the_table():
    text = STATUS.read_text()
    tables = re.findall(r"^\| (?:kind|kinds) \|.*\n\|-.*\n((?:\|.*\n)+)", text, re.M)
    shown = [line for table in tables for line in table.splitlines()]
    expected = list(expected_rows())
    missing = [row for row in expected if row not in shown]
    superfluous = [row for row in shown if row not in expected]
    assert not missing, "docs/status.md lacks:\n" + "\n".join(missing)
    assert not superfluous, "docs/status.md has, but the table has not:\n" + "\n".join(superfluous)


async def events_about(api, where, name, namespace="default"):
    """(type, reason, message) of the events about an object."""
    answer = await api.call("GET", f"/api/v1/namespaces/{namespace}/events")
    return [
        (one["type"], one["reason"], one["message"])
        for one in answer.json["items"]
        if (one["involvedObject"]["kind"], one["involvedObject"]["name"]) == (kind_of(where), name)
    ]


@pytest.mark.parametrize("where", [("batch", "jobs"), ("apps", "statefulsets"),
                                   ("storage.k8s.io", "storageclasses")])  # fmt: skip
async def test_an_object_that_nothing_acts_on_gets_one_event(api, where):
    path, sample = collection(where), SAMPLES[where]
    name = sample["metadata"]["name"]
    assert (await api.call("POST", path, sample, dryRun="All")).status == 201
    assert await events_about(api, where, name) == []
    made = await api.call("POST", path, sample)
    change = {"metadata": {"labels": {"a": "b"}}}
    assert (await api.call("PATCH", f"{path}/{name}", change, headers=MERGE)).status == 200
    expected = ("Warning", "NotImplemented", expected_warning(KINDS[where]))
    assert await events_about(api, where, name) == [expected]
    [event] = (await api.call("GET", "/api/v1/namespaces/default/events")).json["items"]
    assert event["involvedObject"]["uid"] == made.json["metadata"]["uid"]


async def test_objects_that_are_acted_on_and_those_of_components_get_no_event(api):
    assert (
        await api.call("POST", collection(("", "configmaps")), SAMPLES["", "configmaps"])
    ).status == 201
    body = msgspec.json.encode(SAMPLES["batch", "jobs"])
    request = Request("POST", collection(("batch", "jobs")), {}, {}, body)
    manager = component_user("system:kube-controller-manager", MASTERS)
    assert (await InProcessTransport(api.server, manager).send(request)).status == 201
    assert (await api.call("GET", "/api/v1/events")).json["items"] == []


async def test_an_event_that_cannot_be_stored_does_not_fail_the_request(api, caplog):
    """The name of an event is longer than that of its object."""
    where, name = ("storage.k8s.io", "storageclasses"), "x" * 253
    long = SAMPLES[where] | {"metadata": {"name": name}}
    assert (await api.call("POST", collection(where), long)).status == 201
    assert (await api.call("GET", f"{collection(where)}/{name}")).status == 200
    assert "is not stored: " in caplog.text
    assert await events_about(api, where, name) == []


@pytest.mark.parametrize(("where", "kind"), [
    (where, kind) for where, (kind, _) in group_scheduling.KINDS.items()
])  # fmt: skip
async def test_gangs_and_elastic_quotas_of_other_schedulers_get_a_warning_and_an_event(
    api, where, kind
):
    group, plural = where
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
    }  # fmt: skip
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}",
                     "annotations": {"api-approved.kubernetes.io": "https://example.com"}},
        "spec": {"group": group, "scope": "Namespaced", "versions": [version],
                 "names": {"plural": plural, "kind": kind}},
    }  # fmt: skip
    made = await api.call("POST", collection(DEFINITIONS), definition)
    assert made.status == 201, made.body
    obj = {"apiVersion": f"{group}/v1alpha1", "kind": kind, "metadata": {"name": "x"}, "spec": {}}
    path = f"/apis/{group}/v1alpha1/namespaces/default/{plural}"
    answer = await api.call("POST", path, obj)
    sentence = expected_warning(UNIMPLEMENTED_CUSTOM_RESOURCES[where].warning)
    assert (answer.status, warnings_of(answer)) == (201, [sentence])
    events = (await api.call("GET", "/api/v1/namespaces/default/events")).json["items"]
    assert [(e["involvedObject"]["kind"], e["message"]) for e in events] == [(kind, sentence)]


async def test_a_namespace_of_an_elastic_quota_gets_a_warning_and_an_event(api):
    key = "scheduling.volcano.sh/queue-name"
    obj = {"apiVersion": "v1", "kind": "Namespace",
           "metadata": {"name": "team", "annotations": {key: "queue"}}}  # fmt: skip
    answer = await api.call("POST", "/api/v1/namespaces", obj)
    sentence = "scheduling.volcano.sh/* is not read: " + group_scheduling.NO_QUOTAS
    assert warnings_of(answer) == [expected_warning(sentence)]
    expected = ("Warning", "NotImplemented", expected_warning(sentence))
    assert await events_about(api, ("", "namespaces"), "team") == [expected]
    obj["metadata"] = {"name": "plain", "annotations": {"example.com/a": "b"}}
    assert warnings_of(await api.call("POST", "/api/v1/namespaces", obj)) == []
    assert await events_about(api, ("", "namespaces"), "plain") == []
