"""The plugin contract: derive from ``Plugin`` and write the extension points that you need.

The points are those of the Kubernetes scheduling framework, but a plugin sees all nodes at once: it
is called with an array of rows of the node table and returns an array. ``pre_filter`` looks at a
pod and returns a *plan*, an object that filters and scores nodes for it and reserves resources on
one of them (``plan``). A plugin does no I/O. It *yields* what must be written to the API server as
an ``ApiCall``; the scheduler sends the call and sends the stored object back into the generator. A
test or a simulation may answer the calls itself.

The order of the calls for one pod::

    plugin.pre_enqueue ────────── keep the pod out of the active queue
    plugin.pre_filter ─┬─ Skip ── the plugin does not filter or score this pod
                       ├─ Reject  no node is suitable
                       └─ plan
      plan.filter ────── per row: passes (0), unschedulable (1), unresolvable (2)
         └─ no row passes: plan.reasons, condition_reason, retry_at; plugin.post_filter;
            later plugin.queueing_hint per event
      plan.pre_score, score, normalize_score, tier
      plan.reserve ───── reserve resources in the ledgers    ⇄ unreserve
    plugin.permit ────── approve, wait or reject
      plan.pre_bind ──── write claims and annotations        ⇄ undo_pre_bind
    plugin.bind
      plan.post_bind ─── the pod is bound

Import from here; only a plugin that excludes reservations also needs ``reservation_options``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

from holdfast.scheduling.framework.arguments import Args
from holdfast.scheduling.framework.events import (
    ActionType,
    ClusterEvent,
    EventResource,
    QueueingStrategy,
)
from holdfast.scheduling.framework.plan import NodeFilter, NodeScorer, PodPlan, Reserver, Tiers
from holdfast.scheduling.framework.preemption_rules import PodLimit, PodLimits, PreemptionRules
from holdfast.scheduling.framework.traits import Scope, Traits
from holdfast.scheduling.framework.values import (
    END_TURN,
    MERGE_PATCH,
    NO_CHANGE,
    AnyRows,
    ApiCall,
    ApiCalls,
    Candidate,
    Code,
    Placement,
    PodChange,
    PostFilterResult,
    PreBindCalls,
    RawScores,
    Reject,
    RequiredResources,
    Rows,
    Skip,
    Verdicts,
    Wait,
    finite_time,
)
from holdfast.state.columns.epochs import Epoch

if TYPE_CHECKING:
    from holdfast.scheduling.framework.rejection import Rejection
    from holdfast.scheduling.framework.view import View
    from holdfast.scheduling.framework.waiting_pods import WaitingPods
    from holdfast.scheduling.framework.world import World
    from holdfast.state.columns.pod_info import PodInfo

FilterPair = tuple["Plugin", NodeFilter]
"""A plugin that filters a pod, with its plan for the pod."""


class Plugin:
    """The declarations of every plugin, and its points that concern a pod rather than nodes.

    The defaults of the methods do nothing, so a plugin writes only those that it needs.
    """

    name: str = ""
    """The name in the configuration, in messages and in metrics."""
    traits: Traits = Traits()
    """How long its results may be cached and how it may be called."""
    plan_classes: tuple[type[PodPlan], ...] = ()
    """The classes of the plans that ``pre_filter`` returns: they determine its extension points.

    A plugin without data about a pod may be its own plan: it derives from ``Plugin`` and, say,
    ``Reserver``, and ``pre_filter`` returns ``self``. Then it need not be listed here."""

    def __init__(self, args: Args | None = None) -> None:
        """Ignore the arguments of the configuration, unless the plugin has its own ``__init__``."""

    def __init_subclass__(cls) -> None:
        if issubclass(cls, PodPlan) and "plan_classes" not in vars(cls):
            cls.plan_classes = (cls,)

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return everything of the pod that its plan depends on: the cache key.

        ``pod.pod`` is the API object. Not called for plugins of the scope CLUSTER (see
        ``traits.Scope``), which is the default; all others must write it.
        """
        raise NotImplementedError

    def key_outside_spec(self, pod: PodInfo, view: View) -> Hashable:
        """Return the part of ``reads`` outside the pod's spec, namespace and visible labels.

        For speed, for plugins with the trait ``reads_outside_spec``; None: there is nothing.
        """
        return self.reads(pod, view)

    def pre_enqueue(self, pod: PodInfo, view: View) -> Reject | None:
        """Return why the pod must not be queued until something about it changes, or None."""
        return None

    def pre_filter(self, pod: PodInfo, view: View) -> PodPlan | Skip | Reject:
        """Look at the pod once, before any node, and return the plan for it.

        Skip and Reject end the plugin's part.
        """
        return Skip()

    def post_filter(self, rejection: Rejection, view: View) -> PostFilterResult:
        """Try to make a pod schedulable that fits on no node; return what the scheduler is to do.

        The message becomes part of the pod's condition. ``rejection.plans`` has this plugin's plan.
        """
        return PostFilterResult(self.name)

    def calls_before_eviction(
        self, pod: PodInfo, node: str, world: World, now: float
    ) -> Sequence[ApiCall]:
        """Return what to write before a pod is nominated to a node and its victims are evicted.

        If a call fails, no pod is evicted and the attempt is an error. Typed responses
        (``returns``) are stored in the world. Called only for a plugin with ``post_filter``.
        """
        return ()

    def permit(self, placement: Placement, waiting: WaitingPods) -> Wait | Reject | None:
        """Return None to bind a placed pod; after Wait it keeps its resources until it is allowed.

        ``waiting`` holds all waiting pods, so a plugin can allow or reject them when it is called
        for another pod. A pod waits 15 minutes at most. ``placement.plans`` has this plugin's plan.
        """
        return None

    def bind(self, placement: Placement) -> ApiCalls | Skip:
        """Yield the binding call, or return Skip to leave it to the next plugin with ``bind``."""
        return Skip()

    def queueing_hint(
        self, event: ClusterEvent, pod: PodInfo, view: View
    ) -> bool | QueueingStrategy:
        """Return whether an event may make a pod schedulable that this plugin rejected.

        It is called for the events in ``Traits.events_to_register``. Without this method each of
        them requeues the pod. True skips backoff if the plugin returned PENDING; a
        QueueingStrategy decides itself.
        """
        return True

    def event_keys(self, event: ClusterEvent) -> Collection[Hashable] | None:
        """Return the keys of the rejected pods that an event may help; None: any pod.

        For speed, where each event concerns few pods: ``queueing_hint`` is called only for pods
        that have a key of the event.
        """
        return None

    def pod_keys(self, pod: PodInfo) -> Collection[Hashable]:
        """Return the keys of a pod; they depend on the pod alone. Goes with ``event_keys``."""
        return ()

    def ignores_resource(self, name: str) -> bool:
        """Return whether its filter ignores a resource because an extender accounts for it."""
        return False

    def prepare(self, pod: PodInfo, view: View, rows: Callable[[], Rows]) -> Iterator[None] | None:
        """Compute in short steps what filters or ``post_filter`` would otherwise compute at once.

        None: there is nothing to compute for this pod, nor for others of its class until an epoch
        changes. Yield before it begins, and at least every few milliseconds. What comes before the
        first yield runs for every pod before its turn, so it must be short; if nothing takes long,
        there is no yield. ``rows`` returns the rows that ``filter`` will get: it runs the filters
        that come before. Other tasks may run, and the world may change, after each step. It must
        return and decide nothing: without this method the results are the same.
        """
        return None

    def filter_needs_preparation(self, pod: PodInfo, view: View) -> bool:
        """Return whether ``prepare_rows`` of the plan is worth calling; be quick.

        False may be remembered for the pod's class until an epoch changes.
        """
        return False

    def post_filter_needs_preparation(self, pod: PodInfo, view: View) -> bool:
        """Return whether ``post_filter`` may take long; called before every cycle, so be quick."""
        return False

    def prepare_post_filter(self, filters: Sequence[FilterPair], view: View) -> Iterator[None]:
        """Compute in short steps what ``post_filter`` reads, for a pod that filters will reject.

        ``filters`` are those of the pod of the view. Yield as in ``prepare``.
        """
        return iter(())


__all__ = [
    "END_TURN",
    "MERGE_PATCH",
    "NO_CHANGE",
    "ActionType",
    "AnyRows",
    "ApiCall",
    "ApiCalls",
    "Candidate",
    "ClusterEvent",
    "Code",
    "Epoch",
    "EventResource",
    "FilterPair",
    "NodeFilter",
    "NodeScorer",
    "Placement",
    "Plugin",
    "PodChange",
    "PodLimit",
    "PodLimits",
    "PodPlan",
    "PostFilterResult",
    "PreBindCalls",
    "PreemptionRules",
    "QueueingStrategy",
    "RawScores",
    "Reject",
    "RequiredResources",
    "Reserver",
    "Rows",
    "Scope",
    "Skip",
    "Tiers",
    "Traits",
    "Verdicts",
    "Wait",
    "finite_time",
]
