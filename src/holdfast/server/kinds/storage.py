"""The kinds of ``storage.k8s.io``: storage classes, CSI drivers, volume attachments."""

from __future__ import annotations

from holdfast.api import scheme
from holdfast.api.validation import list_limits
from holdfast.api.validation.counting import tree_of
from holdfast.server.descriptor import DeletionStrategy, KindDescriptor, untyped_resource
from holdfast.server.kinds.printers import storage
from holdfast.server.tables.printer import NAME_CREATED
from holdfast.server.unimplemented_features import UnimplementedFeatures

_RETURNS_OBJECT = DeletionStrategy(returns_object=True)
_ATTRIBUTES_CLASSES = untyped_resource(
    "storage.k8s.io",
    "volumeattributesclasses",
    "VolumeAttributesClass",
    namespaced=False,
    short=("vac",),
)

KINDS = (
    KindDescriptor(
        scheme.CSI_DRIVERS,
        printer=storage.CSI_DRIVER,
        deletion=_RETURNS_OBJECT,
        requires_resource_version=True,
    ),
    KindDescriptor(
        scheme.CSI_NODES,
        list_limits=tree_of(list_limits.CSI_NODE),
        printer=storage.CSI_NODE,
        deletion=_RETURNS_OBJECT,
        requires_resource_version=True,
    ),
    KindDescriptor(
        scheme.CSI_STORAGE_CAPACITIES, printer=NAME_CREATED, requires_resource_version=True
    ),
    KindDescriptor(
        scheme.STORAGE_CLASSES,
        printer=storage.STORAGE_CLASS,
        deletion=_RETURNS_OBJECT,
        unimplemented=UnimplementedFeatures(
            "StorageClasses are read by the scheduler, but Holdfast does not provision volumes"
        ),
    ),
    KindDescriptor(
        scheme.VOLUME_ATTACHMENTS,
        printer=storage.VOLUME_ATTACHMENT,
        deletion=_RETURNS_OBJECT,
        requires_resource_version=True,
        unimplemented=UnimplementedFeatures(
            "VolumeAttachments are counted by the scheduler, but no volume is attached"
        ),
    ),
    KindDescriptor(
        _ATTRIBUTES_CLASSES,
        printer=storage.VOLUME_ATTRIBUTES_CLASS,
        deletion=_RETURNS_OBJECT,
        unimplemented=UnimplementedFeatures(
            "VolumeAttributesClasses are stored but not read: no volume is modified"
        ),
    ),
)
