"""The processes of Holdfast: each connects components with settings, clients and servers.

Lives here: a module for each command that runs until it is stopped, the embedded ``cluster`` that
has all of them in one process, and ``elected``, which works while it holds a Lease. May not live
here: flags and texts for people (``cli``), and the work of a component.

It is separate from ``runtime`` because it imports everything, and everything imports ``runtime``.
"""
