"""Which events may make a pod fit that did not."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from holdfast.api.devices import DeviceClass
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.quantity import milli, units
from holdfast.api.requests import pod_request
from holdfast.columns.request_fit import remaining_of
from holdfast.devices.inventory import IMPLICIT_PREFIX

Backs = Callable[[str], bool]
"""Returns whether devices may provide a resource on nodes that have none of it."""
RequestsByName = Mapping[str, int]
"""The pod's requests by name, without zeros."""
_read: deque[tuple[Node, Mapping[str, int]]] = deque(maxlen=2)


def fits_empty(asked: RequestsByName, node: Node, backs: Backs) -> bool:
    """Return whether the pod would fit on the node without other pods."""
    has = _allocatable(node)
    if has.get("pods", 0) < 1:
        return False
    return all(
        remaining_of(own := has.get(name, 0), amount, own, device_backed=backs(name)) >= 0
        for name, amount in asked.items()
    )


def grew(asked: RequestsByName, old: Node, new: Node, backs: Backs) -> bool:
    """Return whether the node has more of a requested resource, or more pod slots."""
    had, has = _allocatable(old), _allocatable(new)
    if has.get("pods", 0) > had.get("pods", 0):
        return True
    return any(
        has.get(name, 0) > had.get(name, 0) or (not has.get(name, 0) and backs(name))
        for name in asked
    )


def node_helps(asked: RequestsByName, old: Node | None, new: Node | None, backs: Backs) -> bool:
    """Return whether the pod may fit on a node that was added or updated."""
    if new is None or not fits_empty(asked, new, backs):
        return False
    return old is None or grew(asked, old, new, backs)


def pod_helps(pod: Pod, asked: RequestsByName, old: Pod | None, new: Pod | None) -> bool:
    """Return whether a pod was deleted or requests less; it may be the waiting pod itself."""
    if new is None:
        return old is not None and bool(old.spec.node_name or old.status.nominated_node_name)
    if new.uid == pod.uid:
        return True
    if old is None or not new.spec.node_name:
        return False
    before, after = pod_request(old).amounts, pod_request(new).amounts
    return any(before.get(name, 0) > after.get(name, 0) for name in asked)


def class_helps(asked: RequestsByName, old: DeviceClass | None, new: DeviceClass | None) -> bool:
    """Return whether a device class now provides a resource that the pod requests."""
    if new is None:
        return False
    named = new.spec.extended_resource_name
    if old is not None:
        return named != old.spec.extended_resource_name and named in asked
    return named in asked or f"{IMPLICIT_PREFIX}{new.name}" in asked


def _allocatable(node: Node) -> Mapping[str, int]:
    # One event is compared with every class of waiting pods: its nodes are read once.
    for seen, amounts in _read:
        if seen is node:
            return amounts
    found = {
        name: milli(amount) if name == "cpu" else units(amount)
        for name, amount in node.status.allocatable.items()
    }
    _read.appendleft((node, found))
    return found
