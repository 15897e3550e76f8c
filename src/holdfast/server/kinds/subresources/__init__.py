"""The subresources binding and eviction of pods.

May not live here: ``status`` and ``scale``, which several kinds have (``verbs``).
"""
