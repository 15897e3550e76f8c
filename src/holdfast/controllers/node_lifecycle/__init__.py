"""Nodes that have stopped reporting: their conditions and taints.

``heartbeats`` plans the conditions and ``taints`` plans the taints; ``zones`` limits how fast nodes
are tainted for eviction; ``controller`` watches and writes. ``controllers.taint_eviction`` evicts
pods.
"""
