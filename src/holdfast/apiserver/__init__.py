"""A Kubernetes-compatible API server: what a client says becomes what the store keeps.

Lives here: the framework-free heart (``server.ApiServer.handle``), the verbs and subresources
around it, watches, content forms, discovery, admission, authentication and authorization, custom
resources, and two thin adapters, ``http`` and ``inprocess``. May not live here: controllers
(garbage collection, namespace emptying), scheduling, anything that acts on its own rather than
answering a request. Only this room and the wiring touch the store.
"""
