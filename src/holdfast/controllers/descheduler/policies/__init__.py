"""The policies, and their registry by the names that a configuration uses."""

from __future__ import annotations

from holdfast.controllers.descheduler.policies.duplicates import RemoveDuplicates
from holdfast.controllers.descheduler.policies.low_node_load import LowNodeLoad
from holdfast.controllers.descheduler.policies.policy import DeschedulerPolicy
from holdfast.controllers.descheduler.policies.violations import (
    AntiAffinityViolations,
    NodeAffinityViolations,
    NodeTaintViolations,
    TopologySpreadViolations,
)

POLICIES: dict[str, type[DeschedulerPolicy]] = {
    policy.name: policy
    for policy in (
        NodeAffinityViolations,
        NodeTaintViolations,
        AntiAffinityViolations,
        TopologySpreadViolations,
        RemoveDuplicates,
        LowNodeLoad,
    )
}
UNBUILT = frozenset((
    "HighNodeUtilization", "LowNodeUtilization", "PodLifeTime", "RemoveFailedPods",
    "RemovePodsHavingTooManyRestarts", "CustomPriority", "FragmentationAware", "ScaleDownBinPack",
))  # fmt: skip
"""Policies of Koordinator that Holdfast does not have."""

__all__ = ["POLICIES", "UNBUILT", "DeschedulerPolicy"]
