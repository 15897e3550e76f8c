"""Where the bytes of a volume are, as far as that decides where a pod may run.

Both a pod's inline volumes and persistent volumes name their source in these forms. Volumes of
the storage plugins that once were part of Kubernetes are served by CSI drivers today; ``as_csi``
says which driver and under which handle.
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
"""Which driver serves what a former in-tree provisioner provided."""
ZONE_LABELS = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
MANY_ZONES = "__"
_EBS_VOLUME = re.compile(r"vol-[^/]*")


class GCEPersistentDisk(Struct, frozen=True):
    """A disk of Google's cloud."""

    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStore(Struct, frozen=True):
    """A disk of Amazon's cloud."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class AzureDisk(Struct, frozen=True):
    """A disk of Microsoft's cloud."""

    disk_uri: str = msgspec.field(default="", name="diskURI")


class StoredVolume(Struct, frozen=True):
    """A volume known by its id alone (Cinder, Portworx)."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class ISCSI(Struct, frozen=True):
    """A disk reached over iSCSI."""

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
    """The sources that pods' inline volumes and persistent volumes have in common."""

    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    cinder: StoredVolume | None = None
    portworx_volume: StoredVolume | None = None
    csi: CSISource | None = None


class Handle(NamedTuple):
    """One volume of one CSI driver."""

    driver: str
    volume: str


def as_csi(sources: DiskSources, labels: Mapping[str, str] | None = None) -> Handle | None:
    """Name the CSI volume that stands for a former in-tree one, None for any other.

    ``labels`` are a persistent volume's: Google's disks are named by their zones.

    >>> as_csi(DiskSources(cinder=StoredVolume(volume_id="v")))
    Handle(driver='cinder.csi.openstack.org', volume='v')
    """
    if (disk := sources.gce_persistent_disk) is not None:
        return Handle(CSI_DRIVER_OF[GCE_PD], _gce_handle(disk.pd_name, labels or {}))
    if (block := sources.aws_elastic_block_store) is not None:
        return Handle(CSI_DRIVER_OF[EBS], _ebs_id(block.volume_id))
    if (azure := sources.azure_disk) is not None:
        return Handle(CSI_DRIVER_OF[AZURE_DISK], azure.disk_uri)
    if sources.cinder is not None:
        return Handle(CSI_DRIVER_OF[CINDER], sources.cinder.volume_id)
    if sources.portworx_volume is not None:
        return Handle(CSI_DRIVER_OF[PORTWORX], sources.portworx_volume.volume_id)
    return None


def _gce_handle(name: str, labels: Mapping[str, str]) -> str:
    text = next((labels[key] for key in ZONE_LABELS if labels.get(key)), "UNSPECIFIED")
    zones = text.split(MANY_ZONES)
    if len(zones) > 1:
        # Zones of one region differ after the last dash only.
        return f"projects/UNSPECIFIED/regions/{zones[0].rpartition('-')[0]}/disks/{name}"
    return f"projects/UNSPECIFIED/zones/{zones[0]}/disks/{name}"


def _ebs_id(text: str) -> str:
    """Read an EBS volume id, bare or as ``aws://zone/vol-…``."""
    if not text.startswith("aws://"):
        return text
    found = text.rpartition("/")[2]
    return found if _EBS_VOLUME.fullmatch(found) else text
