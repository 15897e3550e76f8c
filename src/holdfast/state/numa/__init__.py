"""CPU sets and NUMA nodes of pods and reservations (Koordinator's NodeNUMAResource).

Lives here: what a node's NodeResourceTopology says, choosing CPUs, hints of NUMA nodes and their
merging, and the ledger of the CPUs and amounts that pods and reservations hold (``NumaLedger``).
May not live here: devices, verdict codes, I/O, clocks, random numbers.
"""
