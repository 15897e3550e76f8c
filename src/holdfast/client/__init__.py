"""How components talk to an API server, whichever it is.

Lives here: the one-method transport seam, the HTTP transport, the typed ``Client`` over it,
informers, the work queue, leader election, kubeconfig loading. May not live here: anything about
what the objects mean. Components hold a ``Client`` and never know which transport it has; the
in-process transport lives with the API server, which implements the same seam.
"""
