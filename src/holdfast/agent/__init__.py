"""The node agent: register nodes, renew their leases, and start and stop the pods bound to them.

Lives here: ``SimulatedNodes``, which runs any number of nodes with three watches. Containers are
simulated; everything else is real. May not live here: placing pods, garbage collection, any access
to the cluster except by ``client.Client``.
"""
