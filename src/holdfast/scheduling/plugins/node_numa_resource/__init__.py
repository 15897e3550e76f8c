"""NodeNUMAResource: bind pods to CPUs, and to NUMA nodes for their CPUs, memory and devices.

Lives here: the plugin, its arguments, plans for pods with the same request, scores of whole nodes.
May not live here: the ledger of CPUs and how CPUs are chosen (package ``numa``).
"""

from __future__ import annotations

from holdfast.scheduling.plugins.node_numa_resource.plugin import NodeNUMAResource

__all__ = ["NodeNUMAResource"]
