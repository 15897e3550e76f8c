"""The plugin resourcepolicy: ordered units of nodes with caps (KEP-594), filled by priority.

Tiers are compared before any score, so a unit of higher priority is filled first, whatever scores
the other plugins give its nodes; inside a tier the scores decide. All results are computed once for
each combination of units and looked up by row.
"""

from __future__ import annotations

from holdfast.scheduling.plugins.resource_policy.plugin import ResourcePolicyPlugin

__all__ = ["ResourcePolicyPlugin"]
