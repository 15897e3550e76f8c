"""Carrying decisions out: queue, scheduling cycle, binding, events, informers into columns.

Lives here: what happens around a decision, in time: which pod is next, when a failed one is tried
again, how a plan becomes API writes and how it is undone. May not live here: the decision itself
(``engine`` and ``plugins``, pure). The cycle never waits for I/O; binding runs beside it.
"""
