"""``holdfast cpus``: the CPUs and NUMA nodes of a node, and what holds each of them."""
