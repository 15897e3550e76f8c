"""Devices: what drivers publish, who holds what, and the search that gives claims their devices.

Lives here: pools built from ResourceSlices, the pure allocation search (selectors, counts,
alternatives, constraints, taints, shared counters, consumable capacity), the ledger of allocated
and in-flight devices (``Inventory``), and the translation of extended resources into claims
(KEP-5004). May not live here: pods' queues, verdict codes, I/O, clocks, dice.
"""
