"""PodTopologySpread: keep matching pods even over zones, hosts or whatever a label names.

Lives here: reading constraints and the filter for hard ones. Counting per domain is done by
``columns.counters``, which every class of pods shares. Not built: soft constraints
(``ScheduleAnyway``) and the cluster's default ones only express wishes and do not score yet.
"""

from __future__ import annotations

from holdfast.plugins.pod_topology_spread.plugin import PodTopologySpread

__all__ = ["PodTopologySpread"]
