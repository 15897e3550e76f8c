"""A classic resource driver for tests; it acts only when a test calls ``step`` or ``serve``.

``step`` reads every claim and PodScheduling once, as a driver's controller would, and writes what
is due. ``serve`` repeats that until nothing more happens::

    driver = ClassicDriver(cluster.client, devices={"n1": 1})
    await driver.serve(cluster.settle)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from holdfast.api.classic_dra.claims import classic_entries
from holdfast.api.classic_dra.names import deletion_protection
from holdfast.api.classic_dra.types import ClassicClaim, PodScheduling, classic_resources
from holdfast.api.decode import JsonObject
from holdfast.api.devices import pod_consumer
from holdfast.api.meta import Object, is_controlled_by, version_guard
from holdfast.api.pod import Pod
from holdfast.api.resource import Resource
from holdfast.api.scheme import PODS
from holdfast.client.client import Client
from holdfast.runtime.errors import NotFound
from holdfast.state.classic_dra.claim_state import ClaimState, is_protected, state_of
from holdfast.testing.classic_dra.builders import DRIVER, on_nodes

KINDS = classic_resources()
T = TypeVar("T")


@dataclass
class ClassicDriver:
    """A driver with ``devices`` by node, one per claim; None: any number of devices on all nodes.

    A claim in ``delayed`` is not allocated yet. ``records`` has the node of each allocated claim;
    ``deallocations`` lists the claims that were deallocated.
    """

    client: Client
    name: str = DRIVER
    devices: Mapping[str, int] | None = None
    shared: bool = False
    answers: bool = True
    """Whether it reports unsuitable nodes; a single claim needs no such report."""
    delayed: set[str] = field(default_factory=set)
    records: dict[str, str] = field(default_factory=dict)
    """The node of each allocated claim, by uid."""
    deallocations: list[str] = field(default_factory=list)
    writes: int = 0

    async def serve(self, settle: Callable[[], Awaitable[None]], rounds: int = 50) -> None:
        """Act until nothing more happens."""
        for _ in range(rounds):
            await settle()
            before = self.writes
            await self.step()
            if self.writes == before:
                return
        raise AssertionError(f"{self.name} and the scheduler do not come to an end")

    async def step(self) -> None:
        """Handle every claim, then every PodScheduling."""
        mine = {
            resource_class.name
            for resource_class in (await self.client.list(KINDS.classes)).items
            if resource_class.driver_name == self.name
        }
        for claim in (await self.client.list(KINDS.claims)).items:
            if state_of(claim) in (ClaimState.RELEASING, ClaimState.DELETING):
                await self._deallocate(claim)
            elif claim.is_immediate and _is_pending(claim, mine) and claim.name not in self.delayed:
                node = next(iter(self.free_nodes()), "")
                if node or self.devices is None:
                    await self._allocate(claim, node, None)
        for negotiation in (await self.client.list(KINDS.pod_scheduling)).items:
            await self._negotiate(negotiation, mine)

    def free_nodes(self) -> list[str]:
        """Return the nodes that have a free device."""
        used = list(self.records.values())
        return [node for node, count in (self.devices or {}).items() if used.count(node) < count]

    async def _negotiate(self, negotiation: PodScheduling, mine: set[str]) -> None:
        pod = await self._pod(negotiation)
        if pod is None:
            return
        pending: dict[str, ClassicClaim] = {}
        for entry in classic_entries(pod):
            claim = await self._claim(pod.namespace, entry.claim_name)
            if claim is not None and _is_pending(claim, mine):
                pending[entry.name] = claim
        selected, needed = negotiation.spec.selected_node, len(pending)
        if not pending:
            return
        unsuitable = self._unsuitable(negotiation, needed)
        if selected and selected not in unsuitable:
            for claim in pending.values():
                if claim.name not in self.delayed:
                    await self._allocate(claim, selected, pod)
        elif self.answers:
            await self._answer(negotiation, dict.fromkeys(pending, unsuitable))

    def _unsuitable(self, negotiation: PodScheduling, needed: int) -> list[str]:
        if self.devices is None:
            return []
        asked = {*negotiation.spec.potential_nodes, negotiation.spec.selected_node} - {""}
        used = list(self.records.values())
        return sorted(n for n in asked if self.devices.get(n, 0) - used.count(n) < needed)

    async def _answer(
        self, negotiation: PodScheduling, unsuitable: Mapping[str, list[str]]
    ) -> None:
        known = {
            a.pod_resource_claim_name: [*a.unsuitable_nodes] for a in negotiation.status.claims
        }
        if all(known.get(name) == nodes for name, nodes in unsuitable.items()):
            return
        claims = [
            {"podResourceClaimName": name, "unsuitableNodes": nodes}
            for name, nodes in {**known, **unsuitable}.items()
        ]
        patch = {"metadata": {"uid": negotiation.uid}, "status": {"claims": claims}}
        await self._write(KINDS.pod_scheduling, negotiation, patch, "status")

    async def _allocate(self, claim: ClassicClaim, node: str, pod: Pod | None) -> None:
        """Allocate on a node and reserve for the pod, after the finalizer is stored."""
        if claim.uid in self.records:
            return
        if not is_protected(claim, self.name):
            finalizers = [*claim.metadata.finalizers, deletion_protection(self.name)]
            claim = await self._write(
                KINDS.claims, claim, self._guarded(claim, {"metadata": {"finalizers": finalizers}})
            )
        self.records[claim.uid] = node
        allocation: JsonObject = {"resourceHandle": node, "sharedResource": self.shared}
        if self.devices is not None:
            allocation["availableOnNodes"] = on_nodes(node)
        status: JsonObject = {"driverName": self.name, "allocation": allocation}
        if pod is not None:
            status["reservedFor"] = [pod_consumer(pod)]
        await self._write(KINDS.claims, claim, self._guarded(claim, {"status": status}), "status")

    async def _deallocate(self, claim: ClassicClaim) -> None:
        if claim.status.reserved_for or not is_protected(claim, self.name):
            return
        if self.records.pop(claim.uid, None) is not None:
            self.deallocations.append(claim.name)
        if claim.is_allocated:
            none = {"allocation": None, "driverName": None, "deallocationRequested": None}
            patch = self._guarded(claim, {"status": none})
            claim = await self._write(KINDS.claims, claim, patch, "status")
        others = [f for f in claim.metadata.finalizers if f != deletion_protection(self.name)]
        patch = self._guarded(claim, {"metadata": {"finalizers": others}})
        await self._write(KINDS.claims, claim, patch)

    @staticmethod
    def _guarded(claim: ClassicClaim, patch: JsonObject) -> JsonObject:
        guard = version_guard(claim)
        return {**patch, "metadata": {**patch.get("metadata", {}), **guard}}

    async def _write(
        self, resource: Resource[T], obj: Object, patch: JsonObject, subresource: str = ""
    ) -> T:
        self.writes += 1
        return await self.client.patch(
            resource, obj.name, patch, obj.namespace, subresource=subresource
        )

    async def _pod(self, negotiation: PodScheduling) -> Pod | None:
        try:
            pod = await self.client.get(PODS, negotiation.name, negotiation.namespace)
        except NotFound:
            return None
        return pod if is_controlled_by(negotiation, pod) and not pod.terminating else None

    async def _claim(self, namespace: str, name: str) -> ClassicClaim | None:
        try:
            return await self.client.get(KINDS.claims, name, namespace)
        except NotFound:
            return None


def _is_pending(claim: ClassicClaim, classes: set[str]) -> bool:
    of_driver = claim.spec.resource_class_name in classes
    return of_driver and not claim.is_allocated and not claim.is_deleted
