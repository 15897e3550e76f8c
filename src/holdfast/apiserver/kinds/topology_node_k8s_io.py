"""The kind NodeResourceTopology of ``topology.node.k8s.io``."""

from __future__ import annotations

from holdfast.api import scheme
from holdfast.apiserver.descriptor import KindDescriptor
from holdfast.apiserver.kinds.koordinator_checks import TOPOLOGY_WARNINGS

KINDS = (KindDescriptor(scheme.NODE_RESOURCE_TOPOLOGIES, admission_plugins=(TOPOLOGY_WARNINGS,)),)
