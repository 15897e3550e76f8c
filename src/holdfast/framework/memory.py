"""What is remembered between pods: answers per plugin, a record per class of pods.

Pods that no plugin can tell apart form a class. Each plugin's answers are kept per what *it*
reads of the pod, so classes that differ only in their request share what the taints say. A class
keeps the sum: which rows are feasible and their total score.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeVar

from holdfast.columns.pod_facts import PodFacts
from holdfast.framework.answers import Answers
from holdfast.framework.plugin import Code, Filters, Prepares, Scope, Scores, Skip, implements
from holdfast.framework.possible import Possible
from holdfast.framework.prepared import Prepared, ask, take
from holdfast.framework.profile import Profile
from holdfast.framework.record import Record
from holdfast.framework.view import View

OFFERS_PLUGIN = "Reservation"
"""The plugin that gives owners their held room; others leave the rows of matched offers to it."""
_FEW = 16
T = TypeVar("T")


class Memory:
    """Answers and records of one profile in one world."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.offers = any(p.name == OFFERS_PLUGIN for p in profile.having(Filters))
        self._deciding = deciding(profile)
        self._roles = {p.name: profile.role(p) for p in self._deciding}
        self._epochs = {p.name: ("layout", *p.epochs) for p in self._deciding}
        self._asked = {
            p.name: Prepared(p, (), skip=True)
            for p in self._deciding
            if getattr(p, "scope", Scope.CLUSTER) is Scope.CLUSTER
        }
        self._beyond = tuple(
            getattr(p, "beyond", p.reads)
            for p in self._deciding
            if getattr(p, "beyond_spec", False)
        )
        self._records: dict[Hashable, Record] = {}
        self._prepared: dict[tuple[str, Hashable], Prepared] = {}
        self._shared: dict[tuple[int, ...], Possible] = {}
        """By identity of the answers, which each entry keeps alive: no id is ever another's."""

    def record(self, pod: PodFacts, view: View) -> Record:
        """The record of the pod's class, made or renewed if need be. Not refreshed yet."""
        key = self._key(pod, view)
        record = self._records.get(key)
        if record is not None and self._holds(record, pod, view):
            if len(self._records) > _FEW:
                self._records[key] = self._records.pop(key)  # last used, last dropped
            return record
        record = self._make(pod, view)
        if record.rejected is None:
            # Preparing may have made labels visible, and with them given the pod a new kind.
            _keep(self._records, self._key(pod, view), record, _room(view.nodes.capacity))
        return record

    def complete(self, record: Record, pod: PodFacts, view: View) -> list[Prepared]:
        """What all plugins made of the pod, those asked every time included.

        It is the record's own list if none of them has anything to say.
        """
        fresh: dict[str, Prepared] = {}
        for prepared in record.fresh:
            plugin = prepared.plugin
            answer = plugin.prepare(pod, view) if implements(plugin, Prepares) else None
            if not isinstance(answer, Skip):
                role = self._roles[plugin.name]
                fresh[plugin.name] = take(plugin, answer, prepared.versions, role)
        if not fresh:
            return record.prepared
        return [fresh.get(p.plugin.name, p) for p in record.prepared]

    def prepare(self, plugin: Any, pod: PodFacts, view: View) -> Prepared:
        """What the plugin, whose scope is not CLUSTER, makes of the pod; remembered."""
        epochs = view.nodes.epochs
        key = (plugin.name, plugin.reads(pod, view))
        found = self._prepared.get(key)
        if found is not None and found.stamp == epochs.stamp:
            return found
        versions = epochs.of(self._epochs[plugin.name])
        if found is not None and found.versions == versions:
            found.stamp = epochs.stamp
            return found
        old, found = found, ask(plugin, pod, view, versions, self._roles[plugin.name])
        if old is not None and getattr(plugin, "comparable", False) and _alike(old, found):
            found = old
            found.versions = versions
        found.stamp = epochs.stamp
        if found.reject is None:
            if plugin.scope.kept and not found.skip and found.answers is None:
                found.answers = Answers(
                    plugin, found.state, view.nodes, filters=found.filters, scores=found.scores
                )
            _keep(self._prepared, key, found, 4 * _room(view.nodes.capacity))
        return found

    def _key(self, pod: PodFacts, view: View) -> Hashable:
        kind = view.nodes.kind_of(pod).id
        if not self._beyond:
            return (pod.shape, kind, bool(pod.reserve_for))
        beyond = tuple([reads(pod, view) for reads in self._beyond])
        return (pod.shape, kind, bool(pod.reserve_for), beyond)

    def _holds(self, record: Record, pod: PodFacts, view: View) -> bool:
        """Tell whether a record still stands; epochs that only concern skips are taken in."""
        epochs = view.nodes.epochs
        if record.stamp == epochs.stamp:
            return True
        for i, prepared in enumerate(record.prepared):
            if prepared.asked:
                continue
            plugin = prepared.plugin
            if prepared.stamp == epochs.stamp:
                continue
            if prepared.versions == epochs.of(self._epochs[plugin.name]):
                prepared.stamp = epochs.stamp
                continue
            again = self.prepare(plugin, pod, view)
            if again is not prepared and not (prepared.skip and again.skip):
                return False
            record.prepared[i] = again
        record.stamp = epochs.stamp
        return True

    def _make(self, pod: PodFacts, view: View) -> Record:
        prepared: list[Prepared] = []
        rejected: Prepared | None = None
        for plugin in self._deciding:
            placeholder = self._asked.get(plugin.name)
            if placeholder is not None:
                prepared.append(placeholder)
                continue
            found = self.prepare(plugin, pod, view)
            prepared.append(found)
            if found.reject is not None:
                rejected = found
                if found.reject.code is not Code.UNSCHEDULABLE:
                    break
        return Record(self.profile, view.nodes, prepared, rejected, self._possible(prepared, view))

    def _possible(self, prepared: list[Prepared], view: View) -> Possible:
        """Find the part of the verdict that depends on nodes alone; classes share it."""
        kept = [
            p.answers for p in prepared if p.answers is not None and p.plugin.scope is Scope.NODE
        ]
        allowed = [p.narrow for p in prepared if p.narrow is not None and not p.asked]
        key = (*map(id, kept), *map(id, allowed))
        found = self._shared.get(key)
        if found is None:
            found = Possible(view.nodes, kept, allowed)
            _keep(self._shared, key, found, 4 * _room(view.nodes.capacity))
        return found


def deciding(profile: Profile) -> tuple[Any, ...]:
    """Plugins that have a say in where a pod goes, those that prepare in the order of preFilter."""
    asked = [
        p for p in profile.plugins if any(implements(p, x) for x in (Prepares, Filters, Scores))
    ]
    if not profile.lists:
        return tuple(asked)
    first = profile.having(Prepares)
    return (*first, *(p for p in asked if p not in first))


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


def _keep(table: dict[Any, T], key: Hashable, value: T, most: int) -> None:
    """Remember a value, dropping the oldest if there are too many."""
    table.pop(key, None)
    if len(table) >= most:
        del table[next(iter(table))]
    table[key] = value
