"""The plugin: read the CPUs and NUMA nodes that a pod requests, and when to try it again."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import msgspec

from holdfast.api.field_errors import invalid, not_supported
from holdfast.api.koordinator_names import (
    DEVICE_ALLOCATED,
    NUMA_TOPOLOGY_SPEC,
    PRIORITY_CLASS,
    QOS_CLASS,
    RESOURCE_SPEC,
    RESOURCE_STATUS,
)
from holdfast.api.pod import Pod
from holdfast.api.requests import request_nanos
from holdfast.api.reservation_names import IGNORED
from holdfast.api.resource_names import is_extended
from holdfast.runtime.errors import BadRequest, HoldfastError
from holdfast.scheduling.framework.arguments import Arguments, PluginArgs
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
from holdfast.scheduling.plugins.node_numa_resource.allocator import NumaAllocator, NumaPreAllocator
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.interner import PODS
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.numa.numa_amounts import Strategy
from holdfast.state.numa.pod_request import NOT_INTEGER
from holdfast.state.numa.pod_trials import NumaOptions
from holdfast.state.numa.policy_names import (
    BIND_POLICIES,
    FULL_PCPUS,
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
)
from holdfast.state.numa.trial import TrialOptions
from holdfast.state.reservations.matching import ReservationMatch

_ALLOCATED = (RESOURCE_STATUS, DEVICE_ALLOCATED)
"""Annotations with the allocation of a pod on NUMA nodes: CPUs and amounts, or devices."""
_ASKED = (RESOURCE_SPEC, NUMA_TOPOLOGY_SPEC)
_STRATEGIES = (LEAST_ALLOCATED, MOST_ALLOCATED)


class _Resource(msgspec.Struct, frozen=True, rename="camel"):
    """A resource that is scored, and its weight."""

    name: str = ""
    weight: int = 1


class _ScoringStrategy(msgspec.Struct, frozen=True, rename="camel"):
    """Whether free or used nodes are preferred, and by which resources."""

    type: str = LEAST_ALLOCATED
    resources: tuple[_Resource, ...] = (_Resource("cpu"), _Resource("memory"))

    @property
    def weights(self) -> tuple[tuple[str, int], ...]:
        """The weights by resource name."""
        return tuple((each.name, each.weight) for each in self.resources)


class NodeNUMAResourceArgs(PluginArgs, frozen=True):
    """The arguments of the plugin.

    ``default_bind_policy``: the CPU bind policy of LSE and LSR pods without one; "" leaves them
    unbound. ``numa_scoring_strategy.type`` also decides which NUMA node is filled first.
    """

    default_bind_policy: str = msgspec.field(default=FULL_PCPUS, name="defaultCPUBindPolicy")
    scoring_strategy: _ScoringStrategy = _ScoringStrategy()
    numa_scoring_strategy: _ScoringStrategy = _ScoringStrategy()


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
        self.args = _read_args(args or {})
        self._options = _options_of(self.args)

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return the request, also that in labels and annotations, and the matched reservations."""
        outside = self.key_outside_spec(pod, view)
        if outside is None:
            return None
        matched = view.matched_reservations
        return (pod.request, pod.pod.spec.priority, outside, matched and matched.key)

    def key_outside_spec(self, pod: PodInfo, view: View) -> Hashable:
        """Return the labels and annotations that are read; None for most pods, which have none."""
        annotations, labels, ledger = pod.pod.metadata.annotations, pod.labels, view.world.numa
        texts = [annotations.get(key) for key in _ASKED] if annotations else ()
        qos = labels.get(QOS_CLASS)
        if qos is None and not any(texts) and not ledger.concerns_all_pods:
            return None
        labels_and_annotations = (qos, labels.get(PRIORITY_CLASS), labels.get(IGNORED), *texts)
        if not ledger.hint_providers or not pod.request or pod.request[-1][0] <= PODS:
            return labels_and_annotations
        # What else affects the devices is not known here.
        return (labels_and_annotations, tuple(sorted(annotations.items())))

    def pre_filter(self, pod: PodInfo, view: View) -> NumaAllocator | Skip | Reject:
        """Read the pod's request; skip a pod without one, unless a node's policy is for all."""
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
            return event.old is not None and _may_have_held(event.old)
        return self.traits.registers(event)


def _read_args(given: Mapping[str, Any]) -> NodeNUMAResourceArgs:
    """Read the arguments; BadConfiguration lists every wrong field."""
    wrong = Arguments("NodeNUMAResource")
    args = wrong.read(NodeNUMAResourceArgs, given)
    if args.default_bind_policy not in ("", *BIND_POLICIES):
        message = "must specified CPU bind policy FullPCPUs or SpreadByPCPUs"
        wrong.append(invalid("defaultCPUBindPolicy", args.default_bind_policy, message))
    _check(args.scoring_strategy, "scoringStrategy", wrong)
    _check(args.numa_scoring_strategy, "numaScoringStrategy", wrong)
    wrong.refuse_if_wrong()
    return args


def _check(strategy: _ScoringStrategy, path: str, wrong: Arguments) -> None:
    if strategy.type not in _STRATEGIES:
        wrong.append(not_supported(f"{path}.type", strategy.type, _STRATEGIES))
    wrong.check_weights(strategy.weights, path)


def _options_of(args: NodeNUMAResourceArgs) -> NumaOptions:
    """Return the arguments in the form that the ledger uses."""
    numa, node = args.numa_scoring_strategy, args.scoring_strategy
    return NumaOptions(
        args.default_bind_policy,
        TrialOptions(Strategy(numa.type, numa.weights), Strategy(node.type, node.weights)),
    )


def _may_have_held(pod: Pod) -> bool:
    """Return whether a deleted pod may have had CPUs, amounts of NUMA nodes, or devices.

    A pod that was being bound has no such annotations yet: then its request counts.
    """
    meta = pod.metadata
    if any(meta.annotations.get(key) for key in (*_ALLOCATED, *_ASKED)):
        return True
    if meta.labels.get(QOS_CLASS):
        return True
    try:
        return any(map(is_extended, request_nanos(pod)))
    except HoldfastError:
        return True
