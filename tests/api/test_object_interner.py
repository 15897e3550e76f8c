"""Interned objects are equal to the originals in all fields that a scheduler reads."""

from __future__ import annotations

import pytest
from msgspec.structs import fields

from holdfast.api.meta import Condition
from holdfast.api.object_interner import ObjectInterner
from holdfast.state.columns.interner import ResourceNames
from holdfast.state.columns.pod_info import PodInfo
from holdfast.testing import a_node, a_pod, typed

TOKEN = {"name": "kube-api-access-x", "projected": {"sources": []}}
CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}}


def condition(kind, **more):
    return {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", **more}


def running(name, node="", **more):
    pod = a_pod(name, cpu="100m", node=node, labels={"app": "web"}, **more)
    pod["spec"]["volumes"] = [TOKEN, CLAIM]
    given = {"requests": {"cpu": "100m"}}
    pod["status"] = {
        "phase": "Running", "startTime": "2026-01-01T00:00:00Z",
        "conditions": [condition("Ready"), condition("PodScheduled", message="0/1 nodes"),
                       condition("DisruptionTarget", reason="PreemptionByScheduler")],
        "containerStatuses": [{"name": "main", "ready": True, "resources": given}],
    }  # fmt: skip
    return typed(pod)


def test_an_interned_node_equals_the_node():
    parts = ObjectInterner()
    image = {"names": ["a/b:1", "a/b@sha256:0"], "sizeBytes": 7}
    nodes = []
    for name in ("n1", "n2"):
        raw = a_node(name, cpu="4", labels={"pool": "a"}, taints=[{"key": "k", "effect": "e"}])
        raw["status"] |= {"images": [image], "conditions": [condition("Ready", message="fine")]}
        nodes.append(typed(raw))
    first, second = map(parts.node, nodes)
    assert [first, second] == nodes
    assert first.status.images[0] is second.status.images[0]
    assert first.status.allocatable is second.status.allocatable


@pytest.mark.parametrize("node", ["", "n"])
def test_an_interned_pod_has_the_same_pod_info(node):
    pod = running("p", node)
    shared = ObjectInterner().pod(pod)
    names = ResourceNames()
    of_it, of_the_other = PodInfo.of(pod, names), PodInfo.of(shared, names)
    for field in fields(PodInfo):
        if field.name != "pod":
            assert getattr(of_it, field.name) == getattr(of_the_other, field.name), field.name
    assert shared.metadata == pod.metadata
    assert shared.spec.node_name == node
    assert [v.name for v in shared.spec.volumes] == ["data"]


def test_pods_of_a_workload_share_equal_parts():
    parts = ObjectInterner()
    first, second = parts.pod(running("p", "n1")), parts.pod(running("q", "n2"))
    assert first.spec.containers is second.spec.containers
    assert first.metadata.labels is second.metadata.labels
    assert first.status.container_statuses is second.status.container_statuses
    assert (first.name, second.name) == ("p", "q")
    assert (first.spec.node_name, second.spec.node_name) == ("n1", "n2")


def test_conditions_are_removed_from_bound_pods_only():
    parts = ObjectInterner()
    waiting, standing = parts.pod(running("p")), parts.pod(running("q", "n"))
    assert waiting.status == running("p").status
    kept = {c.type: c for c in standing.status.conditions}
    assert kept.keys() == {"PodScheduled", "DisruptionTarget", "Ready"}
    assert kept["Ready"] == Condition(type="Ready", status="True"), "its times differ by pod"
    another = parts.pod(running("r", "m"))
    assert another.status.conditions is standing.status.conditions
