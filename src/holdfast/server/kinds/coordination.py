"""The kind of ``coordination.k8s.io``: Lease."""

from __future__ import annotations

from holdfast.api import scheme
from holdfast.server.descriptor import KindDescriptor
from holdfast.server.kinds.printers import cluster

KINDS = (KindDescriptor(scheme.LEASES, printer=cluster.LEASE, requires_resource_version=True),)
