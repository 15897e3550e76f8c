"""Feature gates: the flag, what the server serves, and what the scheduler does."""

import io
import json

import pytest
from typer.testing import CliRunner

from apiserver.server_fixture import start_server
from holdfast.cli.app import app
from holdfast.cli.explain import explain_lines
from holdfast.cli.snapshot import built_in_profiles, snapshot_from_objects
from holdfast.runtime.errors import Refused
from holdfast.runtime.feature_gates import GATES, Feature, FeatureGates
from holdfast.state.devices.features import Features
from holdfast.testing import (
    a_claim,
    a_device_class,
    a_node,
    a_pod,
    a_slice,
    a_taint_rule,
    typed,
)

OFF = FeatureGates({"DynamicResourceAllocation": False})
GROUP = "/apis/resource.k8s.io"
PODS = "/api/v1/namespaces/default/pods"
MERGE = {"content-type": "application/merge-patch+json"}


def pod(name):
    claims = [{"name": "gpu", "resourceClaimName": "c"}]
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"containers": [container], "resourceClaims": claims}
    return {"metadata": {"name": name}, "spec": spec}


WORKLOADS = {
    "/apis/apps/v1/namespaces/default/deployments": ("spec",),
    "/api/v1/namespaces/default/replicationcontrollers": ("spec",),
    "/apis/batch/v1/namespaces/default/cronjobs": ("spec", "jobTemplate", "spec"),
    "/api/v1/namespaces/default/podtemplates": (),
}
"""Kinds with pod templates, and the fields that contain the template."""


def workload(holder, path):
    labels = {"app": "w"}
    body = {"template": {"metadata": {"labels": labels}, "spec": pod("w")["spec"]}}
    if path.endswith("deployments"):
        body["selector"] = {"matchLabels": labels}
    if path.endswith("cronjobs"):
        body["template"]["spec"]["restartPolicy"] = "Never"
    for key in reversed(holder):
        body = {key: body}
    if path.endswith("cronjobs"):
        body["spec"]["schedule"] = "@daily"
    return {"metadata": {"name": "w"}, **body}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DRABogus=true", "unrecognized feature gate: DRABogus"),
        ("GenericWorkload=true", "unrecognized feature gate: GenericWorkload"),
        ("DRADeviceTaints", "missing bool value for DRADeviceTaints"),
        ("DRADeviceTaints=yes", "invalid value of DRADeviceTaints=yes"),
        (
            "DRAAdminAccess=false",
            "cannot set feature gate DRAAdminAccess to false, feature is locked to true",
        ),
        (
            "DRADeviceTaintRules=true,DRADeviceTaints=false",
            "DRADeviceTaintRules is enabled, but depends on features that are disabled: "
            "[DRADeviceTaints]",
        ),
        (
            "DRANodeAllocatableResources=true",
            "cannot set feature gate DRANodeAllocatableResources to true, feature is locked to "
            "false",
        ),
        ("=true", "unrecognized feature gate: "),
    ],
)
def test_a_wrong_gate_is_named(text, message):
    with pytest.raises(Refused, match=r"--feature-gates: ") as refused:
        FeatureGates.parse(text)
    assert message in str(refused.value)
    for command in ("up", "apiserver", "scheduler"):
        said = CliRunner().invoke(app, [command, "--feature-gates", text])
        assert isinstance(said.exception, Refused) or message in said.output, said


def test_gates_have_upstreams_defaults():
    on = {feature for feature in Feature if FeatureGates().enabled(feature)}
    assert set(Feature) - on == {
        Feature.DEVICE_TAINT_RULES,
        Feature.LIST_ATTRIBUTES,
        Feature.NODE_ALLOCATABLE_RESOURCES,
        Feature.POD_DEVICE_RESOURCE,
    }
    assert set(GATES) == set(Feature)
    assert not any(OFF.enabled(f) for f in Feature if f is not Feature.DEVICE_STATUS)


def test_gates_of_a_stage_are_set_together():
    gates = FeatureGates.parse(" AllAlpha=true , AllBeta=false,DRADeviceTaints=1,")
    assert gates.enabled(Feature.LIST_ATTRIBUTES)
    assert not gates.enabled(Feature.EXTENDED_RESOURCE)
    assert gates.enabled(Feature.DEVICE_TAINTS)
    assert gates.enabled(Feature.PRIORITIZED_LIST)
    assert not gates.enabled(Feature.NODE_ALLOCATABLE_RESOURCES)
    assert FeatureGates.parse(str(gates)) == gates
    assert FeatureGates.parse("") == FeatureGates()


def test_the_features_of_the_allocator_follow_the_gates():
    assert Features.of(FeatureGates()) == Features()
    assert not Features.of(FeatureGates.parse("DRAConsumableCapacity=false")).consumable_capacity


async def test_D089_without_the_gate_the_group_is_not_served_and_new_pods_lose_claims(tmp_path):
    claim = {
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "k"}}]}},
    }
    async with start_server(tmp_path) as api:
        await api.create(f"{GROUP}/v1/namespaces/default/resourceclaims", claim)
        await api.create(PODS, pod("old"))
    async with start_server(tmp_path, feature_gates=OFF) as api:
        assert (await api.call("GET", f"{GROUP}/v1")).status == 404
        assert (await api.call("GET", f"{GROUP}/v1/resourceslices")).status == 404
        assert "resource.k8s.io" not in (await api.call("GET", "/apis")).body.decode()
        made = await api.create(PODS, pod("new"))
        assert "resourceClaims" not in made["spec"]
        assert "claims" not in made["spec"]["containers"][0]["resources"]
        for path, holder in WORKLOADS.items():
            template = await api.create(path, workload(holder, path))
            for key in (*holder, "template", "spec"):
                template = template[key]
            assert "resourceClaims" not in template
            assert "claims" not in template["containers"][0]["resources"]
        # What is stored is kept by an update.
        label = {"metadata": {"labels": {"a": "b"}}}
        kept = await api.call("PATCH", f"{PODS}/old", label, headers=MERGE)
        assert kept.json["spec"]["resourceClaims"] == pod("old")["spec"]["resourceClaims"]
        assert kept.json["spec"]["containers"][0]["resources"]["claims"] == [{"name": "gpu"}]
    async with start_server(tmp_path) as api:
        found = await api.call("GET", f"{GROUP}/v1/namespaces/default/resourceclaims/c")
        assert found.status == 200
        assert "resourceClaims" in (await api.create(PODS, pod("third")))["spec"]


async def test_D089_the_extended_resource_name_is_dropped_on_create_and_kept_on_update(tmp_path):
    def device_class(name):
        return {"metadata": {"name": name}, "spec": {"extendedResourceName": "example.com/gpu"}}

    path = f"{GROUP}/v1/deviceclasses"
    async with start_server(tmp_path) as api:
        await api.create(path, device_class("old"))
    gates = FeatureGates.parse("DRAExtendedResource=false")
    async with start_server(tmp_path, feature_gates=gates) as api:
        assert (await api.create(path, device_class("new")))["spec"] == {}
        changed = {"spec": {"extendedResourceName": "example.com/other"}}
        kept = await api.call("PATCH", f"{path}/old", changed, headers=MERGE)
        assert kept.json["spec"] == changed["spec"]
        again = await api.call("PATCH", f"{path}/new", changed, headers=MERGE)
        assert again.json["spec"] == {}


async def test_fields_of_features_that_are_off_are_dropped(tmp_path):
    gates = FeatureGates.parse("AllBeta=false,DRAPrioritizedList=false")
    wanted = {"deviceClassName": "k", "allocationMode": "ExactCount", "count": 1}
    tolerations = [{"operator": "Exists"}]
    requests = [
        {
            "name": "a",
            "exactly": {
                **wanted,
                "tolerations": tolerations,
                "capacity": {"requests": {"memory": "1Gi"}},
            },
        },
    ]
    device = {
        "name": "d",
        "taints": [{"key": "k", "effect": "NoSchedule"}],
        "bindsToNode": True,
        "attributes": {"a": {"string": "x"}},
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": "1Gi", "requestPolicy": {"default": "1Gi"}}},
        "consumesCounters": [{"counterSet": "s", "counters": {"m": {"value": "1"}}}],
    }
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "pool": pool, "nodeName": "n", "devices": [device]}
    async with start_server(tmp_path, feature_gates=gates) as api:
        path = f"{GROUP}/v1/namespaces/default/resourceclaimtemplates"
        body = {"metadata": {"name": "t"}, "spec": {"spec": {"devices": {"requests": requests}}}}
        made = await api.create(path, body)
        shown = made["spec"]["spec"]["devices"]["requests"]
        assert shown == [{"name": "a", "exactly": wanted}]
        slices = {"metadata": {"name": "s"}, "spec": spec}
        made = await api.create(f"{GROUP}/v1/resourceslices", slices)
        assert made["spec"]["devices"] == [
            {
                "name": "d",
                "attributes": {"a": {"string": "x"}},
                "capacity": {"memory": {"value": "1Gi"}},
            }
        ]


LIMITED = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {"pluginConfig": [{"name": "DynamicResources", "args": {"filterTimeout": "1ns"}}]}
    ],
}


@pytest.mark.parametrize(
    ("gates", "config", "schedulable"),
    [
        ("", None, True),
        ("DRADeviceTaintRules=true", None, False),
        ("DRADeviceTaintRules=true,DynamicResourceAllocation=false", None, None),
        ("", LIMITED, False),
        ("DRASchedulerFilterTimeout=false", LIMITED, True),
        ("DRADeviceTaintRules=true,DRASchedulerFilterTimeout=false", LIMITED, False),
    ],
)
def test_explanations_follow_the_gates(gates, config, schedulable):
    objects = [
        a_node("n"),
        a_device_class("gpu"),
        a_slice("s", node="n", devices=2),
        a_claim("c", constraints=[{"matchAttribute": "gpu.example.com/x"}], count=1),
        a_taint_rule(driver="gpu.example.com"),
        a_pod("p", resource_claims=[{"name": "c", "resourceClaimName": "c"}]),
    ]
    objects[2]["spec"]["devices"][0]["attributes"] = {"x": {"int": 1}}
    line = {"objects": objects, "pod": "default/p", "config": config, "featureGates": gates}
    out = io.BytesIO()
    explain_lines([json.dumps(line).encode()], out)
    answer = json.loads(out.getvalue())
    assert answer.get("schedulable") == schedulable, answer


def test_explanations_without_devices_ignore_claims():
    waiting = typed(a_pod("p", resource_claims=[{"name": "c", "resourceClaimName": "none"}]))
    objects = [typed(a_node("n1")), waiting]

    def schedulable(*gates):
        snapshot = snapshot_from_objects(objects, "default/p", *gates)
        return snapshot.explain(built_in_profiles(), 0.0)["schedulable"]

    assert (schedulable(), schedulable(OFF)) == (False, True)
