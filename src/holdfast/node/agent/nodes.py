"""The Node, status and Lease of a node that an agent runs, as raw objects and patches. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.api.node import Lease, Node
from holdfast.api.node_names import AGENT_LABEL, LEASE_NAMESPACE, NODE_USER, SIMULATED
from holdfast.api.pod import ResourceAmounts
from holdfast.api.timestamps import parse_rfc3339, rfc3339, rfc3339_micro
from holdfast.client.client import Client
from holdfast.node.agent.addresses import AgentNode
from holdfast.runtime.settings import NodeShape

LEASE_SECONDS = 40
_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory",
     "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)  # fmt: skip


def as_node(client: Client, node: str) -> Client:
    """Return a client that acts as a node: it may only write the node's objects."""
    return client.impersonating(NODE_USER + node)


def node_name(ordinal: int) -> str:
    """Return the name of the n-th registered node, counted from 1.

    >>> node_name(1), node_name(12345)
    ('node-0001', 'node-12345')
    """
    return f"node-{ordinal:04d}"


def new_node(
    name: str, ordinal: int, shape: NodeShape, *, address: str, now: float, agent: str = SIMULATED
) -> dict[str, Any]:
    """Return the Node that an agent registers; its zone depends on the ordinal."""
    zone = f"zone-{chr(ord('a') + (ordinal - 1) % shape.zones)}"
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64", "topology.kubernetes.io/region": "local",
                "topology.kubernetes.io/zone": zone, AGENT_LABEL: agent, **shape.labels,
            },
        },
        "spec": {},
        "status": {
            "capacity": shape.capacity, "allocatable": shape.capacity,
            "addresses": _addresses(name, address), "conditions": _conditions(now, {}),
            "nodeInfo": node_info(name),
        },
    }  # fmt: skip


def node_info(name: str) -> dict[str, str]:
    """Return the ``nodeInfo`` of a status; clients require all its fields."""
    return {
        "machineID": name, "systemUUID": name, "bootID": name, "kernelVersion": "simulated",
        "osImage": "Holdfast simulated node", "containerRuntimeVersion": "simulated://1",
        "kubeletVersion": "v1.36.2-holdfast", "kubeProxyVersion": "", "operatingSystem": "linux",
        "architecture": "amd64",
    }  # fmt: skip


def plan_node_status(node: AgentNode, address: str, now: float) -> dict[str, Any] | None:
    """Return a strategic merge patch that completes a node's status, or None.

    Conditions with the right status and existing capacities are kept. A missing allocatable becomes
    the whole capacity.
    """
    status: dict[str, Any] = {}
    known = {c.type: c for c in node.status.conditions}
    wrong = [t for t, s, *_ in _CONDITIONS if t not in known or known[t].status != s]
    if "Ready" in wrong or "Ready" not in known:
        kept = {t: c.last_transition_time for t, c in known.items() if t not in wrong}
        status["conditions"] = _conditions(now, kept)
    if node.status.capacity and not node.status.allocatable:
        status["allocatable"] = _plain(node.status.capacity)
    if not node.internal_ip:
        status["addresses"] = _addresses(node.name, address)
    if "conditions" in status:
        status["nodeInfo"] = node_info(node.name)
    return {"status": status} if status else None


def _plain(amounts: ResourceAmounts) -> dict[str, Any]:
    return dict(amounts)


def _addresses(name: str, address: str) -> list[dict[str, str]]:
    return [
        {"type": "InternalIP", "address": address},
        {"type": "Hostname", "address": name},
    ]


def _conditions(now: float, since: Mapping[str, str | None]) -> list[dict[str, str]]:
    return [
        {
            "type": type_, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": rfc3339(now),
            "lastTransitionTime": since.get(type_) or rfc3339(now),
        }
        for type_, status, reason, message in _CONDITIONS
    ]  # fmt: skip


def new_lease(node: Node, now: float) -> dict[str, Any]:
    """Return the Lease of a node, which is deleted with the node."""
    return {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": node.name, "namespace": LEASE_NAMESPACE, "labels": {AGENT_LABEL: SIMULATED},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}
            ],
        },
        "spec": {
            "holderIdentity": node.name, "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": rfc3339_micro(now),
        },
    }  # fmt: skip


def lease_renewal(now: float) -> dict[str, Any]:
    """Return a patch that renews a lease."""
    return {"spec": {"renewTime": rfc3339_micro(now)}}


def foreign_lease_seconds(lease: Lease | None, now: float) -> float:
    """Return for how many seconds the lease of another agent is valid; 0 if there is none.

    A lease with the label of this agent is its own, even after a restart.
    """
    if lease is None or lease.metadata.labels.get(AGENT_LABEL) == SIMULATED:
        return 0.0
    if lease.spec.renew_time is None:
        return 0.0
    ends = parse_rfc3339(lease.spec.renew_time) + (lease.spec.lease_duration_seconds or 0)
    return max(0.0, ends - now)
