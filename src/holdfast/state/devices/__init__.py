"""Dynamic resource allocation: published devices, allocated devices, and the allocation search.

Lives here: pools built from ResourceSlices; the search (selectors, counts, subrequests,
constraints, taints, shared counters, consumable capacity); the ledger of allocated and in-flight
devices (``Inventory``); claims for extended resources (KEP-5004); for users, the map of devices and
the obstacles to an allocation. May not live here: scheduling queues, verdict codes, I/O, clocks,
random numbers.
"""
