"""Subresources that only some kinds have: binding and eviction.

May not live here: ``status``, which is an update like any other, ``scale``, and verbs on whole
objects.
"""
