"""``holdfast explain --snapshot``: accepted files, output and exit codes."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from holdfast.api.classic_dra.claims import classic_entries
from holdfast.api.decode import convert_object
from holdfast.api.defaults import default_object
from holdfast.api.pod import Pod
from holdfast.cli.app import app
from holdfast.cli.objects import Manifest, read_object
from holdfast.cli.snapshot import snapshot_from_objects
from holdfast.runtime.errors import BadRequest
from holdfast.state.columns.interner import ResourceNames
from holdfast.state.columns.pod_info import PodInfo
from holdfast.testing import a_claim, a_device_class, a_node, a_pod, a_slice, typed

NODES = [a_node("a", cpu="4"), a_node("b", cpu="4", taints=[{"key": "k", "effect": "NoSchedule"}])]
POD = a_pod("p", cpu="3")


@pytest.fixture
def explain(tmp_path):
    def run(text, *arguments, pod="default/p"):
        path = tmp_path / "snapshot"
        path.write_text(text)
        command = ["explain", "--snapshot", str(path), "--pod", pod, *arguments]
        return CliRunner().invoke(app, command)

    return run


def listing(*objects):
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


FORMS = {
    "a YAML list": yaml.safe_dump(listing(*NODES, POD)),
    "YAML documents": yaml.safe_dump_all([*NODES, POD]),
    "a JSON list": json.dumps(listing(*NODES, POD), indent=1),
    "JSON documents": "\n".join(json.dumps(o, indent=1) for o in (*NODES, POD)),
    "JSON lines": "".join(json.dumps(o) + "\n" for o in (*NODES, POD)),
    "lists of kinds": "---\n".join(
        yaml.safe_dump(each)
        for each in (
            {"apiVersion": "v1", "kind": "NodeList", "items": NODES},
            {"apiVersion": "v1", "kind": "PodList", "items": [POD]},
            {"apiVersion": "v1", "kind": "ServiceList", "items": None},
        )
    ),
    "JSON in YAML documents": "---\n".join(json.dumps(o) + "\n" for o in (*NODES, POD)),
}


@pytest.mark.parametrize("form", FORMS)
def test_lists_yaml_and_json_documents_are_read(explain, form):
    done = explain(FORMS[form], "-o", "json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["best"] == ["a"]
    assert [n["name"] for n in answer["nodes"]] == ["a", "b"]


def test_a_snapshot_can_be_read_from_standard_input():
    text = FORMS["YAML documents"]
    command = ["explain", "--snapshot", "-", "--pod", "p", "-o", "json"]
    done = CliRunner().invoke(app, command, input=text)
    assert json.loads(done.stdout)["best"] == ["a"]


def test_the_text_has_the_message_the_reasons_and_the_best_nodes(explain):
    fits = explain(FORMS["a YAML list"]).stdout.splitlines()
    assert fits[0] == "default/p: fits on a"
    assert fits[1].strip() == "1  node(s) had untolerated taint(s)  [TaintToleration]: b"
    assert fits[2].startswith("  best: a, ") and "TaintToleration 300" in fits[2]
    full = yaml.safe_dump_all([*NODES, a_pod("v", cpu="3", node="a"), {**POD, "spec": {
        **POD["spec"], "priority": 9}}])  # fmt: skip
    refused = explain(full, "--preempt").stdout
    assert refused.startswith(
        "default/p: 0/2 nodes are available: "
        "1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
    )
    assert refused.endswith("preemption would make a feasible by evicting default/v\n")


def missing_limits():
    return a_pod("p", cpu=None, limits={"cpu": "3"})


def on_host_network():
    ports = [{"name": "main", "ports": [{"containerPort": 80}]}]
    return a_pod("p", host_network=True, containers=ports)


def capacity_alone():
    node = a_node("a", cpu="4")
    del node["status"]["allocatable"]
    return node


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([NODES[0], a_pod("s", cpu="2", node="a"), missing_limits()], "Insufficient cpu"),
        ([NODES[0], {**on_host_network(), "metadata": {"name": "s"}, "spec": {
            **on_host_network()["spec"], "nodeName": "a"}}, on_host_network()],
         "node(s) didn't have free ports for the requested pod ports"),
        ([capacity_alone(), a_pod("p", cpu="5")], "Insufficient cpu"),
    ],
)  # fmt: skip
def test_defaults_of_the_api_server_are_set(explain, objects, reason):
    done = explain(yaml.safe_dump_all(objects), "-o", "json")
    assert json.loads(done.stdout)["message"] == f"0/1 nodes are available: 1 {reason}."


def read_slowly(raw):
    copy = json.loads(json.dumps(raw))
    default_object(copy)
    return convert_object(copy, Pod)


CONTAINER = {"name": "main", "image": "i"}
SHAPES = [
    {"containers": [CONTAINER]},
    {"containers": [{**CONTAINER, "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]},
    {"containers": [{**CONTAINER, "resources": {
        "limits": {"cpu": "1"}, "requests": {"cpu": "500m", "memory": "0.5"}}}]},
    {"containers": [CONTAINER], "initContainers": [
        {**CONTAINER, "resources": {"limits": {"example.com/gpu": 2}}}]},
    {"containers": [{**CONTAINER, "ports": [{"containerPort": 80}]}], "hostNetwork": True},
    {"containers": [{**CONTAINER, "ports": [{"hostPort": 80, "protocol": None}]}]},
    {"containers": [CONTAINER], "resources": {"limits": {"cpu": "2"}}, "overhead": {"cpu": "0.1m"}},
    {"containers": None, "tolerations": None, "affinity": None},
]  # fmt: skip


@pytest.mark.parametrize("spec", SHAPES, ids=range(len(SHAPES)))
def test_direct_decoding_equals_decoding_after_defaulting(spec):
    raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": "u"}, "spec": spec}
    raw["metadata"]["namespace"] = "default"
    fast = read_object(Manifest("document 1", json.dumps(raw).encode()))
    names = ResourceNames()
    mine, its = (PodInfo.of(pod, names) for pod in (fast, read_slowly(raw)))
    assert mine.is_equivalent_to(its)
    assert mine.scheduler_name == its.scheduler_name


def test_C012_a_pod_in_the_form_of_the_story_is_read_as_the_api_server_stores_it():
    entry = {"name": "gpu", "template": {"resourceClassName": "acme"}}
    spec = {"containers": [{**CONTAINER, "resources": {"claims": ["gpu"]}}]}
    raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    raw["spec"] = {**spec, "resourceClaims": [entry]}
    (found,) = classic_entries(read_object(Manifest("document 1", json.dumps(raw).encode())))
    assert (found.claim_name, found.containers) == ("p-gpu", ("main",))


def test_the_default_namespace_is_set_and_may_be_left_out(explain):
    bare = {**POD, "metadata": {"name": "p"}}
    done = explain(yaml.safe_dump_all([*NODES, bare]), pod="p")
    assert done.stdout.startswith("default/p: fits on a")


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1beta2"])
def test_devices_of_every_version_are_read(explain, version):
    selector = [{"cel": {"expression": 'device.attributes["gpu.example.com"].size == 1'}}]
    wanted, fields = {"deviceClassName": "gpu", "selectors": selector}, {"size": {"int": 1}}
    device, request = {"attributes": fields}, {"exactly": wanted}
    if version == "v1beta1":
        device, request = {"basic": device}, wanted
    claims = [{"name": "dev", "resourceClaimName": "c"}]
    objects = [
        a_device_class("gpu"),
        a_slice("s", node="a", devices=[{"name": "gpu-0", **device}]),
        a_claim("c", requests=[{"name": "r", **request}]),
    ]
    for obj in objects:
        obj["apiVersion"] = f"resource.k8s.io/{version}"
    pod = a_pod("p", cpu="1", resource_claims=claims)
    done = explain(yaml.safe_dump_all([*NODES, *objects, pod]))
    assert done.stdout.startswith("default/p: fits on a"), done.stdout + done.stderr


def changed(obj, path, value):
    """Return a copy of an object with one field set."""
    copy = json.loads(json.dumps(obj))
    *way, last = path
    where = copy
    for step in way:
        where = where[step] if isinstance(step, int) else where.setdefault(step, {})
    where[last] = value
    return copy


CPU = ("spec", "containers", 0, "resources", "requests", "cpu")
BAD = {
    "an amount of the pod": (
        changed(POD, CPU, "much"),
        "document 3 (Pod default/p): spec.containers[0].resources.requests.cpu: quantities must",
    ),
    "an amount of a node": (
        changed(NODES[0], ("status", "allocatable", "cpu"), "1x"),
        "document 1 (Node a): status.allocatable.cpu: quantities must",
    ),
    "a type": (
        changed(POD, ("spec", "priority"), "high"),
        "document 3 (Pod default/p): spec.priority: Expected `int | null`, got `str`",
    ),
    "a label": (
        changed(NODES[0], ("metadata", "labels", "n"), 3),
        "document 1 (Node a): metadata.labels[...]: Expected `str`, got `int`",
    ),
    "no name": (
        changed(NODES[0], ("metadata", "name"), ""),
        "document 1 (Node): metadata.name: Required value",
    ),
    "no kind": (changed(NODES[0], ("kind",), ""), "document 1: kind: Required value"),
    "a kind that is none": (
        changed(NODES[0], ("kind",), 7), "document 1: kind: Expected `str`, got `int`",
    ),
    "no version": (changed(POD, ("apiVersion",), ""), "document 3: apiVersion: Required value"),
    "an unsupported version": (
        changed(a_slice(), ("apiVersion",), "resource.k8s.io/v1alpha3"),
        "document 3 (ResourceSlice): apiVersion: resource.k8s.io/v1alpha3 is not supported, only "
        "resource.k8s.io/v1 is",
    ),
    "not an object": ("text", "document 3: object: Expected `object`, got `str`"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_an_invalid_object_exits_with_2_and_names_document_and_field(explain, case):
    bad, words = BAD[case]
    first = words.startswith("document 1")
    done = explain(yaml.safe_dump_all([bad, NODES[1], POD] if first else [*NODES, bad]))
    assert done.exit_code == 2
    assert words in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [("a: [", "neither YAML nor JSON"), ('{"a": ', "neither YAML nor JSON"),
     (yaml.safe_dump_all(NODES), 'pod "default/p" is not among the objects')],
)  # fmt: skip
def test_an_invalid_file_or_request_exits_with_2(explain, text, words):
    done = explain(text)
    assert done.exit_code == 2
    assert words in done.stderr


def test_a_missing_file_is_reported(tmp_path):
    command = ["explain", "--snapshot", str(tmp_path / "none"), "--pod", "p"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 2
    assert "No such file" in done.stderr


@pytest.mark.parametrize(
    "arguments", [[], ["--pod", "p"], ["--batch", "--pod", "p"], ["--snapshot", "x", "-o", "xml"]]
)
def test_conflicting_or_missing_flags_are_usage_errors(arguments):
    assert CliRunner().invoke(app, ["explain", *arguments]).exit_code == 2


def test_the_time_of_the_decision_can_be_set(explain):
    text = FORMS["a JSON list"]
    assert explain(text, "--now", "2026-01-01T00:00:00Z").exit_code == 0
    done = explain(text, "--now", "noon")
    assert done.exit_code == 2
    assert 'now: "noon" is not an RFC 3339 time' in done.stderr


def test_the_last_of_two_versions_of_an_object_counts(explain):
    small = a_node("a", cpu="1")
    done = explain(yaml.safe_dump_all([small, NODES[0], POD]), "-o", "json")
    assert json.loads(done.stdout)["best"] == ["a"]


def test_an_invalid_object_of_a_live_cluster_is_ignored_with_a_warning(caplog):
    odd = typed(a_node("odd", allocatable={"cpu": "many"}))
    found = snapshot_from_objects([typed(NODES[0]), odd, typed(POD)], "default/p")
    assert list(found.world.nodes.row_of) == ["a"]
    assert "Node odd: quantities must match" in caplog.text
    with pytest.raises(BadRequest, match="quantities must match"):
        snapshot_from_objects([typed(a_pod("p", cpu="many"))], "default/p")
