"""The kind of ``node.k8s.io``: how containers are run."""

from __future__ import annotations

from holdfast.apiserver.descriptor import Served
from holdfast.apiserver.kinds.printers import cluster
from holdfast.apiserver.kinds.rows import row
from holdfast.apiserver.unbuilt import Unbuilt

KINDS = (
    Served(
        row("node.k8s.io", "runtimeclasses", "RuntimeClass", namespaced=False),
        printer=cluster.RUNTIME_CLASS,
        needs_version=True,
        unbuilt=Unbuilt(
            "RuntimeClasses are stored but not read: pods get neither their overhead nor their "
            "scheduling constraints"
        ),
    ),
)
