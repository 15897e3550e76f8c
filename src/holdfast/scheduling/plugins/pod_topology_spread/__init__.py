"""PodTopologySpread: spread matching pods evenly over zones, hosts or other domains.

Lives here: reading constraints (a pod's own, or the defaults), the filter for hard ones, the score
for soft ones, the hints. May not live here: counting per domain, which ``columns.counters`` does
for all classes of pods, and the default selectors, which ``framework.workload_selectors`` finds.
"""

from __future__ import annotations

from holdfast.scheduling.plugins.pod_topology_spread.plugin import PodTopologySpread

__all__ = ["PodTopologySpread"]
