"""The ledger of volumes: what there is, and what was promised to claims but is not written yet.

A promise lays a changed volume or claim over the stored one: a volume that names the claim it is
to serve, a claim that names the node its volume is to be made for. It stands until the API server
tells a newer version of the object, or until it is withdrawn.

The ``volumes`` epoch moves whenever anything deciding reads of these objects changes. What is
attached where has columns of its own (``attachments``).
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
from holdfast.columns.mounts import Mounter
from holdfast.columns.node_table import NodeTable
from holdfast.columns.volumes.attachments import Attachments
from holdfast.columns.volumes.matching import Mask, Reach

_IN_TREE_UNSERVED = frozenset({"kubernetes.io/vsphere-volume", "kubernetes.io/azure-file"})
"""Provisioners of old whose volumes no driver is held to count."""
_NO_VOLUMES: Mapping[str, PersistentVolume] = {}


@dataclass(frozen=True, slots=True)
class Promise:
    """What a placed pod still waits for: volumes kept for claims, claims given to a node.

    ``kept`` pairs each chosen volume, as it is to be written, with the claim it serves.
    """

    kept: tuple[tuple[PersistentVolume, PersistentVolumeClaim], ...] = ()
    provisioned: tuple[PersistentVolumeClaim, ...] = ()


class Volumes:
    """Everything known about storage; one room of the world."""

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
        self._promises: dict[str, Promise] = {}
        self._migrated: dict[str, frozenset[str]] = {}
        self.attachments = Attachments(
            nodes, self.handles_of, self._handle_of_attached, self.doubt_about
        )
        self.reach = Reach(nodes)

    # --- what others read -------------------------------------------------------------------

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """A claim, as promised if it is."""
        key = f"{namespace}/{name}" if namespace else name
        assumed = self._assumed_claims.get(key)
        return assumed[1] if assumed is not None else self._claims.get(key)

    def volume(self, name: str) -> PersistentVolume | None:
        """A volume, as promised if it is."""
        assumed = self._assumed_volumes.get(name)
        return assumed[1] if assumed is not None else self._volumes.get(name)

    def volumes_of(self, storage_class: str) -> Iterable[PersistentVolume]:
        """The volumes of a class, each as promised if it is."""
        stored = self._of_class.get(storage_class, _NO_VOLUMES)
        if not self._assumed_volumes:
            return stored.values()
        return [self._assumed_volumes.get(name, ("", v))[1] for name, v in stored.items()]

    def capacities_of(self, storage_class: str) -> list[CSIStorageCapacity]:
        """What drivers say about the room for a class."""
        return [c for c in self._capacities.values() if c.storage_class_name == storage_class]

    def reached(self, volume: PersistentVolume) -> Mask:
        """Tell which rows reach a volume, by its own word or by that of a driver on the node."""
        mask = self.reach.mask(volume.reachable_from)
        plugin = zoned_plugin(volume.spec)
        if plugin is None or not self._migrated:
            return mask
        row_of = self._nodes.row_of
        nodes = (name for name, plugins in self._migrated.items() if plugin in plugins)
        rows = [row_of[name] for name in nodes if name in row_of]
        mask[rows] = self.reach.mask(reachable_as_csi(volume, plugin))[rows]
        return mask

    def handles_of(self, pod: Mounter) -> frozenset[CSIVolumeHandle]:
        """The volumes a pod mounts, by driver; a claim that is not there counts for nothing."""
        found = set(pod.mounts.handles)
        for use in pod.mounts.claims:
            claim = self.claim(pod.namespace, use.name)
            if claim is not None and (handle := self.handle_of(claim)) is not None:
                found.add(handle)
        return frozenset(found)

    def doubt_about(self, pod: Mounter) -> str:
        """Say if a claim that should have been made for a pod was not, or ""."""
        for use in pod.mounts.claims if pod.mounts.ephemeral else ():
            claim = self.claim(pod.namespace, use.name) if use.ephemeral else None
            if claim is not None and not claim.belongs_to(pod.pod):
                return f"PVC {claim.key} was not created for pod {pod.pod.key} (pod is not owner)"
        return ""

    def handle_of(self, claim: PersistentVolumeClaim) -> CSIVolumeHandle | None:
        """The volume behind a claim; one not provisioned yet is known by the claim."""
        volume = self.volume(claim.spec.volume_name) if claim.spec.volume_name else None
        if volume is not None:
            csi = volume.spec.csi
            if csi is None:
                return as_csi(volume.spec, volume.metadata.labels)
            return CSIVolumeHandle(csi.driver, csi.volume_handle) if csi.volume_handle else None
        found = self.classes.get(claim.storage_class)
        if found is None or not found.provisioner or found.provisioner in _IN_TREE_UNSERVED:
            return None
        driver = CSI_DRIVER_OF.get(found.provisioner, found.provisioner)
        # No driver gives a handle like this one: it stands for a volume that is still to be made.
        return CSIVolumeHandle(driver, f"claim {claim.key}")

    def _handle_of_attached(self, attacher: str, volume: str) -> CSIVolumeHandle | None:
        found = self._volumes.get(volume)
        if found is None or found.spec.csi is None:
            return None
        return CSIVolumeHandle(attacher, found.spec.csi.volume_handle)

    # --- promises ---------------------------------------------------------------------------

    def promise(self, uid: str, promise: Promise) -> None:
        """Enter what a placed pod was promised."""
        self._promises[uid] = promise
        for volume, _claim in promise.kept:
            stored = self._volumes.get(volume.name)
            if stored is not None and stored.spec.claim_ref != volume.spec.claim_ref:
                # Whoever promised it first keeps the promise: a second pod may share the claim.
                self._assumed_volumes.setdefault(volume.name, (uid, volume))
        for claim in promise.provisioned:
            self._assumed_claims.setdefault(claim.key, (uid, claim))
        self._moved()

    def promised(self, uid: str) -> Promise | None:
        """What a pod was promised, or None."""
        return self._promises.get(uid)

    def settle(self, uid: str) -> None:
        """Everything promised is written: from now on the API server speaks for it."""
        self._promises.pop(uid, None)

    def withdraw(self, uid: str) -> None:
        """Take a promise back; one that is not there is fine."""
        if self._promises.pop(uid, None) is None:
            return
        for volume, (owner, _) in list(self._assumed_volumes.items()):
            if owner == uid:
                del self._assumed_volumes[volume]
        for claim, (owner, _) in list(self._assumed_claims.items()):
            if owner == uid:
                del self._assumed_claims[claim]
        self._moved()

    # --- what the world tells ---------------------------------------------------------------

    def upsert(self, obj: Object) -> None:
        """Take in an object, new or changed."""
        match obj:
            case PersistentVolume():
                self._put_volume(obj.name, obj)
            case PersistentVolumeClaim():
                self._put_claim(obj.key, obj)
            case StorageClass():
                self._put_class(obj.name, obj)
            case CSIDriver():
                self.drivers[obj.name] = obj
                self._moved()
            case CSIStorageCapacity():
                self._capacities[obj.key] = obj
                self._moved()
            case CSINode():
                self._migrate(obj.name, obj.migrated_plugins)
                self.attachments.upsert_drivers(obj)
            case VolumeAttachment():
                self.attachments.upsert(obj)

    def delete(self, obj: Object) -> None:
        """Let an object go; an unknown one is fine."""
        match obj:
            case PersistentVolume():
                self._put_volume(obj.name, None)
            case PersistentVolumeClaim():
                self._put_claim(obj.key, None)
            case StorageClass():
                self._put_class(obj.name, None)
            case CSIDriver():
                self.drivers.pop(obj.name, None)
                self._moved()
            case CSIStorageCapacity():
                self._capacities.pop(obj.key, None)
                self._moved()
            case CSINode():
                self._migrate(obj.name, frozenset())
                self.attachments.delete_drivers(obj.name)
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
        expired = assumed is not None and _is_news(assumed[1], new)
        if expired:
            del self._assumed_volumes[name]
        if expired or _differs(old, new):
            self._moved()
            for key in self._claims_on.get(name, ()):
                self.attachments.touch(self._nodes.mounts.users(key).values())
            self.attachments.touch_volume(name)

    def _put_claim(self, key: str, new: PersistentVolumeClaim | None) -> None:
        old = self._claims.pop(key, None)
        if old is not None and old.spec.volume_name:
            self._claims_on[old.spec.volume_name].discard(key)
        if new is not None:
            self._claims[key] = new
            if new.spec.volume_name:
                self._claims_on.setdefault(new.spec.volume_name, set()).add(key)
        assumed = self._assumed_claims.get(key)
        expired = assumed is not None and _is_news(assumed[1], new)
        if expired:
            del self._assumed_claims[key]
        if expired or _differs(old, new):
            self._moved()
            self.attachments.touch(self._nodes.mounts.users(key).values())

    def _put_class(self, name: str, new: StorageClass | None) -> None:
        self.classes.pop(name, None)
        if new is not None:
            self.classes[name] = new
        self._moved()
        self.attachments.touch(self._nodes.mounts.rows)

    def _migrate(self, node: str, plugins: frozenset[str]) -> None:
        if self._migrated.get(node, frozenset()) != plugins:
            self._migrated.pop(node, None)
            if plugins:
                self._migrated[node] = plugins
            self._moved()

    def _moved(self) -> None:
        self._nodes.epochs.bump("volumes")

    def fork(self, nodes: NodeTable) -> Volumes:
        """An independent copy over a forked picture."""
        copy = Volumes(nodes)
        copy.classes, copy.drivers = dict(self.classes), dict(self.drivers)
        copy._capacities = dict(self._capacities)
        copy._volumes, copy._claims = dict(self._volumes), dict(self._claims)
        copy._assumed_volumes = dict(self._assumed_volumes)
        copy._assumed_claims = dict(self._assumed_claims)
        copy._of_class = {name: dict(volumes) for name, volumes in self._of_class.items()}
        copy._claims_on = {name: set(keys) for name, keys in self._claims_on.items()}
        copy._promises, copy._migrated = dict(self._promises), dict(self._migrated)
        copy.attachments = self.attachments.fork(
            nodes, copy.handles_of, copy._handle_of_attached, copy.doubt_about
        )
        return copy


def _is_news(assumed: Object, told: Object | None) -> bool:
    """Tell whether the API server said something after the promise was made."""
    return told is None or told.metadata.resource_version != assumed.metadata.resource_version


def _differs(
    old: PersistentVolume | PersistentVolumeClaim | None,
    new: PersistentVolume | PersistentVolumeClaim | None,
) -> bool:
    """Tell whether anything changed that deciding reads."""
    if old is None or new is None:
        return old is not new
    before, after = old.metadata, new.metadata
    return (
        (old.spec, old.status) != (new.spec, new.status)
        or (before.uid, before.labels, before.annotations, before.owner_references)
        != (after.uid, after.labels, after.annotations, after.owner_references)
        or (before.deletion_timestamp is None) != (after.deletion_timestamp is None)
    )
