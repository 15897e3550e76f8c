"""The plugin and its plan: which nodes can use a pod's volumes, and how claims are bound."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from holdfast.api.field_errors import invalid
from holdfast.api.storage import (
    MIGRATED_PLUGINS,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolumeClaim,
)
from holdfast.runtime.errors import BadRequest, Invalid
from holdfast.scheduling.framework.arguments import Arguments, PluginArgs
from holdfast.scheduling.framework.events import ActionType, EventResource
from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ApiCalls,
    ClusterEvent,
    Code,
    NodeFilter,
    Placement,
    Plugin,
    PodChange,
    PreemptionRules,
    Reject,
    Reserver,
    Scope,
    Skip,
    Traits,
    Verdicts,
)
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.plugins.volume_binding.row_volumes import (
    BIND,
    CONFLICT,
    MISSING,
    SPACE,
    RowVolumes,
    VolumeClaims,
)
from holdfast.scheduling.plugins.volume_binding.volume_writes import (
    VolumesToBind,
    bind_volumes,
    with_claim_ref,
    with_selected_node,
)
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.node_rows import Rows
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.volumes import PodVolumes, Volumes

REASONS = {
    CONFLICT: "node(s) didn't match PersistentVolume's node affinity",
    BIND: "node(s) didn't find available persistent volumes to bind",
    SPACE: "node(s) did not have enough free storage",
    MISSING: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}
IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
BIND_TIMEOUT = 600


@dataclass(slots=True, eq=False)
class VolumeBinder(NodeFilter, PreemptionRules, Reserver):
    """Reject nodes that cannot use the volumes of some claims, and bind the claims.

    The volumes that the claims would get on each row are computed on demand.
    """

    _nodes: NodeTable
    _volumes: Volumes
    _bound: VolumeClaims
    _waiting: VolumeClaims
    _timeout: int
    _seq: int = field(default=-1, init=False)
    _row_volumes: RowVolumes | None = field(default=None, init=False)

    @property
    def row_volumes(self) -> RowVolumes:
        """The volumes for the current nodes; other claims or volumes make a new plan."""
        seq = self._nodes.node_journal.seq
        if self._row_volumes is None or self._seq != seq:
            self._seq = seq
            self._row_volumes = RowVolumes(self._nodes, self._volumes, self._bound, self._waiting)
        return self._row_volumes

    def filter(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject rows where a volume cannot be used, found or provisioned, as unresolvable."""
        faults = self.row_volumes.faults[rows]
        return np.where(faults == 0, Code.PASS, Code.UNRESOLVABLE).astype(np.int8)

    def filter_row(self, row: int, change: PodChange = NO_CHANGE) -> int:
        """Return the same for one row."""
        return Code.UNRESOLVABLE if self.row_volumes.faults[row] else Code.PASS

    def depends_on_pods(self) -> bool:
        """Return False: the filter reads nodes and volumes only."""
        return False

    def reasons(self, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return all faults of the row."""
        faults = int(self.row_volumes.faults[row])
        return tuple(message for bit, message in REASONS.items() if faults & bit)

    def count_reasons(self, rows: Rows) -> Mapping[str, int]:
        """Count the rows of each fault."""
        faults = self.row_volumes.faults[rows]
        return {w: int(np.count_nonzero(faults & bit)) for bit, w in REASONS.items()}

    def reserve(self, placement: Placement) -> Reject | None:
        """Assume the bindings of the chosen node.

        Reserve pods bind no volumes: the owners of the reservation do.
        """
        if not self._waiting or placement.pod.is_reserve_pod:
            return None
        row_volumes = self.row_volumes
        bindings = [
            (with_claim_ref(v, claim), claim)
            for v, claim in row_volumes.static_bindings(placement.row)
        ]
        provisions = [
            with_selected_node(claim, placement.node)
            for claim in row_volumes.dynamic_provisions(placement.row)
        ]
        self._volumes.assume(placement.pod.uid, PodVolumes(tuple(bindings), tuple(provisions)))
        return None

    def unreserve(self, placement: Placement) -> None:
        """Revert the assumed bindings."""
        self._volumes.revert(placement.pod.uid)

    def pre_bind(self, placement: Placement) -> ApiCalls:
        """Write the assumed bindings and wait until all claims are bound."""
        pod, volumes = placement.pod, self._volumes
        pod_volumes = volumes.assumed(pod.uid)
        if pod_volumes is None:
            return
        row = self._nodes.row_of.get(placement.node)
        node = None if row is None else self._nodes.nodes[row]
        if node is not None:
            yield from bind_volumes(VolumesToBind(pod, node, pod_volumes), self._timeout)
        volumes.confirm(pod.uid)

    def undo_pre_bind(self, placement: Placement) -> ApiCalls:
        """Do nothing: the volume controller completes or releases half-made bindings."""
        yield from ()


class _Args(PluginArgs, frozen=True):
    bind_timeout_seconds: int = BIND_TIMEOUT
    shape: Any = None


class VolumeBinding(Plugin):
    """Filter nodes that cannot use the pod's volumes, and bind its claims."""

    name = "VolumeBinding"
    traits = Traits(
        scope=Scope.NODE,
        epochs=(Epoch.VOLUMES,),
        events_to_register={
            EventResource.NODE: (ActionType.ADD, ActionType.UPDATE_NODE_LABEL),
            EventResource.STORAGE_CLASS: (ActionType.ADD, ActionType.UPDATE),
            EventResource.PERSISTENT_VOLUME_CLAIM: (ActionType.ADD, ActionType.UPDATE),
            EventResource.PERSISTENT_VOLUME: (ActionType.ADD, ActionType.UPDATE),
            EventResource.CSI_NODE: (ActionType.ADD, ActionType.UPDATE),
            EventResource.CSI_DRIVER: (ActionType.UPDATE,),
            EventResource.CSI_STORAGE_CAPACITY: (ActionType.ADD, ActionType.UPDATE),
        },
        ignores_requests=True,
        accepts_slices=True,
    )
    plan_classes = (VolumeBinder,)

    def __init__(self, args: Mapping[str, Any]) -> None:
        wrong = Arguments(self.name)
        given = wrong.read(_Args, args)
        self._timeout = given.bind_timeout_seconds
        if self._timeout < 0:
            message = "invalid BindTimeoutSeconds, should not be a negative value"
            wrong.append(invalid("bindTimeoutSeconds", self._timeout, message))
        if given.shape is not None:
            message = (
                "unexpected field `shape`, remove it or turn on the feature gate "
                "StorageCapacityScoring"
            )
            wrong.append(invalid("shape", given.shape, message))
        wrong.refuse_if_wrong()

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return the claims."""
        claims = pod.mounts.claims
        if not claims:
            return None
        return (pod.namespace, claims, pod.pod.uid if pod.mounts.ephemeral else "")

    def pre_filter(self, pod: PodInfo, view: View) -> VolumeBinder | Skip | Reject:
        """Split the claims into bound ones and those that get a volume now."""
        if not pod.mounts.claims:
            return Skip()
        volumes = view.world.volumes
        claims: list[PersistentVolumeClaim] = []
        for use in pod.mounts.claims:
            claim = volumes.claim(pod.namespace, use.name)
            error = _claim_error(pod, claim, use.name, ephemeral=use.ephemeral)
            if error:
                return Reject(Code.UNRESOLVABLE, (error,))
            assert claim is not None
            claims.append(claim)
        split = _split_claims(volumes, claims)
        if isinstance(split, Reject):
            return split
        plan = VolumeBinder(view.nodes, volumes, *split, self._timeout)
        try:
            _ = plan.row_volumes
        except (BadRequest, Invalid) as wrong:
            message = f"error creating internal label selector for claim: {wrong}"
            return Reject(Code.ERROR, (message,))
        return plan

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Requeue for volumes, the pod's claims, classes, capacities, CSI nodes and nodes."""
        match event.resource, event.action:
            case EventResource.PERSISTENT_VOLUME, ActionType.ADD | ActionType.UPDATE:
                return True
            case EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL:
                return True
            case EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD | ActionType.UPDATE:
                names = [claim.name for claim in pod.mounts.claims]
                return event.new.namespace == pod.namespace and event.new.name in names
            case (
                EventResource.STORAGE_CLASS
                | EventResource.CSI_NODE
                | EventResource.CSI_STORAGE_CAPACITY,
                ActionType.ADD,
            ):
                return True
            case EventResource.STORAGE_CLASS, ActionType.UPDATE:
                return bool(event.old.allowed_topologies != event.new.allowed_topologies)
            case EventResource.CSI_NODE, ActionType.UPDATE:
                return _migrated(event.old) != _migrated(event.new)
            case EventResource.CSI_STORAGE_CAPACITY, ActionType.UPDATE:
                return _grew(event.old, event.new)
            case EventResource.CSI_DRIVER, ActionType.UPDATE:
                return _stops_reporting(event.old, event.new) and _uses(pod, event.new.name)
        return False


def _split_claims(
    volumes: Volumes, claims: VolumeClaims
) -> tuple[VolumeClaims, VolumeClaims] | Reject:
    """Return the claims that are bound, and those that wait for a node."""
    bound, waiting, immediate = [], [], False
    for claim in claims:
        if claim.fully_bound:
            bound.append(claim)
            continue
        storage_class = volumes.classes.get(claim.storage_class)
        if storage_class is not None and storage_class.volume_binding_mode is None:
            message = f'VolumeBindingMode not set for StorageClass "{claim.storage_class}"'
            return Reject(Code.ERROR, (message,))
        if (
            storage_class is not None
            and storage_class.waits_for_first_consumer
            and not claim.spec.volume_name
        ):
            waiting.append(claim)
        else:
            immediate = True
    if immediate:
        return Reject(Code.UNRESOLVABLE, (IMMEDIATE,))
    return bound, waiting


def _claim_error(
    pod: PodInfo, claim: PersistentVolumeClaim | None, name: str, *, ephemeral: bool
) -> str:
    """Return why a claim cannot be used on any node, or ""."""
    if claim is None:
        if ephemeral:
            return (
                "waiting for ephemeral volume controller to create the "
                f'persistentvolumeclaim "{name}"'
            )
        return f'persistentvolumeclaim "{name}" not found'
    if claim.status.phase == "Lost":
        volume = claim.spec.volume_name
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if ephemeral and not claim.belongs_to(pod.pod):
        return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"
    return ""


def _migrated(csi_node: CSINode) -> str:
    return csi_node.metadata.annotations.get(MIGRATED_PLUGINS, "")


def _grew(old: CSIStorageCapacity, new: CSIStorageCapacity) -> bool:
    return new.max_volume_size is not None and (
        old.max_volume_size is None or new.max_volume_size > old.max_volume_size
    )


def _stops_reporting(old: CSIDriver, new: CSIDriver) -> bool:
    return old.publishes_capacity and not new.publishes_capacity


def _uses(pod: PodInfo, driver: str) -> bool:
    volumes = pod.pod.spec.volumes
    return any(volume.csi is not None and volume.csi.driver == driver for volume in volumes)
