"""The plugin: read the devices that a pod requests, and decide when to try it again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cache
from typing import Any

from holdfast.api import koordinator_names as names
from holdfast.api.pod import Pod
from holdfast.api.requests import request_nanos
from holdfast.api.reservation_names import IGNORED
from holdfast.runtime.errors import BadRequest, HoldfastError
from holdfast.runtime.shared_cache import SharedCache
from holdfast.scheduling.framework.events import ActionType, EventResource
from holdfast.scheduling.framework.plugin import (
    ClusterEvent,
    Code,
    Plugin,
    Reject,
    Scope,
    Skip,
    Traits,
)
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.plugins.device_share.allocator import DeviceAllocator, DevicePreAllocator
from holdfast.scheduling.plugins.device_share.arguments import read_args
from holdfast.scheduling.plugins.device_share.searches import (
    Searches,
    StateResult,
    asked_by,
    asks_for_devices,
)
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.device_share.ledger import DeviceOptions
from holdfast.state.device_share.requests import device_resources
from holdfast.state.numa.pod_trials import PodTrials
from holdfast.state.reservations.matching import ReservationMatch

_GUIDING = (
    names.DEVICE_ALLOCATE_HINT, names.DEVICE_JOINT_ALLOCATE, names.GPU_PARTITION_SPEC,
    names.RESOURCE_SPEC, names.NUMA_TOPOLOGY_SPEC,
)  # fmt: skip
"""Annotations that guide the choice of devices, or of NUMA nodes."""
_LABELS = (names.GPU_ISOLATION_PROVIDER, names.QOS_CLASS, names.PRIORITY_CLASS, IGNORED)
"""Labels that decide which devices a pod gets."""
_MOST_SEARCHES = 256
"""Requests whose results are kept."""


class DeviceShare(Plugin):
    """Allocates GPUs, RDMA cards and FPGAs of nodes that have a Device object."""

    name = "DeviceShare"
    traits = Traits(
        scope=Scope.ROW,
        epochs=(Epoch.SHARED_DEVICES, Epoch.RESERVATIONS, Epoch.CLASSES, Epoch.NUMA),
        events_to_register={
            EventResource.DEVICE: (),
            EventResource.NODE: (
                ActionType.ADD,
                ActionType.UPDATE_NODE_ALLOCATABLE,
                ActionType.UPDATE_NODE_LABEL,
            ),
            EventResource.ASSIGNED_POD: (ActionType.DELETE,),
            EventResource.UNSCHEDULABLE_POD: (),
            EventResource.RESERVATION: (),
        },
        reads_outside_spec=True,
        comparable_plans=True,
        accepts_slices=True,
    )
    plan_classes = (DeviceAllocator, DevicePreAllocator)

    def __init__(self, args: Mapping[str, Any] | None = None) -> None:
        self.args = read_args(args or {})
        self._options = DeviceOptions(self.args.strategy, self.args.aligns)

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return the request for devices, and everything else that affects its result."""
        outside = self.key_outside_spec(pod, view)
        return None if outside is None else (pod.request, pod.pod.spec.priority, outside)

    def key_outside_spec(self, pod: PodInfo, view: View) -> Hashable:
        """Return annotations, labels and reservations of a pod that requests devices."""
        if not asks_for_devices(pod, view.nodes.resources):
            return None
        matched = view.matched_reservations
        return (_guiding_metadata(pod.pod), None if matched is None else matched.key)

    def pre_filter(self, pod: PodInfo, view: View) -> DeviceAllocator | Skip | Reject:
        """Read what the pod asks of devices; it is the normal form of its requests."""
        world, resources = view.world, view.nodes.resources
        world.device_share.options[pod.scheduler_name] = self._options
        if not world.device_share or not asks_for_devices(pod, resources):
            return Skip()
        with_class = tuple(sorted(world.devices.device_backed(pod.request)))
        searches_for = self._searches_for(pod, view)
        asked = searches_for(frozenset()).asked
        if isinstance(asked, StateResult) and not with_class:
            return Reject(Code(asked.code), asked.reasons) if asked.code else Skip()
        matched_reservations = view.matched_reservations
        match = (
            matched_reservations
            if isinstance(matched_reservations, ReservationMatch) and len(matched_reservations.rows)
            else None
        )
        kind = DevicePreAllocator if match is not None and match.pre_allocates else DeviceAllocator
        return kind(
            view.nodes, world.device_share, world.reservations, world.devices, searches_for, match,
            with_class, self._numa_trials(pod, view),
        )  # fmt: skip

    def _numa_trials(self, pod: PodInfo, view: View) -> PodTrials | None:
        """Return what decides about NUMA nodes for the pod, None if there is no NUMA policy.

        A profile without NodeNUMAResource has none.
        """
        ledger = view.world.numa
        if not self.args.aligns or pod.scheduler_name not in ledger.options:
            return None
        try:
            request = ledger.request_of(pod)
        except BadRequest:
            return None
        if not request.numa_policy and not ledger.concerns_all_pods:
            return None
        return ledger.trials_of(pod, request)

    def _searches_for(self, pod: PodInfo, view: View) -> Callable[[frozenset[int]], Searches]:
        """Return the searches for a request in this world; pods that ask the same share them."""
        world, resources = view.world, view.nodes.resources
        known: SharedCache[Searches] = world.caches.setdefault(
            (self.name, self.args), SharedCache(_MOST_SEARCHES)
        )

        @cache
        def searches_for(served: frozenset[int]) -> Searches:
            asked = asked_by(pod, resources, served)
            searches = known.get(asked, pod.namespace)
            if searches is None:
                searches = Searches(world.device_share, asked, self.args)
                known.put(asked, searches, pod.namespace)
            return searches

        return searches_for

    def filter_needs_preparation(self, pod: PodInfo, view: View) -> bool:
        """Return whether devices are to be searched for the pod."""
        return asks_for_devices(pod, view.nodes.resources)

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Requeue when devices become free or change, or the pod's annotations change."""
        if not self.traits.registers(event):
            return False
        match event.resource, event.action:
            case EventResource.UNSCHEDULABLE_POD, _:
                return event.is_for_pod(pod)
            case EventResource.ASSIGNED_POD, ActionType.DELETE:
                return event.old is not None and _had_devices(event.old)
            case EventResource.DEVICE, ActionType.DELETE:
                return False
        return True


def _guiding_metadata(pod: Pod) -> tuple[tuple[str | None, ...], ...]:
    """Return the annotations and labels that decide which devices a pod gets."""
    annotations, labels = pod.metadata.annotations, pod.metadata.labels
    of_labels = tuple([labels.get(key) for key in _LABELS]) if labels else ()
    return of_labels, tuple([annotations.get(key) for key in _GUIDING]) if annotations else ()


def _had_devices(deleted: Pod) -> bool:
    """Return whether a deleted pod had devices; one that was being bound only requested them."""
    if names.DEVICE_ALLOCATED in deleted.metadata.annotations:
        return True
    try:
        return bool(device_resources(request_nanos(deleted)))
    except HoldfastError:
        return True
