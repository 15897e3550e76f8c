"""The kinds of ``storage.k8s.io``: classes of volumes, drivers and attachments."""

from __future__ import annotations

from holdfast.api import scheme
from holdfast.apiserver.descriptor import Deletion, Served
from holdfast.apiserver.kinds.printers import storage
from holdfast.apiserver.kinds.rows import row
from holdfast.apiserver.tables.printer import NAME_CREATED
from holdfast.apiserver.unbuilt import Unbuilt
from holdfast.validation import list_limits
from holdfast.validation.counting import tree_of

_ANSWERED = Deletion(answers_object=True)
_ATTRIBUTES_CLASSES = row(
    "storage.k8s.io",
    "volumeattributesclasses",
    "VolumeAttributesClass",
    namespaced=False,
    short=("vac",),
)

KINDS = (
    Served(scheme.CSI_DRIVERS, printer=storage.CSI_DRIVER, deletion=_ANSWERED, needs_version=True),
    Served(
        scheme.CSI_NODES,
        lists=tree_of(list_limits.CSI_NODE),
        printer=storage.CSI_NODE,
        deletion=_ANSWERED,
        needs_version=True,
    ),
    Served(scheme.CSI_STORAGE_CAPACITIES, printer=NAME_CREATED, needs_version=True),
    Served(
        scheme.STORAGE_CLASSES,
        printer=storage.STORAGE_CLASS,
        deletion=_ANSWERED,
        unbuilt=Unbuilt(
            "StorageClasses are read by the scheduler, but Holdfast does not provision volumes"
        ),
    ),
    Served(
        scheme.VOLUME_ATTACHMENTS,
        printer=storage.VOLUME_ATTACHMENT,
        deletion=_ANSWERED,
        needs_version=True,
        unbuilt=Unbuilt(
            "VolumeAttachments are counted by the scheduler, but no volume is attached"
        ),
    ),
    Served(
        _ATTRIBUTES_CLASSES,
        printer=storage.VOLUME_ATTRIBUTES_CLASS,
        deletion=_ANSWERED,
        unbuilt=Unbuilt("VolumeAttributesClasses are stored but not read: no volume is modified"),
    ),
)
