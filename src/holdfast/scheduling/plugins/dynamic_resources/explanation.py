"""Explain why a pod gets no devices: obstacles by request, with the device that came closest.

Plain data in the shape that ``holdfast explain`` prints. The searches are repeated and recorded,
for as many nodes as a limit of tried devices allows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.api.decode import JsonObject
from holdfast.api.devices import (
    ALL,
    MAX_DEVICES,
    DeviceClaim,
    DeviceRequest,
    ExactRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from holdfast.scheduling.framework.plugin import Rows
from holdfast.scheduling.plugins.dynamic_resources.binding_conditions import (
    Progress,
    conditional_results,
    missing_conditions,
    progress_of,
)
from holdfast.scheduling.plugins.dynamic_resources.device_search import (
    OLD_EXTENDED_CLAIM,
    UNAVAILABLE,
    PodClaimsSearch,
    UnallocatedClaims,
)
from holdfast.state.devices.device_map import ClaimWithDevice, holders_by_device, nodes_text
from holdfast.state.devices.errors import AllocationError
from holdfast.state.devices.extended_resources import IN_MEMORY_NAME
from holdfast.state.devices.obstacles import (
    NodeObstacles,
    Obstacle,
    ObstacleKind,
    RejectedDevice,
    find_obstacles,
)
from holdfast.state.devices.requests import RequestAlternative
from holdfast.state.devices.search_results import FITS
from holdfast.state.devices.slices import DeviceId

MAX_TRIES, MAX_TRIES_A_NODE = 30_000, 1_000
"""About a second for all nodes; a search on a node that is cut short gives its reasons so far."""
NO_DEVICE = Obstacle(ObstacleKind.NO_DEVICE, "no device is published for the node")
TOO_FEW = Obstacle(ObstacleKind.TOO_FEW, "the node has too few devices that match")


def explain_rows(devices: PodClaimsSearch, rows: Rows) -> JsonObject:
    """Return the obstacles on rows that the plugin rejects, and what serves resources."""
    explanation = _Explanation(devices)
    codes = devices.codes(rows)
    lacking = rows[(codes != FITS) & (codes != UNAVAILABLE) & (codes != OLD_EXTENDED_CLAIM)]
    examined = sum(explanation.add(row) for row in _spread(lacking))
    return {
        "rejectedNodes": len(lacking),
        "examinedNodes": examined,
        "partlyExaminedNodes": explanation.partly_examined,
        "requests": explanation.requests(),
        "errors": explanation.errors(),
        "allocatedClaims": _allocated_claims(devices, bool((codes == UNAVAILABLE).any())),
        "oldClaim": devices.old_extended_claim.key if devices.old_extended_claim else None,
        "leftToNominatedPods": sorted(devices.nodes.names[row] for row in rows[codes == FITS]),
        "extendedResources": [_explain_resource(devices, name) for name in devices.extended],
    }


def _spread(rows: Rows) -> Iterable[int]:
    """Return rows in an order whose beginning is a sample of all of them."""
    stride = max(1, len(rows) // 64)
    return [int(row) for start in range(stride) for row in rows[start::stride]]


@dataclass(slots=True)
class _Affected:
    """The devices that break one rule, and the nodes on which they do."""

    devices: set[DeviceId] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _AlternativeObstacles:
    """The obstacles of one alternative of a request, over nodes."""

    alternative: RequestAlternative
    found: int = 0
    by_obstacle: dict[Obstacle, _Affected] = field(default_factory=lambda: defaultdict(_Affected))
    """The devices and nodes of each obstacle, without its details."""
    closest: tuple[tuple[Any, ...], str, RejectedDevice, int] | None = None


class _Explanation:
    """Adds up the obstacles of nodes by the request at which the search fails."""

    def __init__(self, devices: PodClaimsSearch) -> None:
        self._devices = devices
        self._tries = 0
        self.partly_examined = 0
        """The number of nodes on which the limit was reached before all devices were tried."""
        self._nodes: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._alternatives: dict[tuple[str, str], dict[str, _AlternativeObstacles]] = {}
        self._errors: dict[str, list[str]] = defaultdict(list)
        self._mappings: dict[str, tuple[str, str]] = {}

    def add(self, row: int) -> bool:
        """Examine a row; return False if the limit is reached."""
        if self._tries > MAX_TRIES:
            return False
        devices, unallocated = self._devices, self._devices.unallocated_on(row)
        node = devices.nodes.nodes[row]
        if node is None or unallocated.allocator is None:
            return True
        obstacles = find_obstacles(
            unallocated.allocator,
            node,
            devices.inventory.pools_of(node),
            devices.inventory.allocated_devices,
            MAX_TRIES_A_NODE,
        )
        if obstacles is not None:
            self._tries += obstacles.tries + 10  # also nodes without devices take time
            self.partly_examined += not obstacles.complete
            self._add(node.name, obstacles, unallocated)
        return True

    def _add(self, node: str, obstacles: NodeObstacles, unallocated: UnallocatedClaims) -> None:
        claim = unallocated.claims[obstacles.request.claim]
        name = obstacles.request.alternatives[0].request_name
        key = (claim.key, name)
        self._nodes[key].append(node)
        if claim is unallocated.extended_claim:
            for mapping in unallocated.requests.mappings:
                served = (mapping.resource_name, mapping.container_name)
                self._mappings.setdefault(mapping.request_name, served)
        known = self._alternatives.setdefault(key, {})
        for alternative in obstacles.request.alternatives:
            one = known.get(alternative.label)
            if one is None:
                one = known[alternative.label] = _AlternativeObstacles(alternative)
            _add_node(one, alternative, node, obstacles)
        if obstacles.error and not any(
            obstacles.error == obstacle.rule
            for one in obstacles.devices
            for obstacle in one.obstacles
        ):
            self._errors[obstacles.error].append(node)

    def requests(self) -> list[JsonObject]:
        """Return the requests that fail, those that fail on most nodes first."""
        ordered = sorted(self._nodes.items(), key=lambda item: (-len(item[1]), item[0]))
        return [
            self._request(key, nodes, list(self._alternatives[key].values()))
            for key, nodes in ordered
        ]

    def errors(self) -> list[JsonObject]:
        """Return the errors for which searches failed, with their nodes."""
        return [
            {"message": message, "nodes": sorted(nodes)}
            for message, nodes in sorted(self._errors.items())
        ]

    def _request(
        self, key: tuple[str, str], nodes: list[str], alternatives: list[_AlternativeObstacles]
    ) -> JsonObject:
        claim, request = key
        of_extended = claim.endswith(f"/{IN_MEMORY_NAME}")
        resource, container = self._mappings.get(request, (None, None))
        return {
            "claim": None if of_extended else claim,
            "request": request,
            "extendedResource": resource if of_extended else None,
            "container": container if of_extended else None,
            "nodes": sorted(nodes),
            "alternatives": [self._alternative(one) for one in alternatives],
        }

    def _alternative(self, one: _AlternativeObstacles) -> JsonObject:
        alternative = one.alternative
        ordered = sorted(one.by_obstacle.items(), key=_importance)
        return {
            "subrequest": alternative.subrequest_name or None,
            "deviceClass": alternative.device_class.name,
            "count": None if alternative.allocation_mode == ALL else alternative.count,
            "found": one.found,
            "obstacles": [
                {
                    "kind": obstacle.kind.value,
                    "rule": obstacle.rule,
                    "devices": len(affected.devices),
                    "nodes": sorted(affected.nodes),
                    "failingDevices": ["/".join(device) for device in sorted(affected.devices)]
                    if obstacle.kind is ObstacleKind.SELECTOR_ERROR
                    else [],
                }
                for obstacle, affected in ordered
            ],
            "closest": self._closest(one),
        }

    def _closest(self, one: _AlternativeObstacles) -> JsonObject | None:
        if one.closest is None:
            return None
        _, node, rejected, device_count = one.closest
        return {
            "node": node,
            "device": "/".join(rejected.candidate.id),
            "found": device_count,
            "obstacles": [
                {"kind": o.kind.value, "rule": o.rule, "detail": o.detail}
                for o in rejected.obstacles
            ],
            "holders": [_holder(holder) for holder in self._holders.get(rejected.candidate.id, ())],
        }

    @cached_property
    def _holders(self) -> dict[DeviceId, list[ClaimWithDevice]]:
        return holders_by_device(self._devices.inventory.claims.all())


def _add_node(
    one: _AlternativeObstacles, alternative: RequestAlternative, node: str, obstacles: NodeObstacles
) -> None:
    """Add a node; alternatives of one label have different indexes where claims differ by node."""
    here = obstacles.found.get(alternative.index, 0)
    one.found = max(one.found, here)
    every = [d for d in obstacles.devices if d.alternative is alternative]
    # Devices of another sort matter only where there are no others.
    of_class = [d for d in every if not d.obstacles[0].of_class]
    rejected = of_class if of_class or here else every
    for device in rejected:
        first = device.obstacles[0]
        affected = one.by_obstacle[Obstacle(first.kind, first.rule)]
        affected.nodes.add(node)
        affected.devices.add(device.candidate.id)
        # An error ends the attempt, however near other devices are.
        fails = first.kind is ObstacleKind.SELECTOR_ERROR
        distance = (
            not fails,
            *device.distance[:2],
            -here,
            *device.distance[2:],
            node,
            device.candidate.id,
        )
        if one.closest is None or distance < one.closest[0]:
            one.closest = (distance, node, device, here)
    for pool in obstacles.pools:
        one.by_obstacle[pool].nodes.add(node)
    if not rejected and not obstacles.pools and not obstacles.error:
        one.by_obstacle[TOO_FEW if here else NO_DEVICE].nodes.add(node)


def _importance(item: tuple[Obstacle, _Affected]) -> tuple[bool, int, str]:
    """Return the order of obstacles: errors first, then by the number of their nodes."""
    obstacle, affected = item
    return obstacle.kind is not ObstacleKind.SELECTOR_ERROR, -len(affected.nodes), obstacle.rule


def _holder(holder: ClaimWithDevice) -> JsonObject:
    return {"claim": holder.claim.key, "pods": list(holder.consumers)}


def _allocated_claims(devices: PodClaimsSearch, unavailable: bool) -> list[JsonObject]:
    """Return the allocated claims that keep the pod from nodes, or whose devices are not ready."""
    return [
        _allocated(claim)
        for number, claim in enumerate(devices.claims)
        if claim.status.allocation is not None
        and (
            (unavailable and number in devices.unavailable) or progress_of(claim) != Progress.READY
        )
    ]


def _allocated(claim: ResourceClaim) -> JsonObject:
    allocation = claim.status.allocation
    assert allocation is not None, "the claim is allocated"
    conditional = list(conditional_results(claim))
    missing = {each for result in conditional for each in missing_conditions(claim, result)}
    return {
        "claim": claim.key,
        "devices": ["/".join((r.driver, r.pool, r.device)) for r in claim.results],
        "nodes": nodes_text(None, allocation.node_selector is None, allocation.node_selector),
        "pods": [consumer.name for consumer in claim.status.reserved_for],
        "bindingConditions": progress_of(claim).value if conditional else None,
        "missing": sorted(missing),
    }


def _explain_resource(devices: PodClaimsSearch, name: str) -> JsonObject:
    """Return what serves an extended resource, on which nodes, and how much of it is free."""
    inventory, nodes = devices.inventory, devices.nodes
    device_class = inventory.device_class_for(name)
    assert device_class is not None, "a class serves the resource"
    counts = inventory.allocation_cache.counts(inventory.classes.by_name[device_class]).refreshed()
    served: dict[str, list[JsonObject]] = {"devicePlugin": [], "devices": []}
    resource, rows = nodes.resources.id(name), nodes.rows
    by_plugin = np.array([devices.has_allocatable(name, row) for row in rows.tolist()], np.bool_)
    by_devices = rows[~by_plugin & (counts.total[rows] > 0)]
    for row in rows[by_plugin].tolist():
        total, used = (int(a[resource, row]) for a in (nodes.allocatable, nodes.requested))
        served["devicePlugin"].append(_amount(nodes.names[row], total, total - used))
    free = _allocatable_devices(devices, device_class, by_devices)
    unused = (counts.total - counts.allocated)[by_devices]
    # A claim cannot ask for more.
    free = np.where(free == MAX_DEVICES, np.maximum(free, unused), free)
    for row, count in zip(by_devices.tolist(), free.tolist(), strict=True):
        served["devices"].append(_amount(nodes.names[row], int(counts.total[row]), count))
    return {"name": name, "deviceClass": device_class, **served}


def _allocatable_devices(
    devices: PodClaimsSearch, device_class: str, rows: Rows
) -> NDArray[np.int64]:
    """Return per row how many devices one claim could get now: not tainted ones, for example."""
    inventory = devices.inventory
    counts, left = np.zeros(len(rows), np.int64), np.arange(len(rows))
    for count in range(1, MAX_DEVICES + 1):
        request = ExactRequest(device_class_name=device_class, count=count)
        asked = DeviceClaim(requests=(DeviceRequest(name="request", exactly=request),))
        claim = ResourceClaim(spec=ResourceClaimSpec(devices=asked))
        try:
            allocator = inventory.allocator((claim,))
        except AllocationError:
            break
        results = inventory.allocation_cache.results(allocator, devices.limits.steps)
        left = left[results.codes(rows[left], all_rows=True) == FITS]
        counts[left] = count
        if not len(left):
            break
    return counts


def _amount(node: str, total: int, free: int) -> JsonObject:
    return {"node": node, "total": total, "free": max(0, free)}
