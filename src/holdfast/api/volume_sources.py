"""Sources of volumes: the fields that scheduling depends on.

A pod's inline volumes and persistent volumes have the same sources. Volumes of former in-tree
plugins are served by CSI drivers today; ``as_csi`` returns the driver and the volume handle.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from holdfast.api.meta import Struct

EBS, GCE_PD = "kubernetes.io/aws-ebs", "kubernetes.io/gce-pd"
AZURE_DISK, CINDER = "kubernetes.io/azure-disk", "kubernetes.io/cinder"
PORTWORX = "kubernetes.io/portworx-volume"
CSI_DRIVER_OF = {
    EBS: "ebs.csi.aws.com", GCE_PD: "pd.csi.storage.gke.io", AZURE_DISK: "disk.csi.azure.com",
    CINDER: "cinder.csi.openstack.org", PORTWORX: "pxd.portworx.com",
}  # fmt: skip
"""The CSI driver that replaces each in-tree plugin."""
ZONE_LABELS = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
ZONE_SEPARATOR = "__"
_EBS_VOLUME = re.compile(r"vol-[^/]*")


class GCEPersistentDisk(Struct, frozen=True):
    """A Google Compute Engine disk."""

    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStore(Struct, frozen=True):
    """An Amazon EBS volume."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class AzureDisk(Struct, frozen=True):
    """An Azure disk."""

    disk_uri: str = msgspec.field(default="", name="diskURI")


class StoredVolume(Struct, frozen=True):
    """A volume identified by its id (Cinder, Portworx)."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class ISCSI(Struct, frozen=True):
    """An iSCSI disk."""

    iqn: str = ""
    read_only: bool = False


class RBD(Struct, frozen=True):
    """A Ceph block device."""

    monitors: tuple[str, ...] = ()
    pool: str = "rbd"
    image: str = ""
    read_only: bool = False


class CSISource(Struct, frozen=True):
    """A volume of a CSI driver; inline ones have no handle."""

    driver: str = ""
    volume_handle: str = ""


class DiskSources(Struct, frozen=True):
    """The sources common to inline volumes of pods and persistent volumes."""

    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    cinder: StoredVolume | None = None
    portworx_volume: StoredVolume | None = None
    csi: CSISource | None = None


class CSIVolumeHandle(NamedTuple):
    """A CSI driver and its handle of a volume."""

    driver: str
    volume: str


def as_csi(sources: DiskSources, labels: Mapping[str, str] | None = None) -> CSIVolumeHandle | None:
    """Return the CSI volume that replaces a former in-tree volume, None for any other.

    ``labels`` are those of a persistent volume: the handle of a GCE disk contains its zone.

    >>> as_csi(DiskSources(cinder=StoredVolume(volume_id="v")))
    CSIVolumeHandle(driver='cinder.csi.openstack.org', volume='v')
    """
    if (disk := sources.gce_persistent_disk) is not None:
        return CSIVolumeHandle(CSI_DRIVER_OF[GCE_PD], _gce_handle(disk.pd_name, labels or {}))
    if (block := sources.aws_elastic_block_store) is not None:
        return CSIVolumeHandle(CSI_DRIVER_OF[EBS], _ebs_id(block.volume_id))
    if (azure := sources.azure_disk) is not None:
        return CSIVolumeHandle(CSI_DRIVER_OF[AZURE_DISK], azure.disk_uri)
    if sources.cinder is not None:
        return CSIVolumeHandle(CSI_DRIVER_OF[CINDER], sources.cinder.volume_id)
    if sources.portworx_volume is not None:
        return CSIVolumeHandle(CSI_DRIVER_OF[PORTWORX], sources.portworx_volume.volume_id)
    return None


def _gce_handle(name: str, labels: Mapping[str, str]) -> str:
    text = next((labels[key] for key in ZONE_LABELS if labels.get(key)), "UNSPECIFIED")
    zones = text.split(ZONE_SEPARATOR)
    if len(zones) > 1:
        # The region is the zone without its last part.
        return f"projects/UNSPECIFIED/regions/{zones[0].rpartition('-')[0]}/disks/{name}"
    return f"projects/UNSPECIFIED/zones/{zones[0]}/disks/{name}"


def _ebs_id(text: str) -> str:
    """Return the id of an EBS volume, given as an id or as ``aws://zone/vol-…``."""
    if not text.startswith("aws://"):
        return text
    volume_id = text.rpartition("/")[2]
    return volume_id if _EBS_VOLUME.fullmatch(volume_id) else text
