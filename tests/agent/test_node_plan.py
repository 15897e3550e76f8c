from __future__ import annotations

from holdfast.api.decode import convert_object
from holdfast.api.node import Lease
from holdfast.api.node_names import AGENT_LABEL
from holdfast.api.timestamps import rfc3339, rfc3339_micro
from holdfast.node.agent.addresses import AgentNode
from holdfast.node.agent.nodes import (
    LEASE_SECONDS,
    NodeShape,
    foreign_lease_seconds,
    lease_renewal,
    new_lease,
    new_node,
    plan_node_status,
)

NOW = 1_700_000_000.0


def a_node(status=None, name="n"):
    raw = {"metadata": {"name": name, "uid": "u"}, "status": status or {}}
    return convert_object(raw, AgentNode)


def test_registered_nodes_are_ready_and_spread_over_zones():
    first, fourth = (
        new_node(f"node-000{i}", i, NodeShape(extra={"x.io/y": "2"}), address="172.16.0.1", now=NOW)
        for i in (1, 4)
    )
    assert first["metadata"]["name"] == "node-0001"
    labels = first["metadata"]["labels"]
    assert labels["kubernetes.io/hostname"] == "node-0001"
    zone = "topology.kubernetes.io/zone"
    assert labels[zone] == fourth["metadata"]["labels"][zone] == "zone-a"
    assert first["status"]["capacity"] == {
        "cpu": "32", "memory": "128Gi", "pods": "110", "ephemeral-storage": "500Gi", "x.io/y": "2",
    }  # fmt: skip
    assert plan_node_status(convert_object(first, AgentNode), "172.16.0.1", NOW) is None


def test_a_bare_node_gets_readiness_addresses_and_its_capacity_as_allocatable():
    patch = plan_node_status(a_node({"capacity": {"cpu": "4"}}), "172.16.0.9", NOW)["status"]
    assert patch["allocatable"] == {"cpu": "4"}
    assert patch["addresses"][0] == {"type": "InternalIP", "address": "172.16.0.9"}
    said = {c["type"]: c["status"] for c in patch["conditions"]}
    assert said == {
        "Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False",
    }  # fmt: skip


def test_given_capacities_and_addresses_are_kept():
    status = {
        "capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"},
        "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}],
    }  # fmt: skip
    patch = plan_node_status(a_node(status), "172.16.0.9", NOW)["status"]
    assert "allocatable" not in patch
    assert "addresses" not in patch


def test_an_unready_node_becomes_ready():
    ready = {"type": "Ready", "status": "Unknown", "lastTransitionTime": rfc3339(NOW - 9)}
    patch = plan_node_status(a_node({"conditions": [ready]}), "172.16.0.9", NOW)["status"]
    said = {c["type"]: c for c in patch["conditions"]}
    assert said["Ready"]["status"] == "True"
    assert said["Ready"]["lastTransitionTime"] == rfc3339(NOW)


def a_lease(age, **labels):
    raw = {
        "metadata": {"name": "n", "labels": labels},
        "spec": {"renewTime": rfc3339_micro(NOW - age), "leaseDurationSeconds": 40},
    }
    return convert_object(raw, Lease)


def test_a_node_with_a_valid_lease_of_another_agent_is_not_adopted():
    assert foreign_lease_seconds(None, NOW) == 0
    assert foreign_lease_seconds(a_lease(10), NOW) == 30
    assert foreign_lease_seconds(a_lease(41), NOW) == 0
    assert foreign_lease_seconds(convert_object({"metadata": {"name": "n"}}, Lease), NOW) == 0


def test_a_lease_with_the_agent_label_is_the_agents_own_after_a_restart():
    assert foreign_lease_seconds(a_lease(1, **{AGENT_LABEL: "simulated"}), NOW) == 0
    made = new_lease(a_node(), NOW)
    assert foreign_lease_seconds(convert_object(made, Lease), NOW) == 0
    assert made["spec"]["leaseDurationSeconds"] == LEASE_SECONDS
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert lease_renewal(NOW) == {"spec": {"renewTime": rfc3339_micro(NOW)}}
