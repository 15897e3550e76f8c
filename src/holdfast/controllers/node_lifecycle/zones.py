"""Zones: how many nodes are ready, and how fast the others may get NoExecute taints.

If many nodes fail at once, the cause is more likely the network or the control plane, so the rate
of evictions drops as the share of nodes that are not ready rises. If no node of the cluster is
ready, nothing is evicted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum

from holdfast.api.node import Node
from holdfast.controllers.node_lifecycle.heartbeats import ready_status
from holdfast.runtime.settings import NodeLifecycleSettings

EXCLUDE_LABEL = "node.kubernetes.io/exclude-disruption"
FEWEST_NOT_READY = 3
"""With fewer nodes than this that are not ready, a zone is not disrupted."""
_ZONE = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_REGION = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")


class ZoneState(StrEnum):
    """How much of a zone has failed."""

    INITIAL = "Initial"
    NORMAL = "Normal"
    PARTIAL_DISRUPTION = "PartialDisruption"
    FULL_DISRUPTION = "FullDisruption"


class Disruption(Enum):
    """A change of the state of the whole cluster."""

    NONE = 0
    ENTERED = 1
    LEFT = 2


class EvictionLimiter:
    """A token bucket of one token; a rate of 0 refuses all."""

    def __init__(self, per_second: float) -> None:
        self._rate = per_second
        self._free_at = 0.0

    def wait(self, now: float) -> float | None:
        """Return the seconds until the next node, None if there is none."""
        return max(0.0, self._free_at - now) if self._rate > 0 else None

    def take(self, now: float) -> None:
        """Take the token."""
        self._free_at = now + 1 / self._rate

    def set_rate(self, per_second: float, now: float) -> None:
        """Change the rate; a wait that has begun starts again."""
        if per_second == self._rate:
            return
        waiting = self.wait(now) != 0.0
        self._rate = per_second
        if waiting and per_second > 0:
            self.take(now)


@dataclass(slots=True)
class NodeZone:
    """The nodes of a zone, and those that wait for a NoExecute taint."""

    limiter: EvictionLimiter
    nodes: set[str] = field(default_factory=set)
    """The nodes of the zone, except those that are excluded by their label."""
    not_ready: set[str] = field(default_factory=set)
    excluded: set[str] = field(default_factory=set)
    waiting: dict[str, None] = field(default_factory=dict)
    """Nodes that wait for a NoExecute taint, in the order in which they were added."""
    state: ZoneState = ZoneState.INITIAL


class NodeZones:
    """All zones of the cluster, by ``zone_key``."""

    def __init__(self, settings: NodeLifecycleSettings) -> None:
        self._settings = settings
        self.zones: dict[str, NodeZone] = {}
        self.all_failed = False
        """Whether no node of the cluster is ready."""
        self.changed = False
        """Whether a node changed since the rates were computed."""

    def update(self, old: Node | None, new: Node | None) -> bool:
        """Replace a node, and return whether its readiness or its zone changed."""
        if old is not None and new is not None and _place(old) == _place(new):
            return False
        self.changed = True
        if old is not None and (zone := self.zones.get(zone_key(old))) is not None:
            for names in (zone.nodes, zone.not_ready, zone.excluded):
                names.discard(old.name)
            moved = new is None or zone_key(new) != zone_key(old)
            if moved:
                zone.waiting.pop(old.name, None)
            if moved and not zone.nodes and not zone.excluded:
                del self.zones[zone_key(old)]
        if new is not None:
            zone = self._zone(zone_key(new))
            if EXCLUDE_LABEL in new.metadata.labels:
                zone.excluded.add(new.name)
            else:
                zone.nodes.add(new.name)
                if ready_status(new) != "True":
                    zone.not_ready.add(new.name)
        return True

    def add_waiting(self, node: Node) -> None:
        """Let a node wait for a NoExecute taint, unless it has been deleted."""
        zone = self.zones.get(zone_key(node))
        if zone is not None and (node.name in zone.nodes or node.name in zone.excluded):
            zone.waiting[node.name] = None

    def remove_waiting(self, node: Node) -> None:
        """Remove a node from those that wait."""
        if (zone := self.zones.get(zone_key(node))) is not None:
            zone.waiting.pop(node.name, None)

    def wait(self, key: str, now: float) -> float | None:
        """Return the seconds until the next node of a zone may be tainted, None if none may."""
        zone = self.zones.get(key)
        return zone.limiter.wait(now) if zone is not None and zone.waiting else None

    def update_rates(self, now: float) -> Disruption:
        """Compute the state of each zone and set its rate; return the change of the cluster."""
        if not self.changed:
            return Disruption.NONE
        self.changed = False
        states = {key: self._state(zone) for key, zone in self.zones.items() if zone.nodes}
        if not states:
            return Disruption.NONE
        failed = all(state is ZoneState.FULL_DISRUPTION for state in states.values())
        left, entered = self.all_failed and not failed, failed and not self.all_failed
        self.all_failed = failed
        for key, state in states.items():
            zone = self.zones[key]
            if failed:
                zone.limiter.set_rate(0.0, now)
            elif left or state is not zone.state:
                zone.limiter.set_rate(self._rate(state, len(zone.nodes)), now)
            zone.state = state
        if entered:
            return Disruption.ENTERED
        return Disruption.LEFT if left else Disruption.NONE

    def _zone(self, key: str) -> NodeZone:
        if key not in self.zones:
            self.zones[key] = NodeZone(EvictionLimiter(self._settings.eviction_rate))
        return self.zones[key]

    def _state(self, zone: NodeZone) -> ZoneState:
        not_ready, nodes = len(zone.not_ready), len(zone.nodes)
        if not_ready == nodes:
            return ZoneState.FULL_DISRUPTION
        unhealthy = not_ready / nodes >= self._settings.unhealthy_zone_threshold
        if not_ready >= FEWEST_NOT_READY and unhealthy:
            return ZoneState.PARTIAL_DISRUPTION
        return ZoneState.NORMAL

    def _rate(self, state: ZoneState, nodes: int) -> float:
        if state is not ZoneState.PARTIAL_DISRUPTION:
            return self._settings.eviction_rate
        large = nodes > self._settings.large_cluster_size
        return self._settings.secondary_eviction_rate if large else 0.0


def zone_key(node: Node) -> str:
    """Return region and zone of a node, as upstream writes them into the label of metrics."""
    labels = node.metadata.labels
    region, zone = (
        next((labels[key] for key in keys if key in labels), "") for keys in (_REGION, _ZONE)
    )
    return f"{region}:\x00:{zone}" if region or zone else ""


def _place(node: Node) -> tuple[str, bool, bool]:
    return zone_key(node), ready_status(node) == "True", EXCLUDE_LABEL in node.metadata.labels
