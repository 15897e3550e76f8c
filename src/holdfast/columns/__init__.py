"""The cluster as columns: one row a node, strings interned, every change logged.

Lives here: ``NodeTable`` (one row a node and the pods on it), ``PodInfo`` (what the scheduler
reads of a pod, digested once), the change journal, epochs, label columns, taint sets, host ports,
kinds of pods and the counters kept over them, and the one rule of whether a request fits in what
rows have (``request_fit``). May not live here: anything that decides (a verdict, a score), any
particular plugin, I/O, clocks, dice.

Rows are small integers, reused when nodes go. Arrays have room for more rows than there are;
``NodeTable.size`` says how many are in use, ``alive`` which of those are nodes. When arrays must
grow they are replaced and the ``layout`` epoch moves: whoever holds on to an array or a
memoryview of one names that epoch.
"""
