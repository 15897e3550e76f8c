"""The kind of ``node.k8s.io``: RuntimeClass."""

from __future__ import annotations

from holdfast.server.descriptor import KindDescriptor, untyped_resource
from holdfast.server.kinds.printers import cluster
from holdfast.server.unimplemented_features import UnimplementedFeatures

KINDS = (
    KindDescriptor(
        untyped_resource("node.k8s.io", "runtimeclasses", "RuntimeClass", namespaced=False),
        printer=cluster.RUNTIME_CLASS,
        requires_resource_version=True,
        unimplemented=UnimplementedFeatures(
            "RuntimeClasses are stored but not read: pods get neither their overhead nor their "
            "scheduling constraints"
        ),
    ),
)
