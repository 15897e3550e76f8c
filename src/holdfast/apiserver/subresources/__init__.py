"""What hangs below an object's name: binding, eviction, scale, finalize, log.

Lives here: one module a subresource, and the table of them (``table``). May not live here:
``status``, which is an update like any other, and verbs on whole objects.
"""
