"""The plan that ``prepare`` has made, for the scheduling cycle that follows."""

from __future__ import annotations

import msgspec

from holdfast.columns.pod_info import PodInfo
from holdfast.devices.row_table import NO_ROW
from holdfast.framework.view import View
from holdfast.plugins.dynamic_resources.plan import ClaimAllocation


class PreparedPlan(msgspec.Struct, frozen=True):
    """The plan for a pod, valid until the world changes.

    Changes of claims are counted, classes have an epoch. An allocation in flight also changes the
    node of its pod, which is in the journal.
    """

    pod: PodInfo
    plan: ClaimAllocation
    version: tuple[int, int, int]

    @classmethod
    def of(cls, pod: PodInfo, view: View, plan: ClaimAllocation) -> PreparedPlan:
        """Return the plan that ``pre_filter`` has made in this view."""
        return cls(pod, plan, _version(view))

    def is_valid(self, pod: PodInfo, view: View) -> bool:
        """Return whether ``pre_filter`` would find the same for this pod in this view."""
        return (
            self.pod is pod
            and self.plan.nodes is view.nodes
            and self.version == _version(view)
            and self.plan.nominated_row == nominated_row(pod, view)
        )


def nominated_row(pod: PodInfo, view: View) -> int:
    """Return the row that the pod is nominated to, or NO_ROW."""
    node = view.world.nominations.node_of(pod.uid) or pod.pod.status.nominated_node_name
    return view.nodes.row_of.get(node, NO_ROW)


def _version(view: View) -> tuple[int, int, int]:
    return view.nodes.epochs.stamp, view.nodes.journal.seq, view.world.devices.claim_changes
