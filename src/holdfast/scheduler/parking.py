"""Pods that wait for something to happen: the unschedulable and the gated.

They are filed under the plugins that keep them there, so that an event looks only at those it may
help; and pods that nobody can tell apart are filed together, so that a hint is asked once for all
of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator

from holdfast.scheduler.queued_pods import QueuedPod

Alike = Callable[[QueuedPod], Hashable]
"""Equal for pods that the same events help."""
Mark = Callable[[], Hashable]
"""Answers something else when pods that were alike may be so no longer."""
File = dict[Hashable, dict[str, QueuedPod]]


class Parking:
    """Parked pods by uid, by plugin and by what makes them alike."""

    def __init__(self, alike: Alike, mark: Mark = lambda: None) -> None:
        self._alike = alike
        self._mark = mark
        self._marked = mark()
        self._pods: dict[str, QueuedPod] = {}
        self._files: dict[str, File] = {}
        self._filed: dict[str, tuple[Hashable, Collection[str]]] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(list(self._pods.values()))

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def put(self, pod: QueuedPod) -> None:
        """Park a pod, or file it anew because it changed."""
        self.take(pod.uid)
        group = (pod.gate, pod.rejectors, pod.pending_on, self._alike(pod))
        # A gated pod hears only of what its gate wants to hear of.
        plugins = {pod.gate} if pod.gate else pod.rejectors
        self._pods[pod.uid] = pod
        self._filed[pod.uid] = (group, plugins)
        for plugin in plugins:
            self._files.setdefault(plugin, {}).setdefault(group, {})[pod.uid] = pod

    def take(self, uid: str) -> None:
        """Let a pod go; one that is not here is fine."""
        if self._pods.pop(uid, None) is None:
            return
        group, plugins = self._filed.pop(uid)
        for plugin in plugins:
            file = self._files[plugin]
            del file[group][uid]
            if not file[group]:
                del file[group]

    def concerned(self, plugins: Collection[str] | None) -> list[Collection[QueuedPod]]:
        """Pods kept here by one of the plugins, alike ones together; None takes all, singly.

        These are no copies: an event that helps nobody shall not cost more the more pods wait.
        """
        if not self._pods:
            return []
        if self._marked != self._mark():
            self._marked = self._mark()
            for pod in self:
                self.put(pod)
        if plugins is None:
            return [[pod] for pod in self._pods.values()]
        groups = {group: pods for name in plugins for group, pods in self._file(name).items()}
        return [pods.values() for pods in groups.values()]

    def _file(self, plugin: str) -> File:
        return self._files.get(plugin, {})
