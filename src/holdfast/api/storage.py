"""Persistent volumes, claims, storage classes and CSI objects: the fields the scheduler reads."""

from __future__ import annotations

from holdfast.api.meta import LabelSelector, Object, ObjectReference, Struct, is_controlled_by
from holdfast.api.pod import NodeSelector, Pod, ResourceAmounts, ResourceRequirements
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
    """Requested storage and the bound volume."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class ModifyVolumeStatus(Struct, frozen=True):
    """The VolumeAttributesClass that a volume is being changed to."""

    target_volume_attributes_class_name: str = ""


class PersistentVolumeClaimStatus(Struct, frozen=True):
    """The phase (Pending, Bound or Lost), the size to grow to, and the attributes of the volume."""

    phase: str = ""
    allocated_resources: ResourceAmounts = {}
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: ModifyVolumeStatus | None = None


class PersistentVolumeClaim(Object, frozen=True):
    """A persistent volume claim."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()

    @property
    def storage_class(self) -> str:
        """The requested storage class, or ""."""
        return self.metadata.annotations.get(BETA_CLASS, self.spec.storage_class_name or "")

    @property
    def fully_bound(self) -> bool:
        """Whether binding to the volume is complete."""
        return bool(self.spec.volume_name) and BIND_COMPLETED in self.metadata.annotations

    @property
    def selected_node(self) -> str | None:
        """The node for which a volume is being provisioned, or None."""
        return self.metadata.annotations.get(SELECTED_NODE)

    @property
    def size(self) -> Quantity:
        """The requested size."""
        return _storage(self.spec.resources.requests)

    def belongs_to(self, pod: Pod) -> bool:
        """Return whether the claim was created for an ephemeral volume of this pod."""
        return self.namespace == pod.namespace and is_controlled_by(self, pod)


class VolumeNodeAffinity(Struct, frozen=True):
    """The nodes that can access a volume."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(DiskSources, frozen=True):
    """Source, size and claim of a volume."""

    capacity: ResourceAmounts = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolumeStatus(Struct, frozen=True):
    """The phase: Pending, Available, Bound, Released or Failed."""

    phase: str = ""


class PersistentVolume(Object, frozen=True):
    """A persistent volume."""

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()

    @property
    def storage_class(self) -> str:
        """The storage class, or ""."""
        return self.metadata.annotations.get(BETA_CLASS, self.spec.storage_class_name)

    @property
    def size(self) -> Quantity:
        """The capacity."""
        return _storage(self.spec.capacity)

    @property
    def reachable_from(self) -> NodeSelector | None:
        """The nodes that can access the volume; None: all."""
        return self.spec.node_affinity.required if self.spec.node_affinity else None


class TopologyRequirement(Struct, frozen=True):
    """A label that must have one of these values."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologyTerm(Struct, frozen=True):
    """Requirements, all ANDed; an empty term matches nothing."""

    match_label_expressions: tuple[TopologyRequirement, ...] = ()


class StorageClass(Object, frozen=True):
    """A storage class."""

    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologyTerm, ...] = ()

    @property
    def waits_for_first_consumer(self) -> bool:
        """Whether binding waits for the first pod that uses the claim."""
        return self.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


class VolumeLimit(Struct, frozen=True):
    """The most volumes of a driver that a node can attach."""

    count: int | None = None


class CSINodeDriver(Struct, frozen=True):
    """A driver on a node."""

    name: str = ""
    allocatable: VolumeLimit | None = None


class CSINodeSpec(Struct, frozen=True):
    """The drivers of a node."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Object, frozen=True):
    """The CSI drivers of the node with the same name."""

    spec: CSINodeSpec = CSINodeSpec()

    @property
    def migrated_plugins(self) -> frozenset[str]:
        """In-tree plugins whose volumes a CSI driver serves on this node."""
        text = self.metadata.annotations.get(MIGRATED_PLUGINS)
        return frozenset(text.split(",")) if text else frozenset()

    @property
    def limits(self) -> dict[str, int]:
        """The volume limit of each driver that has one."""
        return {
            driver.name: driver.allocatable.count
            for driver in self.spec.drivers
            if driver.allocatable is not None and driver.allocatable.count is not None
        }


class CSIDriverSpec(Struct, frozen=True):
    """Whether the driver publishes its storage capacity."""

    storage_capacity: bool | None = None


class CSIDriver(Object, frozen=True):
    """A CSI driver."""

    spec: CSIDriverSpec = CSIDriverSpec()

    @property
    def publishes_capacity(self) -> bool:
        """Whether provisioning needs a CSIStorageCapacity with enough capacity."""
        return bool(self.spec.storage_capacity)


class CSIStorageCapacity(Object, frozen=True):
    """The capacity of a driver for one storage class in one topology segment."""

    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: AmountText | None = None
    maximum_volume_size: AmountText | None = None

    @property
    def max_volume_size(self) -> int | None:
        """The size of the largest volume that fits, in bytes; None if unknown."""
        known = self.capacity if self.maximum_volume_size is None else self.maximum_volume_size
        return None if known is None else Quantity.parse(known).value()


class AttachmentSource(Struct, frozen=True):
    """The attached volume."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Struct, frozen=True):
    """Volume, node and attacher."""

    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachment(Object, frozen=True):
    """A volume that is attached, or being attached, to a node."""

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


def _storage(amounts: ResourceAmounts) -> Quantity:
    amount = amounts.get("storage")
    return _NOTHING if amount is None else Quantity.parse(amount)
