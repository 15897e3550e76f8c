"""Talk to an API server: the client library that every component uses.

This package contains the ``Transport`` protocol and its HTTP implementation, the typed ``Client``,
informers, the work queue, the event recorder, leader election and kubeconfig loading. It contains
no knowledge of what particular kinds mean. Components use a ``Client`` and do not know its
transport; the in-process transport is part of ``apiserver``.
"""
