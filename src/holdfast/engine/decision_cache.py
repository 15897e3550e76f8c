"""What is remembered between pods: answers per plugin, a record per class of pods.

Pods that no plugin can tell apart form a class. Each plugin's answers are kept per what *it*
reads of the pod, so classes that differ only in their request share what the taints say. A class
keeps the sum: which rows are feasible and their total score.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from holdfast.columns.pod_info import PodInfo
from holdfast.engine.plugin_results import (
    NodeFilterMask,
    PreFilterOutcome,
    RowResults,
    read_pre_filter,
    run_pre_filter,
)
from holdfast.engine.plugin_use import PluginUse, cycle_plugins
from holdfast.engine.pod_class import PodClass
from holdfast.engine.profile import Profile
from holdfast.framework.plugin import Code, FilterPlugin, Plugin, Skip
from holdfast.framework.view import View
from holdfast.framework.world import World

_FEW = 4
"""Classes on trial. Two plugins answer anew for each request: they are kept on trial as long."""


V = TypeVar("V")
Key = tuple[Hashable, ...]


def decision_cache(profile: Profile, world: World) -> DecisionCache:
    """What is remembered for a profile in this world."""
    cache: DecisionCache | None = world.caches.get(profile)
    if cache is None:
        cache = world.caches[profile] = DecisionCache(profile)
    return cache


class DecisionCache:
    """Answers and records of one profile in one world.

    Invariant: pods of one key (``_key``) are decided alike. What a plugin prepared for one serves
    every pod of which it ``reads`` the same, until an epoch that it names moves; a frame serves
    pods that differ only in what they ask for, for plugins that ignore amounts. ``decision_check``
    decides with an empty memory and compares.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.allocates_reservations = any(
            p.traits.allocates_reservations for p in profile.plugins_at(FilterPlugin)
        )
        self._deciding = cycle_plugins(profile)
        self._uses = {use.name: use for use in self._deciding}
        self._asked = {
            use.name: PreFilterOutcome(use, (), skip=True) for use in self._deciding if use.per_pod
        }
        self._by_amounts = tuple(
            (i, use)
            for i, use in enumerate(self._deciding)
            if not (use.per_pod or use.ignores_requests)
        )
        self._beyond = tuple(
            t.key_outside_spec for t in self._deciding if t.key_outside_spec is not None
        )
        self._records = TwoQueueCache[PodClass](_FEW)
        self._outcome = TwoQueueCache[PreFilterOutcome](2 * _FEW)
        self._frames = TwoQueueCache[tuple[int, tuple[PreFilterOutcome, ...]]](_FEW)
        """What plugins made of pods but for what those ask for, and when that was true."""
        self._shared = TwoQueueCache[NodeFilterMask](_FEW)
        """By identity of the answers, which each entry keeps alive: no id is ever another's."""

    def pod_class(self, pod: PodInfo, view: View) -> PodClass:
        """The record of the pod's class, made or renewed if need be. Not refreshed yet."""
        key = self._key(pod, view)
        pod_class = self._records.get(key)
        if pod_class is not None and self._holds(pod_class, pod, view):
            return pod_class
        stamp = view.nodes.epochs.stamp
        pod_class = self._make(pod, view, key)
        if pod_class.rejected is None:
            if view.nodes.epochs.stamp != stamp:
                # Labels may have become visible, and with them the pod may be of a new kind.
                key = self._key(pod, view)
            self._records.put(key, pod_class, _room(view.nodes.capacity))
        return pod_class

    def pre_filter_per_pod(
        self, pod_class: PodClass, pod: PodInfo, view: View
    ) -> list[PreFilterOutcome]:
        """What all plugins made of the pod, those asked every time included.

        It is the record's own list if none of them has anything to say.
        """
        fresh: dict[str, PreFilterOutcome] = {}
        for outcome in pod_class.per_pod:
            use = outcome.use
            answer = use.plugin.pre_filter(pod, view) if use.pre_filters else None
            if not isinstance(answer, Skip):
                fresh[use.name] = read_pre_filter(use, answer, outcome.versions)
        if not fresh:
            return pod_class.outcomes
        return [fresh.get(p.plugin.name, p) for p in pod_class.outcomes]

    def faults(self) -> Iterator[str]:
        """Name what is wrong with the records that are up to date."""
        for pod_class in self._records:
            yield from pod_class.faults()

    def pre_filter(self, plugin: Plugin, pod: PodInfo, view: View) -> PreFilterOutcome:
        """What the plugin, whose scope is not CLUSTER, makes of the pod; remembered."""
        return self._prepare(self._uses[plugin.name], pod, view)

    def _prepare(self, use: PluginUse, pod: PodInfo, view: View) -> PreFilterOutcome:
        epochs = view.nodes.epochs
        key = (use.name, use.plugin.reads(pod, view))
        found = self._outcome.get(key)
        if found is not None and found.stamp == epochs.stamp:
            return found
        versions = epochs.of(use.epochs)
        if found is not None and found.versions == versions:
            found.stamp = epochs.stamp
            return found
        old, found = found, run_pre_filter(use, pod, view, versions)
        if old is not None and use.comparable_states and _alike(old, found):
            found = old
            found.versions = versions
        found.stamp = epochs.stamp
        if found.reject is None:
            if found.cacheable and found.row_results is None:
                found.row_results = RowResults(
                    use.plugin, found.state, view.nodes,
                    filters=found.filters, scores=found.scores,
                )  # fmt: skip
            self._outcome.put(key, found, 4 * _room(view.nodes.capacity))
        return found

    def _key(self, pod: PodInfo, view: View) -> Key:
        seen = (pod.spec_key, pod.pod.spec.node_name, view.nodes.label_group_of(pod).id)
        if not self._beyond:
            return (*seen, pod.is_reserve_pod)
        beyond = [reads(pod, view) for reads in self._beyond]
        return (*seen, pod.is_reserve_pod, *beyond)

    def _holds(self, pod_class: PodClass, pod: PodInfo, view: View) -> bool:
        """Tell whether a record still stands; epochs that only concern skips are taken in."""
        epochs = view.nodes.epochs
        if pod_class.stamp == epochs.stamp:
            return True
        for i, outcome in enumerate(pod_class.outcomes):
            use = outcome.use
            if use.per_pod or outcome.stamp == epochs.stamp:
                continue
            if outcome.versions == epochs.of(use.epochs):
                outcome.stamp = epochs.stamp
                continue
            again = self._prepare(use, pod, view)
            if again is not outcome and not (outcome.skip and again.skip):
                return False
            pod_class.outcomes[i] = again
        pod_class.stamp = epochs.stamp
        return True

    def _make(self, pod: PodInfo, view: View, key: Key) -> PodClass:
        spec_key_without_requests, stamp = (
            (pod.spec_key_without_requests, *key[1:]),
            view.nodes.epochs.stamp,
        )
        made_at, made = self._frames.get(spec_key_without_requests) or (-1, ())
        if made_at == stamp:
            outcome = list(made)
            for i, use in self._by_amounts:
                outcome[i] = self._prepare(use, pod, view)
            if not any([outcome[i].reject for i, _ in self._by_amounts]):
                return self._put_together(outcome, None, view)
        outcome, rejected = self._prepare_all(pod, view)
        if rejected is None and stamp == view.nodes.epochs.stamp:
            self._frames.put(
                spec_key_without_requests, (stamp, tuple(outcome)), _room(view.nodes.capacity)
            )
        return self._put_together(outcome, rejected, view)

    def _prepare_all(
        self, pod: PodInfo, view: View
    ) -> tuple[list[PreFilterOutcome], PreFilterOutcome | None]:
        """Let plugins prepare until one rejects the pod for good; answers who rejected it last."""
        outcome: list[PreFilterOutcome] = []
        rejected: PreFilterOutcome | None = None
        for use in self._deciding:
            if use.per_pod:
                outcome.append(self._asked[use.name])
                continue
            found = self._prepare(use, pod, view)
            outcome.append(found)
            if found.reject is not None:
                rejected = found
                if found.reject.code is not Code.UNSCHEDULABLE:
                    break
        return outcome, rejected

    def _put_together(
        self, outcome: list[PreFilterOutcome], rejected: PreFilterOutcome | None, view: View
    ) -> PodClass:
        return PodClass(self.profile, view.nodes, outcome, rejected, self._node_mask(outcome, view))

    def _node_mask(self, outcome: list[PreFilterOutcome], view: View) -> NodeFilterMask:
        """Find the part of the verdict that depends on nodes alone; classes share it."""
        kept = [p.row_results for p in outcome if p.row_results is not None and p.use.node_scope]
        allowed = [
            p.allowed_rows for p in outcome if p.allowed_rows is not None and not p.use.per_pod
        ]
        key = (*map(id, kept), *map(id, allowed))
        found = self._shared.get(key)
        if found is None:
            found = NodeFilterMask(view.nodes, kept, allowed)
            self._shared.put(key, found, 4 * _room(view.nodes.capacity))
        return found


class TwoQueueCache(Generic[V]):
    """A bounded memory that a stream of things asked for once does not wash out.

    What is new is kept on trial, in little room; what is asked for again while on trial, or soon
    after it was dropped from there, is ``frequent`` and stays until it is the one used longest ago.
    A thousand pods of a thousand requests so work in the same few arrays, which are then still in
    the processor's cache: measured, that is a fourth of what such a pod costs.

    >>> table = TwoQueueCache[int](trial=1)
    >>> for word in ("once", "twice", "thrice"):
    ...     table.put(word, len(word), most=10)
    >>> table.get("once"), table.get("thrice")
    (None, 6)
    >>> table.put("once", 4, most=10)
    >>> sorted(table.frequent)
    ['once', 'thrice']
    """

    __slots__ = ("_dropped", "_new", "_trial", "frequent")

    def __init__(self, trial: int) -> None:
        self._trial = trial
        self._new: OrderedDict[Hashable, V] = OrderedDict()
        self._dropped: OrderedDict[Hashable, None] = OrderedDict()
        self.frequent: OrderedDict[Hashable, V] = OrderedDict()

    def __iter__(self) -> Iterator[V]:
        return iter([*self.frequent.values(), *self._new.values()])

    def get(self, key: Hashable) -> V | None:
        """The value under the key, which has now proven itself."""
        found = self.frequent.get(key)
        if found is not None:
            self.frequent.move_to_end(key)
            return found
        found = self._new.pop(key, None)
        if found is not None:
            self.frequent[key] = found
        return found

    def put(self, key: Hashable, value: V, most: int) -> None:
        """Keep a value, instead of what was kept under its key; at most so many proven ones."""
        if key in self.frequent or key in self._dropped:
            self._dropped.pop(key, None)
            self.frequent[key] = value
            self.frequent.move_to_end(key)
            if len(self.frequent) > most:
                self.frequent.popitem(last=False)
            return
        self._new[key] = value
        if len(self._new) > self._trial:
            self._dropped[self._new.popitem(last=False)[0]] = None
            if len(self._dropped) > most:
                self._dropped.popitem(last=False)


def _alike(old: PreFilterOutcome, new: PreFilterOutcome) -> bool:
    """Tell whether a plugin made the same of a pod again; then what rests on it may stay."""
    return (
        not (old.skip or new.skip)
        and old.reject is None
        and new.reject is None
        and (old.filters, old.scores) == (new.filters, new.scores)
        and bool(old.state == new.state)
    )


def _room(capacity: int) -> int:
    """How many classes to remember: about 100 MB of arrays, whatever the size of the cluster."""
    return max(64, 4_194_304 // capacity)
