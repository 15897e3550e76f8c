"""The CRDs that Holdfast ships: identical in deploy/, structural, and as specified."""

from pathlib import Path

import pytest

from holdfast.api import scheme
from holdfast.api.classic_dra.names import (
    MAX_CONSUMERS,
    MAX_ENTRIES,
    MAX_HANDLE_BYTES,
    MAX_NODES,
    OWN_GROUP,
)
from holdfast.api.classic_dra.types import classic_resources
from holdfast.server.schema.structural import StructuralSchema, shipped_crds
from holdfast.server.tables import columns_of

ROOT = Path(__file__).resolve().parents[3]
CRDS = {crd["metadata"]["name"]: crd for crd in shipped_crds()}
RESERVATION = CRDS["reservations.scheduling.koordinator.sh"]
POLICY = CRDS["resourcepolicies.scheduling.sigs.x-k8s.io"]


def version(crd):
    return crd["spec"]["versions"][0]


def schema(crd):
    return StructuralSchema.compile(version(crd)["schema"]["openAPIV3Schema"])


def judged(crd, spec, **more):
    """Return an object as stored, and its violations."""
    compiled = schema(crd)
    pruned, dropped = compiled.prune({"metadata": {"name": "x"}, "spec": spec, **more})
    filled = compiled.default(pruned)
    return filled, [(c.field, c.message) for c in compiled.validate(filled)], dropped


OWNERS = [{"labelSelector": {"matchLabels": {"app": "a"}}}]
TEMPLATE = {"metadata": {"namespace": "ns"}, "spec": {"containers": [{"name": "c", "future": 1}]}}


def test_deploy_contains_the_same_files():
    deployed = {path.name: path.read_bytes() for path in (ROOT / "deploy" / "crds").iterdir()}
    shipped = ROOT / "src" / "holdfast" / "server" / "data" / "crds"
    assert deployed == {path.name: path.read_bytes() for path in shipped.iterdir()}
    assert set(deployed) == {f"{name}.yaml" for name in CRDS}


@pytest.mark.parametrize("name", CRDS)
def test_every_rule_is_valid_and_cheap_enough(name):
    assert schema(CRDS[name]).rule_problems() == []


def test_reservation_columns_are_all_shown_without_wide():
    columns = columns_of(version(RESERVATION))
    assert [c.name for c in columns] == ["Phase", "Age", "Node", "TTL", "Expires"]
    assert {c.priority for c in columns} == {0}
    assert RESERVATION["spec"]["scope"] == "Cluster"
    assert version(RESERVATION)["subresources"] == {"status": {}}


def test_a_minimal_reservation_gets_defaults_and_its_template_is_unchanged():
    stored, wrong, dropped = judged(RESERVATION, {"template": TEMPLATE, "owners": OWNERS})
    assert (wrong, dropped) == ([], [])
    assert stored["spec"] == {
        "template": TEMPLATE, "owners": OWNERS, "ttl": "24h", "allocateOnce": True,
    }  # fmt: skip
    assert "status" not in stored


def test_a_reservation_with_all_fields_is_accepted():
    spec = {
        "template": TEMPLATE,
        "owners": [
            {"object": {"kind": "Pod", "name": "p", "namespace": "n", "uid": "u"}},
            {"controller": {"name": "only-a-name", "namespace": "n"}},
            {"controller": {"uid": "only-a-uid"}},
            {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
        ],
        "ttl": "0",
        "expires": "2030-01-01T00:00:00Z",
        "preAllocation": True,
        "preAllocationPolicy": {},
        "allocateOnce": False,
        "allocatePolicy": "",
        "unschedulable": True,
        "taints": [{"key": "k", "effect": "NoSchedule", "value": "v"}],
    }
    status = {
        "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": None}],
        "currentOwners": [{"namespace": "n", "name": "p", "uid": "u"}],
        "nodeName": "n1",
        "allocatable": {"cpu": 4, "memory": "8Gi", "example.com/x": "1"},
        "allocated": {"cpu": "500m"},
    }
    stored, wrong, dropped = judged(RESERVATION, spec, status=status)
    assert (wrong, dropped) == ([], [])
    assert stored["spec"]["preAllocationPolicy"] == {"mode": "Default", "enableMultiple": False}
    assert stored["status"]["phase"] == "Pending"


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        ({"template": TEMPLATE}, "spec.owners", "Required value"),
        ({"owners": OWNERS}, "spec.template", "Required value"),
        ({"template": TEMPLATE, "owners": []}, "spec.owners", "at least 1 items"),
        ({"template": TEMPLATE, "owners": [{}]}, "spec.owners[0]", "at least 1 properties"),
        (
            {"template": TEMPLATE, "owners": [{"controller": {"kind": "ReplicaSet"}}]},
            "spec.owners[0].controller",
            "Required value",
        ),
        (
            {"template": TEMPLATE, "owners": OWNERS, "allocatePolicy": "Foo"},
            "spec.allocatePolicy",
            'Unsupported value: "Foo": supported values: "", "Aligned", "Restricted"',
        ),
        ({"template": TEMPLATE, "owners": OWNERS, "ttl": "soon"}, "spec.ttl", "should match"),
        ({"template": TEMPLATE, "owners": OWNERS, "expires": "soon"}, "spec.expires", "date-time"),
        (
            {"template": TEMPLATE, "owners": OWNERS, "taints": [{"key": "k"}]},
            "spec.taints[0].effect",
            "Required value",
        ),
        (
            {"template": TEMPLATE, "owners": OWNERS, "preAllocationPolicy": {"mode": "Any"}},
            "spec.preAllocationPolicy.mode",
            "Unsupported value",
        ),
    ],
)
def test_the_error_of_an_invalid_reservation_contains_the_field(spec, field, words):
    _, wrong, _ = judged(RESERVATION, spec)
    assert any(at == field and words in message for at, message in wrong), wrong


def test_policy_columns_and_names():
    names = POLICY["spec"]["names"]
    assert (names["shortNames"], POLICY["spec"]["scope"]) == (["rsp"], "Namespaced")
    shown = [c.name for c in columns_of(version(POLICY)) if not c.priority]
    assert shown == ["Strategy", "Pods", "Headroom", "Age"]


def test_the_example_policy_of_the_proposal_is_accepted():
    selector = {
        "matchExpressions": [{"key": "key1", "operator": "In", "values": ["value1"]}],
        "matchLabels": {"key1": "value1"},
    }
    spec = {
        "matchLabelKeys": ["pod-template-hash"],
        "matchPolicy": {"ignoreTerminatingPod": True},
        "podSelector": selector,
        "strategy": "prefer",
        "units": [
            {"name": "unit1", "priority": 5, "maxCount": 10, "nodeSelector": selector},
            {"name": "unit3", "nodeSelector": {"matchLabels": {"key1": "value3"}}},
        ],
    }
    stored, wrong, dropped = judged(POLICY, spec)
    assert (wrong, dropped) == ([], [])
    assert stored["spec"]["units"][1]["priority"] == 0
    assert judged(POLICY, {"units": [{}]})[0]["spec"]["strategy"] == "required"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({}, "spec.units"),
        ({"units": []}, "spec.units"),
        ({"units": [{}] * 33}, "spec.units"),
        ({"units": [{"priority": -1}]}, "spec.units[0].priority"),
        ({"units": [{"priority": 1000001}]}, "spec.units[0].priority"),
        ({"units": [{"maxCount": -3}]}, "spec.units[0].maxCount"),
        ({"units": [{}], "strategy": "maybe"}, "spec.strategy"),
        ({"units": [{}], "matchLabelKeys": ["a", "a"]}, "spec.matchLabelKeys[1]"),
        ({"units": [{}], "matchLabelKeys": ["not a key"]}, "spec.matchLabelKeys[0]"),
        (
            {
                "units": [{}],
                "podSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]},
            },
            "spec.podSelector.matchExpressions[0].values",
        ),
        (
            {"units": [{"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}]},
            "spec.units[0].nodeSelector.matchExpressions[0].operator",
        ),
    ],
)
def test_the_error_of_an_invalid_policy_contains_the_field(spec, field):
    _, wrong, _ = judged(POLICY, spec)
    assert field in [at for at, _ in wrong], wrong


CLASSIC = classic_resources(OWN_GROUP)


@pytest.mark.parametrize(
    "resource", [CLASSIC.classes, CLASSIC.claims, CLASSIC.pod_scheduling], ids=lambda r: r.plural
)
def test_the_crds_of_classic_dra_are_what_clients_use(resource):
    spec = CRDS[f"{resource.plural}.{resource.group}"]["spec"]
    names, served = spec["names"], spec["versions"][0]
    assert (spec["group"], served["name"]) == (resource.group, resource.version)
    assert (names["kind"], names["plural"]) == (resource.kind, resource.plural)
    assert tuple(names["shortNames"]) == resource.short_names
    assert tuple(names["categories"]) == resource.categories
    assert (spec["scope"] == "Namespaced") == resource.namespaced
    assert tuple(served.get("subresources", ())) == resource.subresources


def test_the_limits_of_classic_dra_are_those_of_its_crds():
    def properties(resource, part):
        raw = CRDS[f"{resource.plural}.{resource.group}"]["spec"]["versions"][0]["schema"]
        return raw["openAPIV3Schema"]["properties"][part]["properties"]

    claim = properties(CLASSIC.claims, "status")
    assert claim["reservedFor"]["maxItems"] == MAX_CONSUMERS
    handle = claim["allocation"]["properties"]["resourceHandle"]
    assert handle["maxLength"] == MAX_HANDLE_BYTES
    assert [rule["rule"] for rule in handle["x-kubernetes-validations"]] == [
        f"size(bytes(self)) <= {MAX_HANDLE_BYTES}"
    ]
    asked = properties(CLASSIC.pod_scheduling, "spec")
    assert asked["potentialNodes"]["maxItems"] == MAX_NODES
    answers = properties(CLASSIC.pod_scheduling, "status")["claims"]
    assert answers["maxItems"] == MAX_ENTRIES
    assert answers["items"]["properties"]["unsuitableNodes"]["maxItems"] == MAX_NODES


TOPOLOGY = CRDS["noderesourcetopologies.topology.node.k8s.io"]
DEVICE = CRDS["devices.scheduling.koordinator.sh"]
JOB = CRDS["podmigrationjobs.scheduling.koordinator.sh"]
POD_REF = {"namespace": "n", "name": "p"}


def gpu(minor, **more):
    return {"type": "gpu", "minor": minor, "health": True, **more}


@pytest.mark.parametrize(
    ("crd", "resource"),
    [
        (TOPOLOGY, scheme.NODE_RESOURCE_TOPOLOGIES),
        (DEVICE, scheme.SHARED_DEVICES),
        (JOB, scheme.POD_MIGRATION_JOBS),
    ],
    ids=lambda one: getattr(one, "plural", ""),
)
def test_the_crds_of_nodes_and_migrations_are_what_clients_use(crd, resource):
    spec, names = crd["spec"], crd["spec"]["names"]
    assert (spec["group"], version(crd)["name"]) == (resource.group, resource.version)
    assert (names["kind"], names["plural"]) == (resource.kind, resource.plural)
    assert (tuple(names.get("shortNames", ())), spec["scope"]) == (resource.short_names, "Cluster")
    assert tuple(version(crd).get("subresources", ())) == resource.subresources


def test_columns_of_a_migration_job():
    assert [c.name for c in columns_of(version(JOB)) if not c.priority] == [
        "Phase", "Status", "Age", "Node", "Reservation", "PodNamespace", "Pod", "NewPod", "TTL",
    ]  # fmt: skip


def test_a_topology_has_its_fields_at_the_top_level():
    cpu = {"name": "cpu", "capacity": 8, "allocatable": "8", "available": "0"}
    zone = {"name": "node-0", "type": "Node", "resources": [cpu], "costs": []}
    sent = {"metadata": {"name": "n"}, "topologyPolicies": ["None"], "zones": [zone]}
    compiled = schema(TOPOLOGY)
    assert compiled.prune(sent) == (sent, [])
    assert compiled.validate(compiled.default(sent)) == []
    zone = {"name": "node-0", "resources": [cpu | {"capacity": "x"}]}
    wrong = {"metadata": {"name": "n"}, "zones": [zone]}
    assert {c.field for c in compiled.validate(wrong)} >= {
        "topologyPolicies", "zones[0].type", "zones[0].resources[0].capacity",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("devices", "field", "words"),
    [
        ([gpu(0), gpu(1), gpu(0) | {"type": "rdma"}], None, ""),
        ([gpu(0, resources={"koordinator.sh/gpu-core": 100, "a/b": "16Gi"})], None, ""),
        ([gpu(1), gpu(1)], "spec.devices", "same type and minor"),
        ([{"health": True}, {"health": True}], None, ""),
        ([gpu(-1)], "spec.devices[0].minor", "greater than or equal to 0"),
        ([gpu(0, resources={"a/b": "-1"})], "spec.devices[0].resources[a/b]", "not be negative"),
        ([gpu(0, resources={"a/b": -1})], "spec.devices[0].resources[a/b]", "not be negative"),
        ([gpu(0, resources={"a/b": "x"})], "spec.devices[0].resources.a/b", "should match"),
        ([gpu(0, topology={"nodeID": 0})], "spec.devices[0].topology.pcieID", "Required value"),
        ([gpu(n) for n in range(257)], "spec.devices", "at most 256 items"),
        ([gpu(0, vfGroups=[{"vfs": [{}]}])], "spec.devices[0].vfGroups[0].vfs[0].minor", "Require"),
    ],
)
def test_devices_are_refused_if_they_would_be_counted_wrong(devices, field, words):
    stored, wrong, dropped = judged(DEVICE, {"devices": devices})
    assert dropped == []
    if field is None:
        assert wrong == []
    else:
        assert any(at == field and words in message for at, message in wrong), wrong
    assert stored["spec"]["devices"][0]["health"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"podRef": POD_REF}, None),
        ({"podRef": POD_REF, "ttl": "5m0s", "mode": "", "paused": False}, None),
        ({}, "spec.podRef"),
        ({"podRef": POD_REF, "ttl": "soon"}, "spec.ttl"),
        ({"podRef": POD_REF, "ttl": "-1s"}, "spec.ttl"),
        ({"podRef": POD_REF, "ttl": 300}, "spec.ttl"),
        ({"podRef": POD_REF, "mode": "Evict"}, "spec.mode"),
        ({"podRef": "n/p"}, "spec.podRef"),
        (
            {"podRef": POD_REF, "deleteOptions": {"gracePeriodSeconds": -1}},
            "spec.deleteOptions.gracePeriodSeconds",
        ),
    ],
)
def test_a_migration_job_that_cannot_be_followed_is_refused(spec, field):
    _, wrong, dropped = judged(JOB, spec)
    assert dropped == []
    assert [at for at, _ in wrong][:1] == ([] if field is None else [field])


def test_the_template_of_a_migration_job_is_free():
    options = {"template": {"spec": {"owners": [], "x": 1}}, "preemptionOptions": {}}
    stored, wrong, dropped = judged(JOB, {"podRef": POD_REF, "reservationOptions": options})
    assert (wrong, dropped) == ([], [])
    assert stored["spec"]["reservationOptions"] == options
