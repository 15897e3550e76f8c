"""All storage objects, with the bindings that are assumed and not written yet.

Assuming replaces the stored volume or claim by a changed one: a volume with a claimRef, a claim
with a selected node. It lasts until the API server sends a newer version of the object, or until it
is reverted. The stored object stays what the server sent: otherwise a newer version could not be
distinguished from our own change.

The ``volumes`` epoch moves when a field changes that scheduling reads, because it makes the results
of every class that reads volumes outdated. Attached volumes have separate columns
(``attachments``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.api.meta import Object
from holdfast.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from holdfast.api.volume_migration import reachable_as_csi, zoned_plugin
from holdfast.api.volume_sources import CSI_DRIVER_OF, CSIVolumeHandle, as_csi
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.mounts import MountingPod
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.volumes.attachments import Attachments
from holdfast.state.volumes.matching import Mask, VolumeTopology

_IN_TREE_UNCOUNTED = frozenset({"kubernetes.io/vsphere-volume", "kubernetes.io/azure-file"})
"""In-tree provisioners whose volumes no CSI driver's limit counts."""
_NO_VOLUMES: Mapping[str, PersistentVolume] = {}


@dataclass(frozen=True, slots=True)
class PodVolumes:
    """Bindings assumed for a pod.

    ``static_bindings`` pairs each chosen volume, with its new claimRef, with its claim.
    ``dynamic_provisions`` are claims with their selected node.
    """

    static_bindings: tuple[tuple[PersistentVolume, PersistentVolumeClaim], ...] = ()
    dynamic_provisions: tuple[PersistentVolumeClaim, ...] = ()


class Volumes:
    """All storage objects, indexed; part of the World."""

    takes: tuple[type[Object], ...] = (
        PersistentVolume, PersistentVolumeClaim, StorageClass, CSINode, CSIDriver,
        CSIStorageCapacity, VolumeAttachment,
    )  # fmt: skip

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self.classes: dict[str, StorageClass] = {}
        self.drivers: dict[str, CSIDriver] = {}
        self._capacities: dict[str, CSIStorageCapacity] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._claims: dict[str, PersistentVolumeClaim] = {}
        self._assumed_volumes: dict[str, tuple[str, PersistentVolume]] = {}
        self._assumed_claims: dict[str, tuple[str, PersistentVolumeClaim]] = {}
        self._of_class: dict[str, dict[str, PersistentVolume]] = {}
        self._claims_on: dict[str, set[str]] = {}
        self._pod_volumes: dict[str, PodVolumes] = {}
        self._migrated: dict[str, frozenset[str]] = {}
        self.attachments = Attachments(
            nodes, self.handles_of, self._handle_of_attached, self.counting_error
        )
        self.topology = VolumeTopology(nodes)

    # --- reading ----------------------------------------------------------------------------

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """Return a claim, as assumed if it is."""
        key = f"{namespace}/{name}" if namespace else name
        assumed = self._assumed_claims.get(key)
        return assumed[1] if assumed is not None else self._claims.get(key)

    def volume(self, name: str) -> PersistentVolume | None:
        """Return a volume, as assumed if it is."""
        assumed = self._assumed_volumes.get(name)
        return assumed[1] if assumed is not None else self._volumes.get(name)

    def volumes_of(self, storage_class: str) -> Iterable[PersistentVolume]:
        """Return the volumes of a class, each as assumed if it is."""
        stored = self._of_class.get(storage_class, _NO_VOLUMES)
        if not self._assumed_volumes:
            return stored.values()
        return [self._assumed_volumes.get(name, ("", v))[1] for name, v in stored.items()]

    def capacities_of(self, storage_class: str) -> list[CSIStorageCapacity]:
        """Return the storage capacities that drivers report for a class."""
        return [c for c in self._capacities.values() if c.storage_class_name == storage_class]

    def rows_reaching(self, volume: PersistentVolume) -> Mask:
        """Return which rows can use a volume, by its node affinity.

        For in-tree volumes, nodes whose CSI driver migrates them use the translated affinity.
        """
        mask = self.topology.mask(volume.reachable_from)
        plugin = zoned_plugin(volume.spec)
        if plugin is None or not self._migrated:
            return mask
        row_of = self._nodes.row_of
        nodes = (name for name, plugins in self._migrated.items() if plugin in plugins)
        rows = [row_of[name] for name in nodes if name in row_of]
        mask[rows] = self.topology.mask(reachable_as_csi(volume, plugin))[rows]
        return mask

    def handles_of(self, pod: MountingPod) -> frozenset[CSIVolumeHandle]:
        """Return the volumes a pod mounts, by driver and handle; missing claims are skipped."""
        handles = set(pod.mounts.handles)
        for use in pod.mounts.claims:
            claim = self.claim(pod.namespace, use.name)
            if claim is not None and (handle := self.handle_of(claim)) is not None:
                handles.add(handle)
        return frozenset(handles)

    def counting_error(self, pod: MountingPod) -> str:
        """Return the error if an ephemeral claim does not belong to the pod, or ""."""
        for use in pod.mounts.claims if pod.mounts.ephemeral else ():
            claim = self.claim(pod.namespace, use.name) if use.ephemeral else None
            if claim is not None and not claim.belongs_to(pod.pod):
                return f"PVC {claim.key} was not created for pod {pod.pod.key} (pod is not owner)"
        return ""

    def handle_of(self, claim: PersistentVolumeClaim) -> CSIVolumeHandle | None:
        """Return a claim's volume; one that is not provisioned yet is identified by the claim."""
        volume = self.volume(claim.spec.volume_name) if claim.spec.volume_name else None
        if volume is not None:
            csi = volume.spec.csi
            if csi is None:
                return as_csi(volume.spec, volume.metadata.labels)
            return CSIVolumeHandle(csi.driver, csi.volume_handle) if csi.volume_handle else None
        storage_class = self.classes.get(claim.storage_class)
        if (
            storage_class is None
            or not storage_class.provisioner
            or storage_class.provisioner in _IN_TREE_UNCOUNTED
        ):
            return None
        driver = CSI_DRIVER_OF.get(storage_class.provisioner, storage_class.provisioner)
        # No driver uses such a handle: it identifies a volume that is not provisioned yet.
        return CSIVolumeHandle(driver, f"claim {claim.key}")

    def _handle_of_attached(self, attacher: str, volume: str) -> CSIVolumeHandle | None:
        persistent_volume = self._volumes.get(volume)
        if persistent_volume is None or persistent_volume.spec.csi is None:
            return None
        return CSIVolumeHandle(attacher, persistent_volume.spec.csi.volume_handle)

    # --- assumed bindings -------------------------------------------------------------------

    def assume(self, uid: str, pod_volumes: PodVolumes) -> None:
        """Assume the bindings of a placed pod."""
        self._pod_volumes[uid] = pod_volumes
        for volume, _claim in pod_volumes.static_bindings:
            stored = self._volumes.get(volume.name)
            if stored is not None and stored.spec.claim_ref != volume.spec.claim_ref:
                # A second pod may use the same claim: the volume stays assumed for the first.
                self._assumed_volumes.setdefault(volume.name, (uid, volume))
        for claim in pod_volumes.dynamic_provisions:
            self._assumed_claims.setdefault(claim.key, (uid, claim))
        self._bump()

    def assumed(self, uid: str) -> PodVolumes | None:
        """Return the bindings assumed for a pod, or None."""
        return self._pod_volumes.get(uid)

    def confirm(self, uid: str) -> None:
        """Drop a pod's entry: all its bindings are written, the informers report them."""
        self._pod_volumes.pop(uid, None)

    def revert(self, uid: str) -> None:
        """Revert the bindings assumed for a pod; without any, do nothing."""
        if self._pod_volumes.pop(uid, None) is None:
            return
        for volume, (owner, _) in list(self._assumed_volumes.items()):
            if owner == uid:
                del self._assumed_volumes[volume]
        for claim, (owner, _) in list(self._assumed_claims.items()):
            if owner == uid:
                del self._assumed_claims[claim]
        self._bump()

    # --- events -----------------------------------------------------------------------------

    def upsert(self, obj: Object) -> None:
        """Store an object, new or changed."""
        match obj:
            case PersistentVolume():
                self._put_volume(obj.name, obj)
            case PersistentVolumeClaim():
                self._put_claim(obj.key, obj)
            case StorageClass():
                self._put_class(obj.name, obj)
            case CSIDriver():
                self.drivers[obj.name] = obj
                self._bump()
            case CSIStorageCapacity():
                self._capacities[obj.key] = obj
                self._bump()
            case CSINode():
                self._migrate(obj.name, obj.migrated_plugins)
                self.attachments.upsert_csi_node(obj)
            case VolumeAttachment():
                self.attachments.upsert(obj)

    def delete(self, obj: Object) -> None:
        """Delete an object; an unknown one is ignored."""
        match obj:
            case PersistentVolume():
                self._put_volume(obj.name, None)
            case PersistentVolumeClaim():
                self._put_claim(obj.key, None)
            case StorageClass():
                self._put_class(obj.name, None)
            case CSIDriver():
                self.drivers.pop(obj.name, None)
                self._bump()
            case CSIStorageCapacity():
                self._capacities.pop(obj.key, None)
                self._bump()
            case CSINode():
                self._migrate(obj.name, frozenset())
                self.attachments.delete_csi_node(obj.name)
            case VolumeAttachment():
                self.attachments.delete(obj.name)

    def _put_volume(self, name: str, new: PersistentVolume | None) -> None:
        old = self._volumes.pop(name, None)
        if old is not None:
            self._of_class[old.storage_class].pop(name)
        if new is not None:
            self._volumes[name] = new
            self._of_class.setdefault(new.storage_class, {})[name] = new
        assumed = self._assumed_volumes.get(name)
        expired = assumed is not None and _is_newer(assumed[1], new)
        if expired:
            del self._assumed_volumes[name]
        if expired or _differs(old, new):
            self._bump()
            for key in self._claims_on.get(name, ()):
                self.attachments.mark_stale(self._nodes.mounts.users(key).values())
            self.attachments.mark_volume_stale(name)

    def _put_claim(self, key: str, new: PersistentVolumeClaim | None) -> None:
        old = self._claims.pop(key, None)
        if old is not None and old.spec.volume_name:
            self._claims_on[old.spec.volume_name].discard(key)
        if new is not None:
            self._claims[key] = new
            if new.spec.volume_name:
                self._claims_on.setdefault(new.spec.volume_name, set()).add(key)
        assumed = self._assumed_claims.get(key)
        expired = assumed is not None and _is_newer(assumed[1], new)
        if expired:
            del self._assumed_claims[key]
        if expired or _differs(old, new):
            self._bump()
            self.attachments.mark_stale(self._nodes.mounts.users(key).values())

    def _put_class(self, name: str, new: StorageClass | None) -> None:
        self.classes.pop(name, None)
        if new is not None:
            self.classes[name] = new
        self._bump()
        self.attachments.mark_stale(self._nodes.mounts.rows)

    def _migrate(self, node: str, plugins: frozenset[str]) -> None:
        if self._migrated.get(node, frozenset()) != plugins:
            self._migrated.pop(node, None)
            if plugins:
                self._migrated[node] = plugins
            self._bump()

    def _bump(self) -> None:
        self._nodes.epochs.bump(Epoch.VOLUMES)

    def fork(self, nodes: NodeTable) -> Volumes:
        """Return an independent copy over a forked node table."""
        copy = Volumes(nodes)
        copy.classes, copy.drivers = dict(self.classes), dict(self.drivers)
        copy._capacities = dict(self._capacities)
        copy._volumes, copy._claims = dict(self._volumes), dict(self._claims)
        copy._assumed_volumes = dict(self._assumed_volumes)
        copy._assumed_claims = dict(self._assumed_claims)
        copy._of_class = {name: dict(volumes) for name, volumes in self._of_class.items()}
        copy._claims_on = {name: set(keys) for name, keys in self._claims_on.items()}
        copy._pod_volumes, copy._migrated = dict(self._pod_volumes), dict(self._migrated)
        copy.attachments = self.attachments.fork(
            nodes, copy.handles_of, copy._handle_of_attached, copy.counting_error
        )
        return copy


def _is_newer(assumed: Object, stored: Object | None) -> bool:
    """Return whether the API server sent another version since the binding was assumed.

    Any other version counts: clients may compare resource versions for equality only, and what
    another program wrote is more recent than what was assumed here.
    """
    return stored is None or stored.metadata.resource_version != assumed.metadata.resource_version


def _differs(
    old: PersistentVolume | PersistentVolumeClaim | None,
    new: PersistentVolume | PersistentVolumeClaim | None,
) -> bool:
    """Return whether a field changed that scheduling reads."""
    if old is None or new is None:
        return old is not new
    before, after = old.metadata, new.metadata
    return (
        (old.spec, old.status) != (new.spec, new.status)
        or (before.uid, before.labels, before.annotations, before.owner_references)
        != (after.uid, after.labels, after.annotations, after.owner_references)
        or (before.deletion_timestamp is None) != (after.deletion_timestamp is None)
    )
