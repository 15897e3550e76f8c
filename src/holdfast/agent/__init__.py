"""What happens on a node: pods bound to it start, run, stop; the node says that it lives.

Lives here: node registration and heartbeats, the life of a pod on its node (``simulated``: no
containers, everything else real), one ``Fleet`` that runs any number of nodes on three watches.
May not live here: deciding where pods go, deleting what nobody owns, anything that talks past
``client.Client``.
"""
