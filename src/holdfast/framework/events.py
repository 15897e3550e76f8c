"""What happens in a cluster, and who wants to hear of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.columns.pod_facts import PodFacts

WILDCARD = "*"
POD_RESOURCES = ("AssignedPod", "UnschedulablePod", "Pod")


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """Something happened: which resource, which action.

    Pods are told apart by whether they stand on a node: ``AssignedPod``, ``UnschedulablePod``.
    Other resources go by their kind. Actions are ``Add``, ``Delete``, ``Update``, or what changed:
    ``UpdateNodeTaint``, ``UpdatePodLabel`` and so on. The resource ``*`` stands for no news at
    all, only for somebody's wish to try again.
    """

    resource: str
    action: str
    old: Any = None
    new: Any = None

    @property
    def about_pod(self) -> bool:
        """Whether it is about a pod, standing or waiting."""
        return self.resource in POD_RESOURCES

    def is_about(self, pod: PodFacts) -> bool:
        """Whether it is about this very pod."""
        return self.about_pod and self.new is not None and self.new.uid == pod.pod.uid

    @property
    def label(self) -> str:
        """The name metrics give it.

        >>> ClusterEvent("AssignedPod", "Delete").label, ClusterEvent("*", "ForceActivate").label
        ('AssignedPodDelete', 'ForceActivate')
        """
        return self.action if self.resource == WILDCARD else f"{self.resource}{self.action}"


@dataclass(frozen=True, slots=True)
class Interest:
    """A kind of event a plugin wants to hear of, because its rejection may end with it.

    ``Pod`` means pods on nodes and pods without. The action ``Update`` takes in every kind of
    update; a particular one, such as ``UpdatePodLabel``, only itself.
    """

    resource: str
    actions: frozenset[str]

    def covers(self, event: ClusterEvent) -> bool:
        """Tell whether an event is of this kind.

        >>> on("Pod", "Update").covers(ClusterEvent("AssignedPod", "UpdatePodLabel"))
        True
        >>> on("Node", "UpdateNodeLabel").covers(ClusterEvent("Node", "Update"))
        False
        """
        same = self.resource == event.resource or (self.resource == "Pod" and event.about_pod)
        if not same:
            return False
        action = event.action
        return action in self.actions or ("Update" in self.actions and action.startswith("Update"))


def on(resource: str, *actions: str) -> Interest:
    """Name an interest: ``on("Node", "Add", "UpdateNodeLabel")``."""
    return Interest(resource, frozenset(actions))


def covered(interests: Iterable[Interest], event: ClusterEvent) -> bool:
    """Tell whether any of the interests takes the event in."""
    return any(interest.covers(event) for interest in interests)
