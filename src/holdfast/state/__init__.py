"""The cluster as the scheduler sees it: the node table, and one ledger for each kind of promise.

Lives here: nodes and pods as NumPy columns (``columns``); the ledgers of ``reservations``,
``resource_policies``, ``devices``, shared devices (``device_share``), CPUs (``numa``),
``classic_dra`` and ``volumes``; rules of ``quota`` and ``migration``; and ``recorded_allocations``,
which decides what the ledgers believe of annotations. May not live here: the choice of a node
(``scheduling``), I/O, clocks, random numbers.

Nothing outside of this package says what is free.
"""
