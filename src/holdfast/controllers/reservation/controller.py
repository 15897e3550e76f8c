"""The reservation controller: watches Reservations, the pods that use them, and their nodes."""

from __future__ import annotations

import asyncio
import logging

from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.reservation import HOLDING, Reservation
from holdfast.api.scheme import NODES, PODS, RESERVATIONS
from holdfast.client.informer_cache import ChangeType
from holdfast.controllers.object_index import ObjectIndex
from holdfast.controllers.planned_writes import execute_writes
from holdfast.controllers.reconciler import ControllerContext, Reconciler
from holdfast.controllers.reservation.plan import (
    plan_collection,
    plan_preemptor,
    plan_reservation,
    preemptor_key,
    preemptor_uid,
)
from holdfast.controllers.reservation.usage import NodeUsage
from holdfast.runtime.errors import HoldfastError, NotFound
from holdfast.state.recorded_allocations import RecordedAllocations, Source
from holdfast.state.reservations.operating_pods import has_operating_mode, operating_reservation

log = logging.getLogger(__name__)

MAX_CACHED_NODES = 512


class ReservationController(Reconciler):
    """Writes the status of Reservations, and deletes those that ended long ago.

    Everything is read from the API server, so a restart continues where the last run stopped.
    """

    name = "reservation-controller"
    required_resources = (RESERVATIONS, PODS, NODES)

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._settings = context.settings.reservations
        self.workers = self._settings.workers
        self._usages: dict[str, NodeUsage] = {}
        """Usage of nodes, cached until a pod or reservation on the node changes."""
        self._recorded = RecordedAllocations(self._find)
        self._reservations = context.informers.get(RESERVATIONS)
        self._nodes = context.informers.get(NODES)
        pods = self._pods = context.informers.get(PODS)
        self._pods_on: ObjectIndex[Pod] = ObjectIndex(lambda pod: pod.spec.node_name, pods.cache)
        self._held_on: ObjectIndex[Reservation] = ObjectIndex(
            lambda r: r.status.node_name if r.phase in HOLDING else ""
        )
        self._by_uid: ObjectIndex[Reservation] = ObjectIndex(lambda r: r.uid)
        self._acting: ObjectIndex[Pod] = ObjectIndex(
            lambda pod: pod.uid if has_operating_mode(pod) else "", pods.cache
        )
        self._reservations.add_handler(self._by_uid.on_change)
        self._reservations.add_handler(self._held_on.on_change)
        self._reservations.add_handler(self._on_reservation)
        self._nodes.add_handler(self._on_node)
        self._of_preemptor: ObjectIndex[Reservation] = ObjectIndex(preemptor_uid)
        """Reservations that the scheduler made for preempting pods, by the uid of the pod."""
        self._reservations.add_handler(self._of_preemptor.on_change)
        pods.add_handler(self._pods_on.on_change)
        pods.add_handler(self._acting.on_change)
        pods.add_handler(self._on_pod)

    def _on_reservation(
        self, kind: ChangeType, old: Reservation | None, new: Reservation | None
    ) -> None:
        if new is not None:
            self.queue.add(new.key)
        for each in (old, new):
            if each is not None:
                self._usages.pop(each.status.node_name, None)
        if old is not None and old.active and not (new is not None and _holds_the_same(old, new)):
            self._queue_node(old.status.node_name)

    def _on_node(self, kind: ChangeType, old: Node | None, new: Node | None) -> None:
        either = new or old
        assert either is not None
        if new is None or old is None or old.status.allocatable != new.status.allocatable:
            self._queue_node(either.name)

    def _on_pod(self, kind: ChangeType, old: Pod | None, new: Pod | None) -> None:
        named = self._note_allocations(old, new)
        if not self._reservations.cache:
            self._usages.clear()  # they are not kept up to date
            return
        for pod in (old, new):
            for reservation in self._of_preemptor.of(pod.uid) if pod is not None else ():
                self.queue.add(reservation.key)
        if old is not None and new is not None and _same_use(old, new):
            return
        either = [p for p in (old, new) if p is not None]
        for node in {p.spec.node_name for p in either}:
            self._queue_node(node)
        # A succeeded pod no longer counts on the node, but its Reservation still lists it.
        for name in named:
            if name in self._reservations.cache:
                self.queue.add(name)

    def _note_allocations(self, old: Pod | None, new: Pod | None) -> set[str]:
        """Decide which annotations of a pod are believed; return its old and new reservations."""
        if new is not None and new.spec.node_name and not new.finished:
            self._recorded.believed(new, new.uid)
        knows = self._recorded.knows
        if not ((old is not None and knows(old.uid)) or (new is not None and knows(new.uid))):
            return set()
        uids = {pod.uid for pod in (old, new) if pod is not None}
        named = {one.name for uid in uids for one in self._recorded.named_by(uid)}
        for uid in uids if new is None or new.finished else uids - {new.uid}:
            self._recorded.forget(uid)
        return named

    def _find(self, uid: str) -> Source | None:
        """Return a Reservation that has a node, or a pod that acts as one."""
        for reservation in self._by_uid.of(uid):
            return Source.of(reservation) if reservation.status.node_name else None
        for acting in map(operating_reservation, self._acting.of(uid)):
            return None if acting is None else Source.of(acting)
        return None

    def _queue_node(self, node: str) -> None:
        self._usages.pop(node, None)
        for reservation in self._held_on.of(node):
            self.queue.add(reservation.key)

    async def reconcile(self, key: str) -> None:
        """Bring one Reservation's status up to date."""
        reservation = self._reservations.cache.get(key)
        if reservation is None:
            return
        if preemptor_uid(reservation):
            pod = await self._preemptor(reservation)
            others = self._of_preemptor.of(preemptor_uid(reservation))
            plan = plan_preemptor(reservation, pod, others, self.clock.now())
            await execute_writes(self.client, plan.writes)
            if plan.writes:
                return
            if plan.requeue_after is not None:
                self.queue.add_after(key, plan.requeue_after)
        usage = await self._usage(reservation.status.node_name)
        plan = plan_reservation(reservation, usage, self.clock.now())
        await execute_writes(self.client, plan.writes)
        for note in plan.events:
            self.record_event(reservation, note.type, note.reason, note.message)
        if plan.requeue_after is not None:
            self.queue.add_after(key, plan.requeue_after)

    async def _preemptor(self, reservation: Reservation) -> Pod | None:
        """Return the pod; the cache may be stale, so only the server can say that it is gone."""
        namespace, name = preemptor_key(reservation)
        pod = self._pods.cache.get(f"{namespace}/{name}")
        if pod is not None and pod.uid == preemptor_uid(reservation):
            return pod
        if not (namespace and name):
            return None
        try:
            return await self.client.get(PODS, name, namespace)
        except NotFound:
            return None

    async def _usage(self, name: str) -> NodeUsage | None:
        if not name:
            return None
        if name in self._usages:
            return self._usages[name]
        node = self._nodes.cache.get(name)
        if node is None:
            # The cache may be stale: only the server can say that the node does not exist.
            try:
                node = await self.client.get(NODES, name)
            except NotFound:
                return NodeUsage(None)
        if len(self._usages) >= MAX_CACHED_NODES:
            self._usages.clear()
        pods = tuple([self._recorded.believed(pod, pod.uid) for pod in self._pods_on.of(name)])
        self._usages[name] = NodeUsage(node, pods, self._held_on.of(name))
        return self._usages[name]

    async def run(self) -> None:
        """Run the workers, and delete ended Reservations at intervals."""
        collecting = asyncio.create_task(self._collect_forever())
        try:
            await super().run()
        finally:
            collecting.cancel()

    async def _collect_forever(self) -> None:
        if not self._settings.gc_enabled:
            return
        await self.wait_for_sync()
        while True:
            await self._collect()
            await self.clock.sleep(self._settings.gc_interval_seconds)

    async def _collect(self) -> None:
        ended = plan_collection(
            self._reservations.cache.values(), self._nodes.cache, self.clock.now(),
            self._settings.gc_after_seconds,
        )  # fmt: skip
        try:
            await execute_writes(self.client, ended)
        except HoldfastError as failure:
            log.warning("ended reservations could not be deleted: %s; trying again later", failure)


def _holds_the_same(old: Reservation, new: Reservation) -> bool:
    """Return whether two versions hold the same resources on the same node."""
    return (
        old.phase == new.phase
        and old.status.node_name == new.status.node_name
        and old.status.allocatable == new.status.allocatable
        and old.metadata.annotations == new.metadata.annotations
    )


def _same_use(old: Pod, new: Pod) -> bool:
    """Return whether two versions of a pod use the same parts of reservations on the same node."""
    return (
        old.spec.node_name == new.spec.node_name
        and old.finished == new.finished
        and old.metadata.annotations == new.metadata.annotations
        and old.metadata.labels == new.metadata.labels
        and old.metadata.generation == new.metadata.generation
    )
