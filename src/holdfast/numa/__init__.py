"""CPU sets and NUMA nodes of pods and reservations (Koordinator's NodeNUMAResource).

Lives here: what a node's NodeResourceTopology says, choosing CPUs, hints of NUMA nodes and their
merging, and the ledger of who holds which CPUs and how much of each NUMA node (``NumaLedger``).
May not live here: devices, verdict codes, I/O, clocks, random numbers.
"""
