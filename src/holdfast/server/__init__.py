"""A Kubernetes-compatible API server on top of a store.

Lives here: the request handler (``api_server``) with two transports, ``https_server``
and ``inprocess``; ``kinds`` (a descriptor of each kind), ``verbs`` (common to all kinds),
``tables`` (printer columns), ``access`` (authentication and authorization), ``schema`` (fields,
defaulting, pruning) and ``wire`` (connections, bodies, negotiation). May not live here:
controllers (garbage collection, deletion of a namespace's objects) and scheduling. Only this
package, ``embedded_server`` and ``testing`` import ``store``.
"""
