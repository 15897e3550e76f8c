"""InterPodAffinity: affinity and anti-affinity between pods, including existing pods' terms.

Lives here: the plan for the terms of a class of pods and of existing pods, the filter, the score
and the hints. May not live here: counting per domain, which ``columns.counters`` and
``columns.existing_terms`` do for all classes.
"""

from __future__ import annotations

from holdfast.scheduling.plugins.inter_pod_affinity.plugin import InterPodAffinity

__all__ = ["InterPodAffinity"]
