"""The policies' names, as annotations, labels and arguments spell them."""

from __future__ import annotations

FULL_PCPUS = "FullPCPUs"
"""Bind policy: whole cores, as few as possible."""
SPREAD_BY_PCPUS = "SpreadByPCPUs"
"""Bind policy: CPUs of different cores."""
DEFAULT_BIND_POLICY = "Default"
BIND_POLICIES = (FULL_PCPUS, SPREAD_BY_PCPUS)
"""The bind policies by which CPUs are chosen; others, such as ConstrainedBurst, have no effect."""

FULL_PCPUS_ONLY = "FullPCPUsOnly"
"""The value of a node's label for a required FullPCPUs of all its pods."""

PCPU_LEVEL = "PCPULevel"
"""Exclusive policy: not on a core that a pod of the same policy uses."""
NUMA_NODE_LEVEL = "NUMANodeLevel"
"""Exclusive policy: not on a NUMA node that a pod of the same policy uses."""

MOST_ALLOCATED = "MostAllocated"
LEAST_ALLOCATED = "LeastAllocated"

BEST_EFFORT = "BestEffort"
RESTRICTED = "Restricted"
SINGLE_NUMA_NODE = "SingleNUMANode"
NUMA_POLICIES = (BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE)

EXCLUSIVE_REQUIRED = "Required"
