"""The node agent: register nodes, renew their leases, and start and stop the pods bound to them.

Containers are simulated; everything else is real. ``SimulatedNodes`` runs any number of nodes with
three watches. The agent uses only ``client.Client``. It does not place pods and does not collect
garbage.
"""
