"""Decide whether a node takes a pod that is bound to it, as a kubelet does. No I/O.

A scheduler has already decided, but the node may have changed since then, and other clients may
bind pods too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.api.node import Node
from holdfast.api.node_selection import required_nodes
from holdfast.api.pod import Pod
from holdfast.api.quantity import milli, units
from holdfast.api.requests import pod_request
from holdfast.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, is_extended
from holdfast.api.tolerations import NO_EXECUTE, find_untolerated
from holdfast.runtime.errors import BadRequest
from holdfast.state.columns.pod_info import host_ports
from holdfast.state.columns.ports import ports_conflict

_FIRST = (PODS, CPU, MEMORY, EPHEMERAL_STORAGE)


@dataclass(frozen=True, slots=True)
class PodRejection:
    """Why a node does not take a pod: reason and message of its status and event."""

    reason: str
    message: str


def admit(pod: Pod, node: Node, others: Iterable[Pod]) -> PodRejection | None:
    """Return why the node does not take a pod in addition to those it runs; None: it does."""
    running = list(others)
    return (
        _insufficient(pod, node, running)
        or _unwanted_node(pod, node)
        or _used_ports(pod, running)
        or _untolerated(pod, node)
    )


def unsupported_claims(pod: Pod) -> PodRejection | None:
    """Return why a node without ``DynamicResourceAllocation`` does not take a pod."""
    special = pod.status.extended_resource_claim_status
    if not pod.names_claims and not special:
        return None
    return PodRejection(
        "PodFeatureUnsupported",
        "the pod has resource claims, but the feature gate DynamicResourceAllocation is off on "
        "this node",
    )


def counted_request(pod: Pod, node: Node) -> dict[str, int]:
    """Return the amounts that a pod takes from a node's allocatable resources.

    Extended resources that devices serve are accounted for by the pod's claim. Resources that the
    node does not have were handled by others, such as a scheduler extender.
    """
    special = pod.status.extended_resource_claim_status
    by_devices = {m.resource_name for m in special.request_mappings} if special else set()
    known = node.status.allocatable
    amounts = pod_request(pod).amounts
    counted = {
        name: amount
        for name, amount in amounts.items()
        if name not in by_devices and (name in known or not is_extended(name))
    }
    return {PODS: 1, **counted}


def _insufficient(pod: Pod, node: Node, others: list[Pod]) -> PodRejection | None:
    wanted = counted_request(pod, node)
    used: dict[str, int] = {}
    for other in others:
        for name, amount in counted_request(other, node).items():
            used[name] = used.get(name, 0) + amount
    for name in sorted(wanted, key=lambda n: (_FIRST.index(n) if n in _FIRST else 9, n)):
        has = _amount(node, name)
        if wanted[name] > 0 and wanted[name] > has - used.get(name, 0):
            message = (
                f"Node didn't have enough resource: {name}, requested: {wanted[name]}, "
                f"used: {used.get(name, 0)}, capacity: {has}"
            )
            return PodRejection(f"OutOf{name}", message)
    return None


def _amount(node: Node, name: str) -> int:
    text = node.status.allocatable.get(name, 0)
    try:
        return milli(text) if name == CPU else units(text)
    except BadRequest:
        return 0


def _unwanted_node(pod: Pod, node: Node) -> PodRejection | None:
    if required_nodes(pod).matches(node.metadata.labels, node.name):
        return None
    return _predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")


def _used_ports(pod: Pod, others: list[Pod]) -> PodRejection | None:
    wanted = host_ports(pod)
    if not wanted or not any(ports_conflict(wanted, host_ports(other)) for other in others):
        return None
    return _predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")


def _untolerated(pod: Pod, node: Node) -> PodRejection | None:
    taint = find_untolerated(
        node.spec.taints, pod.spec.tolerations, lambda t: t.effect == NO_EXECUTE
    )
    if taint is None:
        return None
    return _predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")


def _predicate(name: str, why: str) -> PodRejection:
    return PodRejection(name, f"Predicate {name} failed: {why}")
