"""The scheduler: scheduling queue, scheduling cycle, binding cycle, preemption, event handlers.

Lives here: which pod is tried next and when a rejected pod is tried again, how a placement becomes
API writes, and how they are undone when one fails; whose turn it is to prepare a cycle; resizing
edited reservations; events about pods and reservations that are not scheduled. May not live here:
the choice of a node, which ``engine`` and ``plugins`` make without I/O. A scheduling cycle never
waits for I/O; binding cycles run in the background.
"""
