"""Admission plugins of single kinds.

Lives here: those of upstream's default plugins that matter for scheduling (priority, tolerations,
scheduling gates), the checks of granted permissions, and the completion of CRDs. May not live here:
the order in which plugins run (``verbs.admission``), validation, and defaulting that needs no other
object (``api.defaults``).
"""
