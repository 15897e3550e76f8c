"""Talk to an API server: the client library that every component uses.

Lives here: the ``Transport`` protocol and its HTTP implementation, the typed ``Client``, informers,
the work queue, the event recorder, leader election and kubeconfig loading. May not live here:
knowledge of what particular kinds mean. Components use a ``Client`` and do not know its transport;
the in-process transport is part of ``server``.
"""
