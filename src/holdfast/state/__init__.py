"""The cluster as the scheduler sees it: the node table, and a ledger for each kind of allocation.

Lives here: nodes and pods as NumPy columns (``columns``); the ledgers of ``reservations``,
``resource_policies``, ``devices``, shared devices (``device_share``), CPUs (``numa``),
``classic_dra`` and ``volumes``; rules of ``quota`` and ``migration``; and ``recorded_allocations``,
which decides which annotations the ledgers trust. May not live here: the choice of a node
(``scheduling``), I/O, clocks, random numbers.

Only this package determines what is free.
"""
