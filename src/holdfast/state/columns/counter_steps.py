"""Counters and label groups made in steps, before a scheduling cycle needs them.

The first pod with affinity or spread by a label key that no selector used before regroups all pods:
320 ms for 150,000 pods, if it is done at once in PreFilter. In steps the longest takes 27 ms. Pods
that were not regrouped yet stay in groups by the previous keys, which are right for all previous
selectors. So every pause leaves a usable state, and a cycle that needs the new keys now can still
regroup the rest at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator

from holdfast.state.columns.counters import PodSelectors
from holdfast.state.columns.epochs import Epoch, Epochs
from holdfast.state.columns.pod_placements import PodPlacements

_PODS_A_STEP = 1000
"""Pods to regroup per step; about 2 ms."""
_MAX_MADE = 4096
_FEW_COUNTERS = 16
"""This many may be made at once; that takes about ten milliseconds."""


class CounterSteps:
    """Makes what selectors need; in the pauses pods, nodes and namespaces may change."""

    def __init__(self, placements: PodPlacements, epochs: Epochs) -> None:
        self._placements = placements
        self._epochs = epochs
        self._made: set[Hashable] = set()
        """Keys of what ``count`` has made, or found, since a counter was dropped."""

    def add_selector_keys(self, keys: frozenset[str]) -> Iterator[None]:
        """Include these label keys in label groups."""
        placements = self._placements
        if placements.has_groups_of(keys):
            return
        yield
        placements.begin_selector_keys(keys)
        self._epochs.bump(Epoch.LABELS)
        while not placements.has_groups_of(keys):
            placements.regroup(_PODS_A_STEP)
            self._epochs.bump(Epoch.LABELS)
            if not placements.has_groups_of(keys):
                yield

    def has_counted(self, key: Hashable) -> bool:
        """Return whether ``count`` has nothing to do."""
        return key in self._made

    def count(
        self, key: Hashable, owner: str, wanted: Callable[[], Iterable[PodSelectors]]
    ) -> Iterator[None]:
        """Make the counters of these selectors for a namespace, ``owner``.

        ``key`` identifies these selectors: until a counter is dropped, a second call does nothing.
        """
        return iter(()) if self.has_counted(key) else self._count(key, owner, wanted)

    def _count(
        self, key: Hashable, owner: str, wanted: Callable[[], Iterable[PodSelectors]]
    ) -> Iterator[None]:
        all_selectors = [*wanted()]
        keys = (s.selector.keys for pod_selectors in all_selectors for s in pod_selectors)
        yield from self.add_selector_keys(frozenset[str]().union(*keys))
        placements = self._placements
        new = [s for s in all_selectors if not placements.has_counter(s, owner)]
        if len(new) <= _FEW_COUNTERS:
            yield from self._make_counters(all_selectors, owner)
        else:
            # One pod at a time. Namespaces share the space for counters, so several pods that need
            # many would drop those of each other without end.
            while placements.pinned:
                yield
            placements.pinned = frozenset([(s, False) for s in all_selectors])
            try:
                yield from self._make_counters(all_selectors, owner)
            finally:
                placements.pinned = frozenset()
        if len(self._made) >= _MAX_MADE:
            self._made.clear()
        self._made.add(key)

    def _make_counters(self, all_selectors: Iterable[PodSelectors], owner: str) -> Iterator[None]:
        for pod_selectors in all_selectors:
            if (yield from self._placements.count_in_steps(pod_selectors, owner)):
                self.counters_dropped()

    def counters_dropped(self) -> None:
        """Forget what was made: counters are made again on demand, and old results are invalid.

        Also called when the node table grows, which drops all counters. When the keys were kept
        then, the next cycle of each class matched all groups of pods at once.
        """
        self._made.clear()
        self._epochs.bump(Epoch.COUNTERS)
