"""The plugin: what a pod asks of CPUs and NUMA nodes, and when to try it again."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from holdfast.api.koordinator_names import (
    NUMA_TOPOLOGY_SPEC,
    PRIORITY_CLASS,
    QOS_CLASS,
    RESOURCE_SPEC,
)
from holdfast.api.reservation_names import IGNORED
from holdfast.capacity.matching import ReservationMatch
from holdfast.columns.epochs import Epoch
from holdfast.columns.interner import PODS
from holdfast.columns.pod_info import PodInfo
from holdfast.errors import BadRequest
from holdfast.framework.events import ActionType, EventResource
from holdfast.framework.plugin import ClusterEvent, Code, Plugin, Reject, Scope, Skip, Traits
from holdfast.framework.view import View
from holdfast.numa.numa_amounts import Strategy
from holdfast.numa.pod_request import NOT_INTEGER
from holdfast.numa.pod_trials import NumaOptions
from holdfast.numa.trial import TrialOptions
from holdfast.plugins.node_numa_resource.allocator import NumaAllocator, NumaPreAllocator
from holdfast.plugins.node_numa_resource.arguments import NodeNUMAResourceArgs, read_args
from holdfast.plugins.node_numa_resource.queueing_hints import may_have_held

_KEYS = (RESOURCE_SPEC, NUMA_TOPOLOGY_SPEC)


class NodeNUMAResource(Plugin):
    """Binds pods to CPUs and NUMA nodes."""

    name = "NodeNUMAResource"
    traits = Traits(
        scope=Scope.ROW,
        epochs=(Epoch.NUMA, Epoch.RESERVATIONS),
        events_to_register={
            EventResource.NODE_RESOURCE_TOPOLOGY: (),
            EventResource.NODE: (
                ActionType.ADD,
                ActionType.UPDATE_NODE_LABEL,
                ActionType.UPDATE_NODE_ANNOTATION,
                ActionType.UPDATE_NODE_ALLOCATABLE,
            ),
            EventResource.ASSIGNED_POD: (ActionType.DELETE, ActionType.UPDATE_POD_SCALE_DOWN),
            EventResource.UNSCHEDULABLE_POD: (),
            EventResource.RESERVATION: (),
        },
        reads_outside_spec=True,
        accepts_slices=True,
        bounded_scores=True,
    )
    plan_classes = (NumaAllocator, NumaPreAllocator)

    def __init__(self, args: Mapping[str, Any] | None = None) -> None:
        self.args = read_args(args or {})
        self._options = options_of(self.args)

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return the request, what labels and annotations ask, and the matched reservations."""
        outside = self.key_outside_spec(pod, view)
        if outside is None:
            return None
        matched = view.matched_reservations
        return (pod.request, pod.pod.spec.priority, outside, matched and matched.key)

    def key_outside_spec(self, pod: PodInfo, view: View) -> Hashable:
        """Return the labels and annotations that decide; None if nothing does, as for most pods."""
        annotations, labels, ledger = pod.pod.metadata.annotations, pod.labels, view.world.numa
        texts = [annotations.get(key) for key in _KEYS] if annotations else ()
        qos = labels.get(QOS_CLASS)
        if qos is None and not any(texts) and not ledger.concerns_all_pods:
            return None
        found = (qos, labels.get(PRIORITY_CLASS), labels.get(IGNORED), *texts)
        if not ledger.hint_providers or not pod.request or pod.request[-1][0] <= PODS:
            return found
        # What decides about devices besides is not known here.
        return (found, tuple(sorted(annotations.items())))

    def pre_filter(self, pod: PodInfo, view: View) -> NumaAllocator | Skip | Reject:
        """Read what the pod asks; skip it if that is nothing, and no node concerns all pods."""
        ledger = view.world.numa
        ledger.options[pod.scheduler_name] = self._options
        try:
            request = ledger.request_of(pod)
        except BadRequest as wrong:
            return Reject(Code.ERROR, (str(wrong),))
        if request.bound and request.millicores % 1000:
            return Reject(Code.UNRESOLVABLE, (NOT_INTEGER,))
        asks = request.bound or request.numa_policy or ledger.concerns_all_pods
        if not (request.amounts and asks):
            return Skip()
        matched = view.matched_reservations
        match = matched if isinstance(matched, ReservationMatch) else None
        pre_allocates = match is not None and match.pre_allocates
        kind = NumaPreAllocator if pre_allocates else NumaAllocator
        return kind(view, request, match, self._options.trial.node)

    def filter_needs_preparation(self, pod: PodInfo, view: View) -> bool:
        """Return whether anything is to be tried for the pod."""
        return self.key_outside_spec(pod, view) is not None

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Requeue if CPUs or devices may be free, or the pod or another object here changes."""
        if event.resource == EventResource.UNSCHEDULABLE_POD:
            return event.is_for_pod(pod)
        if event.resource == EventResource.ASSIGNED_POD and not view.world.numa.concerns_all_pods:
            return event.old is not None and may_have_held(event.old)
        return self.traits.registers(event)


def options_of(args: NodeNUMAResourceArgs) -> NumaOptions:
    """Return the arguments in the form that the ledger uses."""
    numa, node = args.numa_scoring_strategy, args.scoring_strategy
    return NumaOptions(
        args.default_bind_policy,
        TrialOptions(Strategy(numa.type, numa.weights), Strategy(node.type, node.weights)),
    )
