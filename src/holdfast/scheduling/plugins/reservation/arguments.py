"""ReservationArgs as in Koordinator, and two arguments of Holdfast's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.api.field_errors import invalid
from holdfast.api.reservation_names import PRE_ALLOCATABLE, PRE_ALLOCATABLE_PRIORITY
from holdfast.api.resource_names import is_extended
from holdfast.runtime.settings import ReservationSettings
from holdfast.scheduling.framework.arguments import Arguments, PluginArgs
from holdfast.state.reservations.pre_allocation import ClusterMode

_AT_LEAST_NOTHING = (
    "min_candidate_nodes_absolute", "controller_workers", "gc_duration_seconds",
    "gc_interval_seconds", "resync_interval_seconds",
)  # fmt: skip


class PreAllocationConfig(msgspec.Struct, frozen=True, rename="camel"):
    """How reservations may pre-allocate running pods."""

    enable_cluster_mode: bool = False
    cluster_label_key: str = PRE_ALLOCATABLE
    cluster_priority_annotation_key: str = PRE_ALLOCATABLE_PRIORITY
    prefer_no_pre_allocated_pods: bool = False

    @property
    def cluster_mode(self) -> ClusterMode:
        """The label and annotation of pre-allocatable pods in mode Cluster."""
        return ClusterMode(self.cluster_label_key, self.cluster_priority_annotation_key)


class SelectorIndex(msgspec.Struct, frozen=True, rename="camel"):
    """Which labels Koordinator indexes; Holdfast indexes all labels, so this has no effect."""

    enable: bool = False
    keys: tuple[str, ...] = ()
    key_prefixes: tuple[str, ...] = ()


class ReservationArgs(PluginArgs, frozen=True):
    """The arguments of the plugin; some of them configure the reservation controller.

    ``min_candidate_nodes_*`` have no effect: preemption considers every node. ``falls_back``: an
    owner that has no reservation affinity and fits in none of its reservations may use unreserved
    resources. ``reserves_for_preemptors``: a preempting pod gets a reservation before its victims
    are evicted. 0 seconds or workers mean the default.
    """

    enable_preemption: bool = False
    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100
    controller_workers: int = 1
    gc_duration_seconds: int = 86400
    gc_interval_seconds: int = 60
    disable_garbage_collection: bool = False
    resync_interval_seconds: int = 60
    pre_allocation_config: PreAllocationConfig = PreAllocationConfig()
    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    reservation_selector_index: SelectorIndex = SelectorIndex()
    falls_back: bool = msgspec.field(default=False, name="fallBackToNode")
    reserves_for_preemptors: bool = msgspec.field(
        default=False, name="enableReservationForPreemptor"
    )

    @property
    def controller_settings(self) -> ReservationSettings:
        """The settings of the reservation controller; 0 means the default.

        ``resyncIntervalSeconds`` has no effect: metrics are computed when they are scraped.

        >>> args = ReservationArgs(gc_duration_seconds=7200, gc_interval_seconds=0)
        >>> args.controller_settings == ReservationSettings(
        ...     workers=1, gc_enabled=True, gc_after_seconds=7200, gc_interval_seconds=60.0
        ... )
        True
        """
        default = ReservationSettings()
        return ReservationSettings(
            workers=self.controller_workers or default.workers,
            gc_enabled=not self.disable_garbage_collection,
            gc_after_seconds=self.gc_duration_seconds or default.gc_after_seconds,
            gc_interval_seconds=self.gc_interval_seconds or default.gc_interval_seconds,
        )

    def ignores(self, resource: str) -> bool:
        """Tell whether reservations are not considered for a resource."""
        group, slash, _ = resource.partition("/")
        return resource in self.ignored_resources or (
            bool(slash) and group in self.ignored_resource_groups
        )


def read_args(given: Mapping[str, Any]) -> ReservationArgs:
    """Read the arguments; BadConfiguration lists every wrong field."""
    wrong = Arguments("Reservation")
    args = wrong.read(ReservationArgs, given)
    percentage = args.min_candidate_nodes_percentage
    if not 0 <= percentage <= 100:
        message = "not in valid range [0, 100]"
        wrong.append(invalid("minCandidateNodesPercentage", percentage, message))
    names = dict(zip(args.__struct_fields__, args.__struct_encode_fields__, strict=True))
    for field in _AT_LEAST_NOTHING:
        if getattr(args, field) < 0:
            message = "not in valid range [0, inf)"
            wrong.append(invalid(names[field], getattr(args, field), message))
    for i, name in enumerate(args.ignored_resources):
        if not is_extended(name):
            message = "is an invalid extended resource name"
            wrong.append(invalid(f"ignoredResources[{i}]", name, message))
    for i, group in enumerate(args.ignored_resource_groups):
        path = f"ignoredResourceGroups[{i}]"
        if "/" in group:
            wrong.append(invalid(path, group, "resource group name can't contain '/'"))
        elif group == "kubernetes.io":
            wrong.append(invalid(path, group, "is not a group of extended resources"))
    wrong.refuse_if_wrong()
    return args
