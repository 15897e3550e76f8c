"""Volumes, claims and what says where they can be reached, as the scheduler reads them."""

from __future__ import annotations

from holdfast.api.meta import LabelSelector, Object, ObjectReference, Struct
from holdfast.api.pod import NodeSelector, Pod, ResourceAmounts, Resources
from holdfast.api.quantity import AmountText, Quantity
from holdfast.api.volume_sources import DiskSources

BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
_NOTHING = Quantity.parse("0")


class PersistentVolumeClaimSpec(Struct, frozen=True):
    """What storage is asked for, and which volume it got."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: Resources = Resources()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(Struct, frozen=True):
    """Pending, Bound or Lost."""

    phase: str = ""


class PersistentVolumeClaim(Object, frozen=True):
    """A wish for storage."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()

    @property
    def storage_class(self) -> str:
        """The storage class asked for, or ""."""
        return self.metadata.annotations.get(BETA_CLASS, self.spec.storage_class_name or "")

    @property
    def fully_bound(self) -> bool:
        """Whether the volume is the claim's, for good."""
        return bool(self.spec.volume_name) and BIND_COMPLETED in self.metadata.annotations

    @property
    def selected_node(self) -> str | None:
        """The node a volume is being provisioned for, None while nobody chose one."""
        return self.metadata.annotations.get(SELECTED_NODE)

    @property
    def size(self) -> Quantity:
        """How much is asked for."""
        return _storage(self.spec.resources.requests)

    def belongs_to(self, pod: Pod) -> bool:
        """Whether it was made for an ephemeral volume of this very pod."""
        return self.namespace == pod.namespace and any(
            owner.controller and owner.uid == pod.uid for owner in self.metadata.owner_references
        )


class VolumeNodeAffinity(Struct, frozen=True):
    """From which nodes a volume can be reached."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(DiskSources, frozen=True):
    """What the storage is and whose."""

    capacity: ResourceAmounts = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolumeStatus(Struct, frozen=True):
    """Pending, Available, Bound, Released or Failed."""

    phase: str = ""


class PersistentVolume(Object, frozen=True):
    """A piece of storage."""

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()

    @property
    def storage_class(self) -> str:
        """The storage class it belongs to, or ""."""
        return self.metadata.annotations.get(BETA_CLASS, self.spec.storage_class_name)

    @property
    def size(self) -> Quantity:
        """How much it holds."""
        return _storage(self.spec.capacity)

    @property
    def reachable_from(self) -> NodeSelector | None:
        """Which nodes reach it; None: every one."""
        return self.spec.node_affinity.required if self.spec.node_affinity else None


class TopologyRequirement(Struct, frozen=True):
    """A label that must have one of the values."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologyTerm(Struct, frozen=True):
    """Labels, all ANDed; an empty term matches nothing."""

    match_label_expressions: tuple[TopologyRequirement, ...] = ()


class StorageClass(Object, frozen=True):
    """How volumes are provisioned."""

    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologyTerm, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether a volume is chosen only once a pod wants it."""
        return self.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


class VolumeLimit(Struct, frozen=True):
    """How many volumes of a driver a node can attach."""

    count: int | None = None


class CSINodeDriver(Struct, frozen=True):
    """A driver on a node."""

    name: str = ""
    allocatable: VolumeLimit | None = None


class CSINodeSpec(Struct, frozen=True):
    """The drivers of a node."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Object, frozen=True):
    """Which CSI drivers a node has; it goes by the node's name."""

    spec: CSINodeSpec = CSINodeSpec()

    @property
    def migrated(self) -> frozenset[str]:
        """In-tree plugins whose volumes a CSI driver serves on this node."""
        text = self.metadata.annotations.get(MIGRATED_PLUGINS)
        return frozenset(text.split(",")) if text else frozenset()

    @property
    def limits(self) -> dict[str, int]:
        """How many volumes of each driver; a driver without a limit is left out."""
        return {
            driver.name: driver.allocatable.count
            for driver in self.spec.drivers
            if driver.allocatable is not None and driver.allocatable.count is not None
        }


class CSIDriverSpec(Struct, frozen=True):
    """Whether the driver says how much room it has left."""

    storage_capacity: bool | None = None


class CSIDriver(Object, frozen=True):
    """A CSI driver."""

    spec: CSIDriverSpec = CSIDriverSpec()

    @property
    def tells_capacity(self) -> bool:
        """Whether a volume is provisioned only where a CSIStorageCapacity has room for it."""
        return bool(self.spec.storage_capacity)


class CSIStorageCapacity(Object, frozen=True):
    """How much room a driver has for one storage class in one part of the cluster."""

    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: AmountText | None = None
    maximum_volume_size: AmountText | None = None

    @property
    def largest(self) -> int | None:
        """The largest volume there is room for, in bytes; None if nobody knows."""
        known = self.capacity if self.maximum_volume_size is None else self.maximum_volume_size
        return None if known is None else Quantity.parse(known).value()


class AttachmentSource(Struct, frozen=True):
    """Which volume."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Struct, frozen=True):
    """Which volume is attached where, by whom."""

    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachment(Object, frozen=True):
    """A volume that is, or is about to be, attached to a node."""

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


def _storage(amounts: ResourceAmounts) -> Quantity:
    found = amounts.get("storage")
    return _NOTHING if found is None else Quantity.parse(found)
