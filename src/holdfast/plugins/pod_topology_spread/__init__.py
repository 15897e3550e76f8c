"""PodTopologySpread: keep matching pods even over zones, hosts or whatever a label names.

Lives here: reading constraints (a pod's own, or the defaults), the filter for hard ones, the score
for soft ones, the hints. Counting per domain is done by ``columns.counters``, which every class of
pods shares; which pods a pod is spread among by default, by ``framework.workload_selectors``.
"""

from __future__ import annotations

from holdfast.plugins.pod_topology_spread.plugin import PodTopologySpread

__all__ = ["PodTopologySpread"]
