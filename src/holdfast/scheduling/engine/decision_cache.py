"""The cache of a profile: results per plugin, and their combination per class of pods.

Pods that no plugin distinguishes form a class. The results of a plugin are cached by its ``reads``
of the pod, so classes that differ only in their requests share the results of TaintToleration. A
class combines them: the feasible rows and their total scores.

A part of the key that differs from pod to pod makes a class for each pod. Then nothing is cached,
and no test fails. That happened with the names of the kube-api-access volumes, which every pod of a
real cluster has, and with the names of claims: without them in the key, and without needless
changes of rows, a decision takes 0.39 ms instead of 0.6. What one plugin reads for every pod
belongs to its plan, not to the key.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from functools import partial
from typing import Generic, TypeVar

from holdfast.scheduling.engine.plugin_results import (
    NodeFilterMask,
    PreFilterOutcome,
    call_pre_filter,
    run_pre_filter,
)
from holdfast.scheduling.engine.plugin_use import CacheLevel, PluginUse, cycle_plugins
from holdfast.scheduling.engine.pod_class import PodClass
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.plugin import Code, Plugin, Skip
from holdfast.scheduling.framework.reservation_options import (
    ReservationAllocator,
    ReservationFilter,
    ReservationOptions,
)
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.state.columns.pod_info import PodInfo

_NOTHING = CacheLevel.NOTHING
_FEW = 4
"""Classes on probation; few, so that their arrays stay in the processor's cache. The results of
plugins get twice as many entries, because two plugins distinguish pods by their requests."""


V = TypeVar("V")
Key = tuple[Hashable, ...]
_NOTHING_ASKED = (None, -1, (), None)


def decision_cache(profile: Profile, world: World) -> DecisionCache:
    """Return the cache of a profile in this world, creating it if there is none."""
    cache: DecisionCache | None = world.caches.get(profile)
    if cache is None:
        cache = world.caches[profile] = DecisionCache(profile)
    return cache


class DecisionCache:
    """Cached plugin results and pod classes of one profile in one world.

    Invariant: pods with the same key (``_key``) get the same decision. The PreFilter outcome of a
    plugin is shared by all pods with the same ``reads``, until an epoch in its traits changes. The
    outcomes of plugins that ignore requests are also shared by pods that differ only in requests
    (``_frames``), which saves a tenth of what a pod with a new request costs.
    ``decision_check`` repeats decisions with an empty cache and compares.

    Nothing is removed from here when it becomes outdated. An epoch moves, and an entry is compared
    with it when it is next used: a change costs nothing for classes that get no more pods.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._cycle_plugins = cycle_plugins(profile)
        self._uses = {use.name: use for use in self._cycle_plugins}
        self._asked_per_pod = {
            use.name: PreFilterOutcome(use, Skip(), ())
            for use in self._cycle_plugins
            if use.level is _NOTHING
        }
        """A place for the outcomes of plugins that are called for every pod."""
        self._reading_requests = tuple(
            (i, use)
            for i, use in enumerate(self._cycle_plugins)
            if not (use.level is _NOTHING or use.ignores_requests)
        )
        self._keys_outside_spec = tuple(
            use.key_outside_spec for use in self._cycle_plugins if use.key_outside_spec is not None
        )
        self._last: tuple[View | None, int, Key, PodClass | None] = _NOTHING_ASKED
        """The view of the last call of ``is_prepared``, the epoch stamp, the key and its class."""
        self._classes = TwoQueueCache[PodClass](_FEW)
        self._outcomes = TwoQueueCache[PreFilterOutcome](2 * _FEW)
        self._frames = TwoQueueCache[tuple[int, tuple[PreFilterOutcome, ...]]](_FEW)
        """By pods without their requests: the epoch stamp, and the outcomes of all plugins."""
        self._combined = TwoQueueCache[PreFilterOutcome](2 * _FEW)
        """By the ids of the combined outcomes; each entry holds them."""
        self._node_masks = TwoQueueCache[NodeFilterMask](_FEW)
        """By the ids of the row results; each entry holds them, so that no id is reused."""

    def pod_class(self, pod: PodInfo, view: View) -> PodClass:
        """Return the pod's class, creating it if necessary. Its ``refresh`` is up to the caller."""
        stamp = view.nodes.epochs.stamp
        last_view, last_stamp, key, pod_class = self._last
        # An attempt asks twice with one view: before it begins, and in its decision.
        if last_view is not view or last_stamp != stamp:
            key = self._key(pod, view)
            stamp = view.nodes.epochs.stamp  # a plugin may have made labels visible
            pod_class = self._classes.get(key)
        if pod_class is not None and (
            pod_class.stamp == stamp or self._is_valid(pod_class, pod, view)
        ):
            return pod_class
        self._last = _NOTHING_ASKED
        pod_class = self._make_class(pod, view, key)
        if pod_class.rejected is None:
            if view.nodes.epochs.stamp != stamp:
                # A plugin may have made labels visible, which changes the kind of the pod.
                key = self._key(pod, view)
            self._classes.put(key, pod_class, _limit(view.nodes.capacity))
        return pod_class

    def outcomes_for(self, pod_class: PodClass, view: View) -> list[PreFilterOutcome]:
        """Call the plugins that are called for every pod; return the outcomes of all plugins.

        If all of them skip the pod, that is the list ``pod_class.outcomes`` itself.
        """
        outcomes = pod_class.outcomes
        for place, use in pod_class.parts.asked_per_pod:
            result = call_pre_filter(use, view.pod, view)
            if type(result) is not Skip:
                if outcomes is pod_class.outcomes:
                    outcomes = list(outcomes)
                outcomes[place] = PreFilterOutcome(use, result, ())
        return outcomes

    def faults(self) -> Iterator[str]:
        """Describe what is wrong with the classes that are up to date."""
        for pod_class in self._classes:
            for cached in (pod_class, *pod_class.known_tiers.values()):
                yield from cached.faults()

    def pre_filter(self, plugin: Plugin, pod: PodInfo, view: View) -> PreFilterOutcome:
        """Return the outcome of ``pre_filter`` of a plugin whose scope is not CLUSTER."""
        return self._pre_filter(self._uses[plugin.name], pod, view)

    def _pre_filter(self, use: PluginUse, pod: PodInfo, view: View) -> PreFilterOutcome:
        epochs = view.nodes.epochs
        key = (use.name, use.plugin.reads(pod, view))
        outcome = self._outcomes.get(key)
        if outcome is not None and outcome.stamp == epochs.stamp:
            return outcome
        versions = epochs.of(use.epochs)
        if outcome is not None and outcome.versions == versions:
            outcome.stamp = epochs.stamp
            return outcome
        old, outcome = outcome, run_pre_filter(use, pod, view, versions)
        # After a change of the layout, the first of all epochs, there are too few cached rows. They
        # were kept if the plan was equal, and every pod with a shared GPU failed.
        same_layout = old is not None and old.versions[0] == versions[0]
        if old is not None and same_layout and use.comparable_plans and _equal(old, outcome):
            outcome = old
            outcome.versions = versions
        outcome.stamp = epochs.stamp
        if outcome.reject is None:
            outcome.cache_rows(view.nodes)
            self._outcomes.put(key, outcome, 4 * _limit(view.nodes.capacity))
        return outcome

    def is_prepared(self, view: View) -> bool:
        """Return whether pods of a class need no preparation, and no epoch has changed since."""
        stamp = view.nodes.epochs.stamp
        key = self._key(view.pod, view)
        pod_class = self._classes.get(key)
        if view.nodes.epochs.stamp == stamp:  # a plugin may make labels visible
            self._last = (view, stamp, key, pod_class)
        return pod_class is not None and pod_class.prepared_at == stamp

    def note_prepared(self, view: View) -> None:
        """Remember that pods of a class need no preparation until an epoch changes."""
        pod_class = self._classes.get(self._key(view.pod, view))
        if pod_class is not None:
            pod_class.prepared_at = view.nodes.epochs.stamp

    def _key(self, pod: PodInfo, view: View) -> Key:
        """Return everything of a pod that plugins distinguish.

        Labels count by their group: what no selector reads distinguishes no pods.
        """
        seen = (pod.spec_key, pod.pod.spec.node_name, view.nodes.label_group_of(pod).id)
        if not self._keys_outside_spec:
            return (*seen, pod.is_reserve_pod)
        outside = [reads(pod, view) for reads in self._keys_outside_spec]
        return (*seen, pod.is_reserve_pod, *outside)

    def _is_valid(self, pod_class: PodClass, pod: PodInfo, view: View) -> bool:
        """Return whether a class is still valid, after a change of epochs.

        It is valid if the same plugins still skip the pods, and no other outcome has changed.
        Epochs are coarse: any pod with a new affinity term moves one for every class (decision
        0004).
        """
        epochs = view.nodes.epochs
        for i, outcome in enumerate(pod_class.outcomes):
            use = outcome.use
            if use.level is _NOTHING or outcome.stamp == epochs.stamp:
                continue
            if outcome.versions == epochs.of(use.epochs):
                outcome.stamp = epochs.stamp
                continue
            again = self._pre_filter(use, pod, view)
            if outcome.combined and again is outcome.combined[0]:
                outcome.versions, outcome.stamp = again.versions, again.stamp
                continue
            if again is not outcome and not (outcome.skip and again.skip):
                return False
            pod_class.outcomes[i] = again
        pod_class.stamp = epochs.stamp
        return True

    def _make_class(self, pod: PodInfo, view: View, key: Key) -> PodClass:
        frame, stamp = (pod.spec_key_without_requests, *key[1:]), view.nodes.epochs.stamp
        made_at, shared = self._frames.get(frame) or (-1, ())
        if made_at == stamp:
            outcomes = list(shared)
            for i, use in self._reading_requests:
                outcomes[i] = self._pre_filter(use, pod, view)
            if not any([outcomes[i].reject for i, _ in self._reading_requests]):
                return self._class_of(outcomes, None, view)
        outcomes, rejected = self._pre_filter_all(pod, view)
        if rejected is None and stamp == view.nodes.epochs.stamp:
            self._frames.put(frame, (stamp, tuple(outcomes)), _limit(view.nodes.capacity))
        return self._class_of(outcomes, rejected, view)

    def _pre_filter_all(
        self, pod: PodInfo, view: View
    ) -> tuple[list[PreFilterOutcome], PreFilterOutcome | None]:
        """Call ``pre_filter`` of all plugins whose plans are kept.

        Also return the last outcome that rejects. A Reject other than UNSCHEDULABLE ends the calls.
        """
        outcomes: list[PreFilterOutcome] = []
        rejected: PreFilterOutcome | None = None
        for use in self._cycle_plugins:
            if use.level is _NOTHING:
                outcomes.append(self._asked_per_pod[use.name])
                continue
            outcome = self._pre_filter(use, pod, view)
            outcomes.append(outcome)
            if outcome.reject is not None:
                rejected = outcome
                if outcome.reject.code is not Code.UNSCHEDULABLE:
                    break
        return outcomes, rejected

    def _class_of(
        self, outcomes: list[PreFilterOutcome], rejected: PreFilterOutcome | None, view: View
    ) -> PodClass:
        if rejected is None and view.matched_reservations is not None:
            outcomes = self._with_options(outcomes, view)
        return PodClass(
            self.profile, view.nodes, outcomes, rejected, self._node_mask(outcomes, view)
        )

    def _with_options(self, outcomes: list[PreFilterOutcome], view: View) -> list[PreFilterOutcome]:
        """Pass other plugins' verdicts about reservations to the plugin that allocates them.

        The plan is shared by pods with the same outcomes, so they get the same resources with an
        identity.
        """
        others = [p for p in outcomes if p.filters and isinstance(p.plan, ReservationFilter)]
        if not others:
            return outcomes
        outcomes = list(outcomes)
        for i, outcome in enumerate(outcomes):
            if outcome.filters and isinstance(outcome.plan, ReservationAllocator):
                key = (id(outcome), *map(id, others))
                combined = self._combined.get(key)
                if combined is None:
                    options = ReservationOptions(
                        [p.plan for p in others if isinstance(p.plan, ReservationFilter)],
                        partial(view.world.identified_resources, view.pod),
                    )
                    combined = outcome.considering(outcome.plan.with_options(options), others)
                    combined.cache_rows(view.nodes)
                    self._combined.put(key, combined, 4 * _limit(view.nodes.capacity))
                outcomes[i] = combined
        return outcomes

    def _node_mask(self, outcomes: list[PreFilterOutcome], view: View) -> NodeFilterMask:
        """Return the mask of the filters that depend on nodes only; classes share it."""
        cached = [p.row_results for p in outcomes if p.row_results is not None and p.use.node_scope]
        allowed = [
            p.allowed_rows
            for p in outcomes
            if p.allowed_rows is not None and p.level is not _NOTHING
        ]
        key = (*map(id, cached), *map(id, allowed))
        mask = self._node_masks.get(key)
        if mask is None:
            mask = NodeFilterMask(view.nodes, cached, allowed)
            self._node_masks.put(key, mask, 4 * _limit(view.nodes.capacity))
        return mask


class TwoQueueCache(Generic[V]):
    """A bounded cache (the 2Q algorithm): keys that are used once do not evict frequent ones.

    A new value is on probation, among few. If its key is used again then, or soon after the value
    was dropped, the value is ``frequent`` and stays until it is the least recently used. So a
    thousand pods with a thousand different requests reuse the same few arrays, which are still in
    the processor's cache. That saves a quarter of the cost of such a pod (measured).

    >>> table = TwoQueueCache[int](probation=1)
    >>> for word in ("once", "twice", "thrice"):
    ...     table.put(word, len(word), most=10)
    >>> table.get("once"), table.get("thrice")
    (None, 6)
    >>> table.put("once", 4, most=10)
    >>> sorted(table.frequent)
    ['once', 'thrice']
    """

    __slots__ = ("_dropped", "_new", "_probation", "frequent")

    def __init__(self, probation: int) -> None:
        self._probation = probation
        self._new: OrderedDict[Hashable, V] = OrderedDict()
        self._dropped: OrderedDict[Hashable, None] = OrderedDict()
        self.frequent: OrderedDict[Hashable, V] = OrderedDict()

    def __iter__(self) -> Iterator[V]:
        return iter([*self.frequent.values(), *self._new.values()])

    def get(self, key: Hashable) -> V | None:
        """Return the value of a key, or None; the value becomes frequent."""
        value = self.frequent.get(key)
        if value is not None:
            self.frequent.move_to_end(key)
            return value
        value = self._new.pop(key, None)
        if value is not None:
            self.frequent[key] = value
        return value

    def put(self, key: Hashable, value: V, most: int) -> None:
        """Store a value, replacing that of the same key; at most ``most`` frequent values stay."""
        if key in self.frequent or key in self._dropped:
            self._dropped.pop(key, None)
            self.frequent[key] = value
            self.frequent.move_to_end(key)
            if len(self.frequent) > most:
                self.frequent.popitem(last=False)
            return
        self._new[key] = value
        if len(self._new) > self._probation:
            self._dropped[self._new.popitem(last=False)[0]] = None
            if len(self._dropped) > most:
                self._dropped.popitem(last=False)


def _equal(old: PreFilterOutcome, new: PreFilterOutcome) -> bool:
    """Return whether two outcomes are equal, so that the cached results of the old one stay."""
    return (
        not (old.skip or new.skip)
        and old.reject is None
        and new.reject is None
        and (old.filters, old.scores) == (new.filters, new.scores)
        and bool(old.plan == new.plan)
    )


def _limit(capacity: int) -> int:
    """Return how many classes to cache: about 100 MB of arrays for any size of cluster."""
    return max(64, 4_194_304 // capacity)
