"""Select the rejected pods that an event may make schedulable, by the plugins' queueing hints.

Pods with an equal ``equivalence_key`` share one call of a hint. Labels count in it only where some
selector reads them: with all labels, each pod of a StatefulSet has a different key, and an event
cost 180 ms with 5,000 of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Hashable, Mapping

from holdfast.scheduling.engine.decision import run_pre_enqueue_plugins
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.events import QueueingStrategy
from holdfast.scheduling.framework.plugin import ClusterEvent, Plugin, Reject, Scope
from holdfast.scheduling.framework.points import Point, has_point, overrides
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.scheduler.metrics import NO_DURATIONS, DurationRecorder
from holdfast.scheduling.scheduler.queued_pods import EventKeys, QueuedPodInfo, QueueingRules
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.pod_info import PodInfo

log = logging.getLogger(__name__)


class QueueingHints(QueueingRules):
    """Runs the queueing hints of the plugins that rejected a pod.

    A plugin without ``events_to_register`` registers for every event. Without ``queueing_hint``
    every event that it registers for helps its pods. Every event helps the pods of the names in
    ``without_hint``, which are not plugins.
    """

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        world: World,
        now: Callable[[], float],
        without_hint: Collection[str] = (),
        durations: DurationRecorder = NO_DURATIONS,
    ) -> None:
        self._profiles = profiles
        self._plugins = {
            name: {plugin.name: plugin for plugin in profile.plugins}
            for name, profile in profiles.items()
        }
        self._keyed: dict[str, Plugin] = {
            name: plugin
            for plugins in self._plugins.values()
            for name, plugin in plugins.items()
            if overrides(plugin, Plugin.event_keys)
        }
        self._world = world
        self._now = now
        self._without_hint = frozenset(without_hint)
        self._interested_by_event: dict[tuple[str, str], frozenset[str]] = {}
        self._durations = durations

    def gating_plugin(self, pod_info: PodInfo) -> str:
        """Return the name of the PreEnqueue plugin that keeps a pod out of activeQ, or ""."""
        plugin_and_rejection = self.gating_rejection(pod_info)
        return "" if plugin_and_rejection is None else plugin_and_rejection[0]

    def gating_rejection(self, pod_info: PodInfo) -> tuple[str, Reject] | None:
        """Return that plugin's name and why it rejects the pod, or None."""
        profile = self._profiles[pod_info.scheduler_name]
        return run_pre_enqueue_plugins(profile, profile.view(pod_info, self._world, self._now()))

    def interested_plugins(self, event: ClusterEvent) -> frozenset[str] | None:
        """Return the names of the plugins that registered for an event; None: check every pod.

        An event about reserved resources may help any owner, whichever plugin rejected it.
        """
        return None if event.is_reservation_event else self._interested(event)

    def queueing_strategy(self, queued: QueuedPodInfo, event: ClusterEvent) -> QueueingStrategy:
        """Return what to do with a rejected pod after an event, by its plugins' hints."""
        pod_info = queued.pod_info
        view = self._view(pod_info)
        of_owner = event.is_reservation_event or event.is_for_pod(pod_info)
        if of_owner and view.matched_reservations is not None:
            # The owner may have been rejected for lack of the resources reserved for it.
            return QueueingStrategy.AFTER_BACKOFF
        plugins, interested = self._plugins[pod_info.scheduler_name], self._interested(event)
        strategy = QueueingStrategy.SKIP
        for name in queued.unschedulable_plugins & interested:
            hint = self._hint(plugins.get(name), event, pod_info, view)
            if not hint:
                continue
            if hint is True and name in queued.pending_plugins:
                hint = QueueingStrategy.IMMEDIATELY
            if hint is QueueingStrategy.IMMEDIATELY:
                return hint
            strategy = QueueingStrategy.AFTER_BACKOFF
        return strategy

    def pod_keys(self, queued: QueuedPodInfo, plugin: str) -> Collection[Hashable]:
        """Return the keys of a pod for a plugin that finds the pods of an event by keys."""
        instance = self._plugins[queued.pod_info.scheduler_name].get(plugin)
        return () if instance is None else instance.pod_keys(queued.pod_info)

    def event_keys(self, event: ClusterEvent) -> EventKeys:
        """Return the keys of an event by plugin, for those that find its pods by keys."""
        pairs = ((name, plugin.event_keys(event)) for name, plugin in self._keyed.items())
        return {name: keys for name, keys in pairs if keys is not None}

    def equivalence_key(self, queued: QueuedPodInfo) -> Hashable:
        """Return a key that is equal for pods of equal spec, namespace and visible labels.

        A pod has a unique key if a plugin that rejected it reads more than that. Keys are valid
        while ``equivalence_epoch`` stays the same.
        """
        pod_info = queued.pod_info
        plugins = self._plugins[pod_info.scheduler_name]
        if any(
            self._reads_beyond_key(plugins.get(name), pod_info)
            for name in queued.unschedulable_plugins
        ):
            return pod_info.uid
        kind = self._world.nodes.label_group_of(pod_info).id
        return (
            pod_info.scheduler_name,
            kind,
            pod_info.spec_key,
            pod_info.is_reserve_pod and pod_info.uid,
        )

    def equivalence_epoch(self) -> int:
        """Return the epoch of the visible labels, on which ``equivalence_key`` depends."""
        return self._world.nodes.epochs[Epoch.LABELS]

    def _reads_beyond_key(self, plugin: Plugin | None, pod_info: PodInfo) -> bool:
        if plugin is None:
            return False
        if overrides(plugin, Plugin.event_keys):
            return True  # else all equal pods would be moved if one of them has a key of the event
        if plugin.traits.reads_outside_spec:
            if not overrides(plugin, Plugin.key_outside_spec):
                return True
            view = self._view(pod_info)
            return plugin.key_outside_spec(pod_info, view) is not None
        return has_point(plugin, Point.FILTER) and plugin.traits.scope is Scope.CLUSTER

    def _view(self, pod_info: PodInfo) -> View:
        profile = self._profiles[pod_info.scheduler_name]
        return profile.view(pod_info, self._world, self._now())

    def _hint(
        self, plugin: Plugin | None, event: ClusterEvent, pod_info: PodInfo, view: View
    ) -> bool | QueueingStrategy:
        """Run a plugin's queueing hint; if it raises, the pod is requeued."""
        if plugin is None or not overrides(plugin, Plugin.queueing_hint):
            return True
        began = self._durations.now()
        try:
            hint = plugin.queueing_hint(event, pod_info, view)
            if not isinstance(hint, QueueingStrategy):
                hint = bool(hint)
            result = "Queue" if hint else "QueueSkip"
        except Exception:
            log.exception("queueing hint of %s failed for event %s", plugin.name, event.label)
            hint, result = True, "Error"
        self._durations.record(self._durations.now() - began, plugin.name, event.label, result)
        return hint

    def _interested(self, event: ClusterEvent) -> frozenset[str]:
        key = (event.resource, event.action)
        names = self._interested_by_event.get(key)
        if names is None:
            names = self._interested_by_event[key] = self._without_hint.union(
                name
                for plugins in self._plugins.values()
                for name, plugin in plugins.items()
                if plugin.traits.registers(event)
            )
        return names
