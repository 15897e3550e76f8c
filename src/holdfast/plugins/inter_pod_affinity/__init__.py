"""InterPodAffinity: near some pods, far from others, and what those say about us.

Lives here: what a class of pods makes of its terms and of the terms held by standing pods, the
filter, the score and the hints. Counting per domain is done by ``columns.counters`` and
``columns.held``, which all classes share.
"""

from __future__ import annotations

from holdfast.plugins.inter_pod_affinity.plugin import InterPodAffinity

__all__ = ["InterPodAffinity"]
