"""A Kubernetes-compatible API server: what a client says becomes what the store keeps.

Lives here: the framework-free heart (``server.ApiServer.handle``) and two thin adapters, ``http``
and ``inprocess``; below them ``kinds`` (what the server knows of single kinds), ``verbs`` (what
all kinds share), ``tables`` (how rows are printed), ``access`` (who may do what), ``schema`` (the
shapes of objects) and ``wire`` (requests and connections). May not live here: controllers
(garbage collection, namespace emptying), scheduling, anything that acts on its own rather than
answering a request. Only this room and the wiring touch the store.
"""
