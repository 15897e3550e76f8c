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
from holdfast.engine.class_evaluation import Record
from holdfast.engine.plugin_use import PluginUse, deciding
from holdfast.engine.prepared import Answers, Possible, Prepared, ask, take
from holdfast.engine.profile import Profile
from holdfast.framework.plugin import Code, FilterPlugin, Plugin, Skip
from holdfast.framework.view import View
from holdfast.framework.world import World

_FEW = 4
"""Classes on trial. Two plugins answer anew for each request: they are kept on trial as long."""


V = TypeVar("V")
Key = tuple[Hashable, ...]


def memory_of(profile: Profile, world: World) -> Memory:
    """What is remembered for a profile in this world."""
    memory: Memory | None = world.remembered.get(profile)
    if memory is None:
        memory = world.remembered[profile] = Memory(profile)
    return memory


class Memory:
    """Answers and records of one profile in one world.

    Invariant: pods of one key (``_key``) are decided alike. What a plugin prepared for one serves
    every pod of which it ``reads`` the same, until an epoch that it names moves; a frame serves
    pods that differ only in what they ask for, for plugins that ignore amounts. ``decision_check``
    decides with an empty memory and compares.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.offers = any(p.traits.allocates_reservations for p in profile.having(FilterPlugin))
        self._deciding = deciding(profile)
        self._uses = {use.name: use for use in self._deciding}
        self._asked = {
            use.name: Prepared(use, (), skip=True) for use in self._deciding if use.asked
        }
        self._by_amounts = tuple(
            (i, use)
            for i, use in enumerate(self._deciding)
            if not (use.asked or use.ignores_requests)
        )
        self._beyond = tuple(
            t.key_outside_spec for t in self._deciding if t.key_outside_spec is not None
        )
        self._records = Recent[Record](_FEW)
        self._prepared = Recent[Prepared](2 * _FEW)
        self._frames = Recent[tuple[int, tuple[Prepared, ...]]](_FEW)
        """What plugins made of pods but for what those ask for, and when that was true."""
        self._shared = Recent[Possible](_FEW)
        """By identity of the answers, which each entry keeps alive: no id is ever another's."""

    def record(self, pod: PodInfo, view: View) -> Record:
        """The record of the pod's class, made or renewed if need be. Not refreshed yet."""
        key = self._key(pod, view)
        record = self._records.find(key)
        if record is not None and self._holds(record, pod, view):
            return record
        stamp = view.nodes.epochs.stamp
        record = self._make(pod, view, key)
        if record.rejected is None:
            if view.nodes.epochs.stamp != stamp:
                # Labels may have become visible, and with them the pod may be of a new kind.
                key = self._key(pod, view)
            self._records.keep(key, record, _room(view.nodes.capacity))
        return record

    def complete(self, record: Record, pod: PodInfo, view: View) -> list[Prepared]:
        """What all plugins made of the pod, those asked every time included.

        It is the record's own list if none of them has anything to say.
        """
        fresh: dict[str, Prepared] = {}
        for prepared in record.fresh:
            use = prepared.use
            answer = use.plugin.pre_filter(pod, view) if use.prepares else None
            if not isinstance(answer, Skip):
                fresh[use.name] = take(use, answer, prepared.versions)
        if not fresh:
            return record.prepared
        return [fresh.get(p.plugin.name, p) for p in record.prepared]

    def faults(self) -> Iterator[str]:
        """Name what is wrong with the records that are up to date."""
        for record in self._records:
            yield from record.faults()

    def pre_filter(self, plugin: Plugin, pod: PodInfo, view: View) -> Prepared:
        """What the plugin, whose scope is not CLUSTER, makes of the pod; remembered."""
        return self._prepare(self._uses[plugin.name], pod, view)

    def _prepare(self, use: PluginUse, pod: PodInfo, view: View) -> Prepared:
        epochs = view.nodes.epochs
        key = (use.name, use.plugin.reads(pod, view))
        found = self._prepared.find(key)
        if found is not None and found.stamp == epochs.stamp:
            return found
        versions = epochs.of(use.epochs)
        if found is not None and found.versions == versions:
            found.stamp = epochs.stamp
            return found
        old, found = found, ask(use, pod, view, versions)
        if old is not None and use.comparable_states and _alike(old, found):
            found = old
            found.versions = versions
        found.stamp = epochs.stamp
        if found.reject is None:
            if found.kept and found.answers is None:
                found.answers = Answers(
                    use.plugin, found.state, view.nodes,
                    filters=found.filters, scores=found.scores,
                )  # fmt: skip
            self._prepared.keep(key, found, 4 * _room(view.nodes.capacity))
        return found

    def _key(self, pod: PodInfo, view: View) -> Key:
        seen = (pod.shape, pod.pod.spec.node_name, view.nodes.kind_of(pod).id)
        if not self._beyond:
            return (*seen, pod.stands_in)
        beyond = [reads(pod, view) for reads in self._beyond]
        return (*seen, pod.stands_in, *beyond)

    def _holds(self, record: Record, pod: PodInfo, view: View) -> bool:
        """Tell whether a record still stands; epochs that only concern skips are taken in."""
        epochs = view.nodes.epochs
        if record.stamp == epochs.stamp:
            return True
        for i, prepared in enumerate(record.prepared):
            use = prepared.use
            if use.asked or prepared.stamp == epochs.stamp:
                continue
            if prepared.versions == epochs.of(use.epochs):
                prepared.stamp = epochs.stamp
                continue
            again = self._prepare(use, pod, view)
            if again is not prepared and not (prepared.skip and again.skip):
                return False
            record.prepared[i] = again
        record.stamp = epochs.stamp
        return True

    def _make(self, pod: PodInfo, view: View, key: Key) -> Record:
        frame, stamp = (pod.frame, *key[1:]), view.nodes.epochs.stamp
        made_at, made = self._frames.find(frame) or (-1, ())
        if made_at == stamp:
            prepared = list(made)
            for i, use in self._by_amounts:
                prepared[i] = self._prepare(use, pod, view)
            if not any([prepared[i].reject for i, _ in self._by_amounts]):
                return self._put_together(prepared, None, view)
        prepared, rejected = self._prepare_all(pod, view)
        if rejected is None and stamp == view.nodes.epochs.stamp:
            self._frames.keep(frame, (stamp, tuple(prepared)), _room(view.nodes.capacity))
        return self._put_together(prepared, rejected, view)

    def _prepare_all(self, pod: PodInfo, view: View) -> tuple[list[Prepared], Prepared | None]:
        """Let plugins prepare until one rejects the pod for good; answers who rejected it last."""
        prepared: list[Prepared] = []
        rejected: Prepared | None = None
        for use in self._deciding:
            if use.asked:
                prepared.append(self._asked[use.name])
                continue
            found = self._prepare(use, pod, view)
            prepared.append(found)
            if found.reject is not None:
                rejected = found
                if found.reject.code is not Code.UNSCHEDULABLE:
                    break
        return prepared, rejected

    def _put_together(
        self, prepared: list[Prepared], rejected: Prepared | None, view: View
    ) -> Record:
        return Record(self.profile, view.nodes, prepared, rejected, self._possible(prepared, view))

    def _possible(self, prepared: list[Prepared], view: View) -> Possible:
        """Find the part of the verdict that depends on nodes alone; classes share it."""
        kept = [p.answers for p in prepared if p.answers is not None and p.use.of_node]
        allowed = [p.narrow for p in prepared if p.narrow is not None and not p.use.asked]
        key = (*map(id, kept), *map(id, allowed))
        found = self._shared.find(key)
        if found is None:
            found = Possible(view.nodes, kept, allowed)
            self._shared.keep(key, found, 4 * _room(view.nodes.capacity))
        return found


class Recent(Generic[V]):
    """A bounded memory that a stream of things asked for once does not wash out.

    What is new is kept on trial, in little room; what is asked for again while on trial, or soon
    after it was dropped from there, is ``proven`` and stays until it is the one used longest ago.
    A thousand pods of a thousand requests so work in the same few arrays, which are then still in
    the processor's cache: measured, that is a fourth of what such a pod costs.

    >>> table = Recent[int](trial=1)
    >>> for word in ("once", "twice", "thrice"):
    ...     table.keep(word, len(word), most=10)
    >>> table.find("once"), table.find("thrice")
    (None, 6)
    >>> table.keep("once", 4, most=10)
    >>> sorted(table.proven)
    ['once', 'thrice']
    """

    __slots__ = ("_dropped", "_new", "_trial", "proven")

    def __init__(self, trial: int) -> None:
        self._trial = trial
        self._new: OrderedDict[Hashable, V] = OrderedDict()
        self._dropped: OrderedDict[Hashable, None] = OrderedDict()
        self.proven: OrderedDict[Hashable, V] = OrderedDict()

    def __iter__(self) -> Iterator[V]:
        return iter([*self.proven.values(), *self._new.values()])

    def find(self, key: Hashable) -> V | None:
        """The value under the key, which has now proven itself."""
        found = self.proven.get(key)
        if found is not None:
            self.proven.move_to_end(key)
            return found
        found = self._new.pop(key, None)
        if found is not None:
            self.proven[key] = found
        return found

    def keep(self, key: Hashable, value: V, most: int) -> None:
        """Keep a value, instead of what was kept under its key; at most so many proven ones."""
        if key in self.proven or key in self._dropped:
            self._dropped.pop(key, None)
            self.proven[key] = value
            self.proven.move_to_end(key)
            if len(self.proven) > most:
                self.proven.popitem(last=False)
            return
        self._new[key] = value
        if len(self._new) > self._trial:
            self._dropped[self._new.popitem(last=False)[0]] = None
            if len(self._dropped) > most:
                self._dropped.popitem(last=False)


def _alike(old: Prepared, new: Prepared) -> bool:
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
