"""The node agent: register nodes, renew their leases, and start and stop the pods bound to them.

Lives here: ``SimulatedNodes``, which runs any number of nodes with three watches (containers are
simulated; everything else is real), and ``NodeAgent`` for a node that runs drivers, with its pods,
runtimes, drivers and device plugins. May not live here: placing pods, garbage collection, any
access to the cluster except by ``client.Client``.
"""
