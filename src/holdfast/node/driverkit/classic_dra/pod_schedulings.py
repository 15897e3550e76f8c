"""PodSchedulings as a driver reads and answers them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from holdfast.api.classic_dra.types import PodScheduling
from holdfast.api.meta import is_controlled_by, version_guard
from holdfast.api.pod import Pod
from holdfast.api.scheme import PODS
from holdfast.client.client import Client
from holdfast.client.informer import Informer
from holdfast.node.driverkit.classic_dra.negotiation import changed_claims
from holdfast.node.driverkit.classic_dra.written_objects import WrittenObjects
from holdfast.runtime.errors import NotFound


class PodSchedulings:
    """The current negotiations, with the driver's own answers."""

    def __init__(self, client: Client, informer: Informer[PodScheduling]) -> None:
        self._client = client
        self._resource = informer.resource
        self._known = WrittenObjects(informer)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys of all."""
        return iter(self._known.informer.cache)

    def get(self, key: str) -> PodScheduling | None:
        """Return the newest known version."""
        return self._known.get(key)

    async def read(self, key: str) -> PodScheduling | None:
        """Read one from the API server; None if it is gone."""
        known = self._known.get(key)
        if known is None:
            return None
        try:
            scheduling = await self._client.get(self._resource, known.name, known.namespace)
        except NotFound:
            return None
        return self._known.put(scheduling)

    async def publish(
        self, scheduling: PodScheduling, answers: Mapping[str, Sequence[str]]
    ) -> None:
        """Write the unsuitable nodes by entry, if they have changed; raises Conflict."""
        claims = changed_claims(scheduling, answers)
        if claims is None:
            return
        body = {"metadata": version_guard(scheduling), "status": {"claims": claims}}
        try:
            written = await self._client.patch(
                self._resource, scheduling.name, body, scheduling.namespace, subresource="status"
            )
        except NotFound:
            return
        self._known.put(written)

    async def pod_of(self, scheduling: PodScheduling) -> Pod | None:
        """Return the pod of a PodScheduling if it is the owner and is not scheduled yet."""
        try:
            pod = await self._client.get(PODS, scheduling.name, scheduling.namespace)
        except NotFound:
            return None
        # A scheduler that is killed after it has bound a pod leaves the PodScheduling behind.
        gone = pod.terminating or pod.finished or bool(pod.spec.node_name)
        return None if gone or not is_controlled_by(scheduling, pod) else pod
