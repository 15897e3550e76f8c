"""``holdfast cpus``: the CPUs and NUMA nodes of a node, and their holders."""
