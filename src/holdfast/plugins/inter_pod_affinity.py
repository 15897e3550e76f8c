"""InterPodAffinity: not built. A pod that asks for it waits and is told so, never ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from holdfast.columns.pod_facts import PodFacts
from holdfast.framework.plugin import ClusterEvent, Code, Reject, Scope, Skip
from holdfast.framework.view import View

NOT_BUILT = "inter-pod affinity is not built: remove podAffinity and podAntiAffinity from the pod"


class InterPodAffinity:
    """Refuse pods with pod affinity or anti-affinity terms, required or preferred."""

    name: ClassVar[str] = "InterPodAffinity"
    epochs: ClassVar[tuple[str, ...]] = ()
    scope: ClassVar[Scope] = Scope.NODE

    def __init__(self, _args: Mapping[str, Any]) -> None:
        pass

    def reads(self, pod: PodFacts, _view: View) -> bool:
        """Whether the pod says anything about its neighbours."""
        affinity = pod.pod.spec.affinity
        if affinity is None:
            return False
        return affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None

    def prepare(self, pod: PodFacts, view: View) -> Reject | Skip:
        """Say no rather than place the pod where it must not be."""
        return Reject(Code.UNRESOLVABLE, (NOT_BUILT,)) if self.reads(pod, view) else Skip()

    def hint(self, _event: ClusterEvent, _pod: PodFacts, _view: View) -> bool:
        """Nothing that happens will build it."""
        return False
