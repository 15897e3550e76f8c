"""Keep Reservations true: follow them, the pods that use them and the nodes they are on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.reservation import HOLDING, Reservation
from holdfast.api.scheme import NODES, PODS, RESERVATIONS
from holdfast.capacity.annotations import allocated_of, draws_of
from holdfast.client.informer_cache import ChangeType
from holdfast.controllers.object_index import ObjectIndex
from holdfast.controllers.planned_writes import execute_writes
from holdfast.controllers.reconciler import ControllerContext, Reconciler
from holdfast.controllers.reservation_plan import plan_collection, plan_reservation
from holdfast.controllers.reservation_usage import Ground
from holdfast.engine.profile import Profile
from holdfast.errors import HoldfastError, NotFound
from holdfast.plugins.reservation import ReservationPlugin
from holdfast.plugins.reservation.arguments import ReservationArgs
from holdfast.settings import ReservationSettings

log = logging.getLogger(__name__)

MOST_GROUNDS = 512


class ReservationController(Reconciler):
    """Write what a Reservation's status must say, and delete those long ended.

    Everything is read from the API: a restart begins where the last run ended.
    """

    name = "reservation-controller"
    required_resources = (RESERVATIONS, PODS, NODES)

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._settings = context.reservations
        self.workers = self._settings.workers
        self._grounds: dict[str, Ground] = {}
        """Nodes as they were last looked at, until something happens on them."""
        self._reservations = context.informers.get(RESERVATIONS)
        self._nodes = context.informers.get(NODES)
        self._pods_on: ObjectIndex[Pod] = ObjectIndex(lambda pod: pod.spec.node_name)
        self._held_on: ObjectIndex[Reservation] = ObjectIndex(
            lambda r: r.status.node_name if r.phase in HOLDING else ""
        )
        self._reservations.add_handler(self._held_on.on_change)
        self._reservations.add_handler(self._on_reservation)
        self._nodes.add_handler(self._on_node)
        pods = context.informers.get(PODS)
        pods.add_handler(self._pods_on.on_change)
        pods.add_handler(self._on_pod)

    def _on_reservation(
        self, kind: ChangeType, old: Reservation | None, new: Reservation | None
    ) -> None:
        if new is not None:
            self.queue.add(new.key)
        for each in (old, new):
            if each is not None:
                self._grounds.pop(each.status.node_name, None)
        if old is not None and old.active and not (new is not None and _same_promise(old, new)):
            self._queue_node(old.status.node_name)

    def _on_node(self, kind: ChangeType, old: Node | None, new: Node | None) -> None:
        either = new or old
        assert either is not None
        if new is None or old is None or old.status.allocatable != new.status.allocatable:
            self._queue_node(either.name)

    def _on_pod(self, kind: ChangeType, old: Pod | None, new: Pod | None) -> None:
        if old is not None and new is not None and _same_use(old, new):
            return
        either = [p for p in (old, new) if p is not None]
        for node in {p.spec.node_name for p in either}:
            self._queue_node(node)
        # One that succeeded holds no room on the node any more, but names its owners.
        for name in {name for p in either for name in _drawn_on(p)}:
            if name in self._reservations.cache:
                self.queue.add(name)

    def _queue_node(self, node: str) -> None:
        self._grounds.pop(node, None)
        for reservation in self._held_on.of(node):
            self.queue.add(reservation.key)

    async def reconcile(self, key: str) -> None:
        """Bring one Reservation's status up to date."""
        reservation = self._reservations.cache.get(key)
        if reservation is None:
            return
        ground = await self._ground(reservation.status.node_name)
        plan = plan_reservation(reservation, ground, self.clock.now())
        await execute_writes(self.client, plan.writes)
        for note in plan.events:
            self.record_event(reservation, note.type, note.reason, note.message)
        if plan.requeue_after is not None:
            self.queue.add_after(key, plan.requeue_after)

    async def _ground(self, name: str) -> Ground | None:
        if not name:
            return None
        if name in self._grounds:
            return self._grounds[name]
        node = self._nodes.cache.get(name)
        if node is None:
            # The cache may be behind: a promise is broken only on the server's own word.
            try:
                node = await self.client.get(NODES, name)
            except NotFound:
                return Ground(None)
        if len(self._grounds) >= MOST_GROUNDS:
            self._grounds.clear()
        self._grounds[name] = Ground(node, self._pods_on.of(name), self._held_on.of(name))
        return self._grounds[name]

    async def run(self) -> None:
        """Work, and from time to time delete what ended long ago."""
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
            log.warning("ended reservations were not deleted: %s; trying again", failure)


def _same_promise(old: Reservation, new: Reservation) -> bool:
    """Tell whether two versions promise a node the same; who draws on it stands on pods."""
    return (
        old.phase == new.phase
        and old.status.node_name == new.status.node_name
        and old.status.allocatable == new.status.allocatable
        and old.metadata.annotations == new.metadata.annotations
    )


def _drawn_on(pod: Pod) -> set[str]:
    """Names of the reservations that a pod says it draws on."""
    allocated = allocated_of(pod)
    return {draw.name for draw in draws_of(pod)} | ({allocated.name} if allocated else set())


def _same_use(old: Pod, new: Pod) -> bool:
    """Tell whether a pod takes as much of the same reservation on the same node as before."""
    return (
        old.spec.node_name == new.spec.node_name
        and old.finished == new.finished
        and old.metadata.annotations == new.metadata.annotations
        and old.metadata.labels == new.metadata.labels
        and old.metadata.generation == new.metadata.generation
    )


def settings_of(profiles: Iterable[Profile]) -> ReservationSettings:
    """Take the controller's settings from the first profile that has the plugin."""
    for profile in profiles:
        for plugin in profile.plugins:
            if isinstance(plugin, ReservationPlugin):
                return chosen(plugin.args)
    return ReservationSettings()


def chosen(args: ReservationArgs) -> ReservationSettings:
    """Read the settings off the arguments; 0 means the default.

    ``resyncIntervalSeconds`` has no effect: metrics are made when they are asked for.

    >>> chosen(ReservationArgs(gc_duration_seconds=7200, gc_interval_seconds=0))
    ReservationSettings(workers=1, gc_enabled=True, gc_after_seconds=7200, gc_interval_seconds=60.0)
    """
    default = ReservationSettings()
    return ReservationSettings(
        workers=args.controller_workers or default.workers,
        gc_enabled=not args.disable_garbage_collection,
        gc_after_seconds=args.gc_duration_seconds or default.gc_after_seconds,
        gc_interval_seconds=args.gc_interval_seconds or default.gc_interval_seconds,
    )
