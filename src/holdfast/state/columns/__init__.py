"""The cluster as NumPy columns: one row per node, strings interned, every change logged.

Lives here: ``NodeTable`` (nodes as rows, and the pods on them), ``PodInfo`` (what the scheduler
reads of a pod), journals and epochs that say what changed, columns of labels, taints, ports and
volumes, counters of pods per selector, the rule of whether a request fits (``request_fit``), and
the consumers of claims in flight, which both generations of DRA count.
May not live here: verdicts, scores, knowledge about single plugins, I/O, clocks, randomness.

A row is a small integer and is reused after its node is deleted. Arrays have more cells than there
are rows: ``NodeTable.size`` is the number of rows in use, ``alive`` tells which of them are nodes.
Growing replaces all arrays and moves the ``layout`` epoch: code that keeps an array or a memoryview
of one must depend on that epoch.
"""
