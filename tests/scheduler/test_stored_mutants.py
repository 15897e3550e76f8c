"""Stored objects of any shape do not keep the scheduler from placing other pods.

Every kind that the scheduler reads is stored with each of its fields removed, null or of a wrong
type, as an older server may have left it.
Of the wrong values each field gets two, the next field the ones after.
"""

from __future__ import annotations

import copy

import msgspec
import pytest

from apiserver.direct_store import store_directly
from apiserver.mutants import mutants
from holdfast.api import scheme
from holdfast.server.store import ObjectKey
from holdfast.testing import (
    a_claim,
    a_device_class,
    a_node,
    a_pod,
    a_reservation,
    a_resource_policy,
    a_slice,
    a_unit,
)
from holdfast.testing import storage_builders as storage
from holdfast.testing.builders import an_object, resource_of
from holdfast.testing.device_builders import a_device
from holdfast.testing.harness import Harness
from soak_size import some_of

WRONG = (None, "x", -7, [], {}, [None], {"x": []})
SELECTOR = {"matchLabels": {"app": "m"}}
TERM = {"labelSelector": SELECTOR, "topologyKey": "zone"}
TERMS = {"nodeSelectorTerms": [{"matchExpressions": [
    {"key": "zone", "operator": "In", "values": ["a"]}]}]}  # fmt: skip
ALLOCATION = {"devices": {"results": [
    {"request": "req-0", "driver": "gpu.example.com", "pool": "sound", "device": "gpu-0"}]},
    "nodeSelector": TERMS}  # fmt: skip
RUNNING = a_pod(
    "m", cpu="1", memory="1Gi", node="sound", labels={"app": "m"},
    claims=[{"name": "c", "resourceClaimName": "m"}], volumes=storage.mounting("m"),
    tolerations=[{"key": "k", "operator": "Exists"}], priority=5,
    overhead={"cpu": "1m"}, node_selector={"zone": "a"},
    affinity={
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": TERMS},
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": TERM}]},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]},
    },
    topology_spread_constraints=[{**TERM, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
)  # fmt: skip
PENDING = copy.deepcopy(RUNNING)
del PENDING["spec"]["nodeName"]
FULL = {
    "running pods": RUNNING,
    "pending pods": PENDING,
    "nodes": a_node("m", labels={"zone": "a"}, taints=[{"key": "k", "effect": "NoSchedule"}]),
    "reservations": a_reservation("m", owners=[{"labelSelector": SELECTOR}]) | {
        "status": {"phase": "Available", "nodeName": "sound", "allocatable": {"cpu": "1"},
                   "allocated": {"cpu": "1"},
                   "currentOwners": [{"name": "p", "namespace": "default", "uid": "z"}]}},
    "pending reservations": a_reservation("m", owners=[{"labelSelector": SELECTOR}]),
    "resource policies": a_resource_policy("m", units=[
        a_unit("a", 2, max_count=1, max_resources={"cpu": "1", "example.com/gpu": 1},
               pod_labels={"unit": "a"}, pod_annotations={"unit": "a"}), a_unit("b", 1)],
        match_label_keys=["k"], match_policy={"ignoreTerminatingPod": True,
                                              "ignorePreviousPod": True},
        when_try_next_units="TimeoutOrExceedMax", timeout="1m", strategy="prefer",
        preempt_policy="BeforeNextUnit") | {"status": {
            "observedGeneration": 1, "usage": "a 1/1", "headroom": "0", "units": [
                {"name": "a", "nodes": 1, "pods": 1, "maxCount": 1, "resources": {"cpu": "1"},
                 "groups": [{"labels": {"k": "v"}, "pods": 1}]}],
            "conditions": [{"type": "Ready", "status": "True"}]}},
    "device classes": a_device_class("m", extended_resource_name="example.com/gpu"),
    "slices": a_slice("m", node="sound", pool="m", devices=[
        a_device("gpu-0", attributes={"model": "a"}, capacity={"memory": "1Gi"},
                 taints=[{"key": "k", "effect": "NoSchedule"}],
                 consumesCounters=[{"counterSet": "s", "counters": {"c": {"value": "1"}}}])]),
    "claims": a_claim("m", selectors=["true"], status={
        "allocation": ALLOCATION,
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "z"}]}),
    "volumes": storage.a_volume("m", nodes={"zone": "a"}),
    "volume claims": storage.a_volume_claim("m", volume="m"),
    "storage classes": storage.a_storage_class("m"),
    "csi nodes": storage.a_csi_node("m", disk_example_com=2),
    "services": an_object(scheme.SERVICES, "m", {"selector": {"app": "m"}}, namespace="default"),
    "disruption budgets": an_object(
        scheme.DISRUPTION_BUDGETS, "m", {"minAvailable": 1, "selector": SELECTOR},
        namespace="default") | {"status": {"disruptionsAllowed": 1}},
}  # fmt: skip


def stored_mutants(full):
    resource = resource_of(full)
    for number, (_, made) in some_of(enumerate(mutants(full, WRONG, each=2)), 3):
        if resource == scheme.RESOURCE_CLAIMS:
            made = with_a_device_of_its_own(made, f"gpu-m{number}")
        meta = made.get("metadata")
        if isinstance(meta, dict) and meta.get("name") == "m":
            meta["name"] = f"m{number}"
        space = "kube-system" if resource.namespaced else ""
        yield ObjectKey(resource.group, resource.plural, space, f"m{number}"), made


def with_a_device_of_its_own(claim, device):
    return msgspec.json.decode(msgspec.json.encode(claim).replace(b"gpu-0", device.encode()))


@pytest.mark.long
@pytest.mark.parametrize("full", FULL.values(), ids=FULL)
async def test_the_scheduler_schedules_pods_beside_stored_mutants(tmp_path, full):
    async with Harness(tmp_path) as cluster:
        sound = a_node("sound", cpu="10000", memory="10Ti", pods="10000", labels={"only": "sound"})
        await cluster.create(sound, a_device_class("gpu"), a_slice("sound", node="sound"))
    await store_directly(tmp_path, *stored_mutants(full))
    async with Harness(tmp_path) as cluster:
        where = {"node_selector": {"only": "sound"}}
        claimed = [{"name": "c", "resourceClaimName": "mine"}]
        await cluster.create(
            a_claim("mine"),
            a_pod("plain", **where),
            a_pod("owner", labels={"app": "m"}, **where),
            a_pod("claiming", claims=claimed, **where),
        )
        await cluster.advance(60)
        for name in ("plain", "owner", "claiming"):
            assert await cluster.node_of(name) == "sound", await cluster.why(name)
