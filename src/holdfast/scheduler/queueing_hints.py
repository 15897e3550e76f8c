"""Who wants to hear of an event, and what it is worth for a pod they rejected."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Hashable, Mapping

from holdfast.columns.pod_info import PodInfo
from holdfast.engine.decision import run_pre_enqueue_plugins
from holdfast.engine.profile import Profile
from holdfast.framework.plugin import (
    ClusterEvent,
    FilterPlugin,
    OutsideSpecKeyPlugin,
    Plugin,
    QueueingHintPlugin,
    Scope,
    implements,
    is_registered_for,
)
from holdfast.framework.view import View
from holdfast.framework.world import World
from holdfast.scheduler.metrics import NO_DURATIONS, DurationRecorder
from holdfast.scheduler.queued_pods import QueuedPodInfo, QueueingStrategy

log = logging.getLogger(__name__)


class QueueingHints:
    """Puts events to the hints of the plugins that rejected a pod.

    A plugin that names no interests is asked about every event, and one without hints sees hope
    in all of them. So do those named ``besides``, who are no plugins.
    """

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        world: World,
        now: Callable[[], float],
        besides: Collection[str] = (),
        watch: DurationRecorder = NO_DURATIONS,
    ) -> None:
        self._profiles = profiles
        self._plugins = {
            profile: {plugin.name: plugin for plugin in found.plugins}
            for profile, found in profiles.items()
        }
        self._world = world
        self._now = now
        self._besides = frozenset(besides)
        self._wants: dict[tuple[str, str], frozenset[str]] = {}
        self._watch = watch

    def gating_plugin(self, pod_info: PodInfo) -> str:
        """Name the plugin that keeps a pod out of the queue, or ""."""
        profile = self._profiles[pod_info.scheduler_name]
        gate = run_pre_enqueue_plugins(profile, pod_info, self._world, self._now())
        return "" if gate is None else gate[0]

    def interested_plugins(self, event: ClusterEvent) -> frozenset[str] | None:
        """Name the plugins that want to hear of an event; None: every single pod must be asked.

        Room held for owners concerns whoever owns it, no matter who rejected them.
        """
        return None if event.is_reservation_event else self._interested(event)

    def queueing_strategy(self, queued: QueuedPodInfo, event: ClusterEvent) -> QueueingStrategy:
        """Say what an event is worth for a pod, by its rejectors' hints."""
        pod_info = queued.pod_info
        view = View(self._world, pod_info, self._now())
        of_owner = event.is_reservation_event or event.is_for_pod(pod_info)
        if of_owner and view.matched_reservations is not None:
            # An owner may have been turned away for want of the very room that is held for it.
            return QueueingStrategy.AFTER_BACKOFF
        plugins, interested = self._plugins[pod_info.scheduler_name], self._interested(event)
        worth = QueueingStrategy.SKIP
        for name in queued.unschedulable_plugins & interested:
            if not self._helps(plugins.get(name), event, pod_info, view):
                continue
            if name in queued.pending_plugins:
                return QueueingStrategy.IMMEDIATELY
            worth = QueueingStrategy.AFTER_BACKOFF
        return worth

    def equivalence_key(self, queued: QueuedPodInfo) -> Hashable:
        """Tell which pods the same events help: of equal spec, namespace and visible labels.

        Unless a rejector looks at more of a pod than that. Holds while ``mark`` does.
        """
        pod_info = queued.pod_info
        plugins = self._plugins[pod_info.scheduler_name]
        if any(
            self._looks_closer(plugins.get(name), pod_info) for name in queued.unschedulable_plugins
        ):
            return pod_info.uid
        kind = self._world.nodes.label_group_of(pod_info).id
        return (
            pod_info.scheduler_name,
            kind,
            pod_info.spec_key,
            pod_info.is_reserve_pod and pod_info.uid,
        )

    def mark(self) -> int:
        """What ``alike`` depends on besides the pods: which of their labels anybody looks at."""
        return self._world.nodes.epochs["labels"]

    def _looks_closer(self, plugin: Plugin | None, pod_info: PodInfo) -> bool:
        if plugin is None:
            return False
        if plugin.traits.reads_outside_spec:
            view = View(self._world, pod_info, self._now())
            return (
                not implements(plugin, OutsideSpecKeyPlugin)
                or plugin.key_outside_spec(pod_info, view) is not None
            )
        return implements(plugin, FilterPlugin) and plugin.traits.scope is Scope.CLUSTER

    def _helps(
        self, plugin: Plugin | None, event: ClusterEvent, pod_info: PodInfo, view: View
    ) -> bool:
        """Ask a plugin's hint; one that fails costs the pod a try, not the scheduler its life."""
        if plugin is None or not implements(plugin, QueueingHintPlugin):
            return True
        began = self._watch.read()
        try:
            helps = bool(plugin.queueing_hint(event, pod_info, view))
            word = "Queue" if helps else "QueueSkip"
        except Exception:
            log.exception("hint of %s about %s", plugin, event.label)
            helps, word = True, "Error"
        self._watch.tell(self._watch.read() - began, plugin.name, event.label, word)
        return helps

    def _interested(self, event: ClusterEvent) -> frozenset[str]:
        key = (event.resource, event.action)
        found = self._wants.get(key)
        if found is None:
            found = self._wants[key] = self._besides.union(
                name
                for plugins in self._plugins.values()
                for name, plugin in plugins.items()
                if is_registered_for(plugin, event)
            )
        return found
