"""Subresources that only some kinds have: binding, eviction, log.

May not live here: ``status``, which is an update like any other, ``scale``, and verbs on whole
objects.
"""
