"""VolumeBinding: not built. A pod with persistent volumes waits and is told so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from holdfast.columns.pod_facts import PodFacts
from holdfast.framework.plugin import ClusterEvent, Code, Reject, Scope, Skip
from holdfast.framework.view import View

NOT_BUILT = "volume binding is not built: the pod uses a persistent volume claim ({})"


class VolumeBinding:
    """Refuse pods with persistent or generic ephemeral volumes."""

    name: ClassVar[str] = "VolumeBinding"
    epochs: ClassVar[tuple[str, ...]] = ()
    scope: ClassVar[Scope] = Scope.NODE

    def __init__(self, _args: Mapping[str, Any]) -> None:
        pass

    def reads(self, pod: PodFacts, _view: View) -> str:
        """The first volume that would have to be bound, or ""."""
        for volume in pod.pod.spec.volumes:
            if volume.persistent_volume_claim is not None or volume.ephemeral is not None:
                return volume.name
        return ""

    def prepare(self, pod: PodFacts, view: View) -> Reject | Skip:
        """Say no rather than place the pod where its volume is not."""
        volume = self.reads(pod, view)
        return Reject(Code.UNRESOLVABLE, (NOT_BUILT.format(volume),)) if volume else Skip()

    def hint(self, _event: ClusterEvent, _pod: PodFacts, _view: View) -> bool:
        """Nothing that happens will build it."""
        return False
