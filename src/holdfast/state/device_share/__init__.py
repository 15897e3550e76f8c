"""GPUs and other devices that pods share by percent (Koordinator's DeviceShare).

Lives here: requests for such devices and their normal form, choosing devices of a node (by minor,
topology, partitions and virtual functions), and the ledger of what pods and reservations hold
(``DeviceShareLedger``). May not live here: DRA (``devices``), verdict codes, I/O, clocks, random
numbers.
"""
