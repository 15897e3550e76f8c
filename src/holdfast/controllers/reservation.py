"""Keep a Reservation's status true: who uses it, whether it still holds, when it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from holdfast.api.durations import parse_seconds
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.quantity import NANO, Quantity
from holdfast.api.requests import nanos
from holdfast.api.reservation import Reservation
from holdfast.api.scheme import NODES, PODS, RESERVATIONS
from holdfast.api.timestamps import parse_rfc3339, rfc3339
from holdfast.client.replica import Kind
from holdfast.controllers import conditions
from holdfast.controllers.grouped import Grouped
from holdfast.controllers.reconciler import Reconciler, Tools
from holdfast.controllers.reservation_usage import Ground, Nanos, drawn, short_of, users
from holdfast.controllers.writes import Delete, Note, Patch, Plan, carry_out_all
from holdfast.errors import BadRequest, HoldfastError, NotFound

log = logging.getLogger(__name__)

FINAL = ("Succeeded", "Failed")
HOLDING = ("Available", "Waiting")
DEFAULT_TTL = 86400.0
KEEP_ENDED = 86400.0
COLLECT_EVERY = 60.0
OVERCOMMITTED = "Overcommitted"


def plan_reservation(reservation: Reservation, ground: Ground | None, now: float) -> Plan:
    """Plan one Reservation's status; ``ground`` is None while it is on no node."""
    if reservation.phase in FINAL or reservation.metadata.deletion_timestamp is not None:
        return Plan()
    left = until_expiry(reservation, now)
    if (left is not None and left < 0) or (ground is not None and ground.node is None):
        return Plan((_status(reservation, _ended("Failed", "Expired", reservation, now)),))
    # Expiry is strict: look again just after it.
    again_after = None if left is None else left + 1.0
    if ground is None or ground.node is None:
        return Plan(again_after=again_after)
    status = _synced(reservation, ground, now)
    if not status:
        return Plan(again_after=again_after)
    return Plan((_status(reservation, status),), again_after, _notes(status))


def until_expiry(reservation: Reservation, now: float) -> float | None:
    """Count the seconds it may still live (negative: it is over), or None for ever.

    ``expires`` counts alone where it is given; else ``ttl``, of which 0 means for ever.
    """
    if reservation.spec.expires:
        return parse_rfc3339(reservation.spec.expires) - now
    try:
        ttl = parse_seconds(reservation.spec.ttl) if reservation.spec.ttl else DEFAULT_TTL
    except BadRequest:
        ttl = DEFAULT_TTL
    if ttl == 0 or reservation.metadata.creation_timestamp is None:
        return None
    return parse_rfc3339(reservation.metadata.creation_timestamp) + ttl - now


def plan_collection(
    reservations: Iterable[Reservation], nodes: Collection[str], now: float,
    keep: float = KEEP_ENDED,
) -> tuple[Delete, ...]:  # fmt: skip
    """Choose the ended Reservations to delete: long ended, or ended and their node is gone."""
    return tuple(
        Delete(RESERVATIONS, r.name, uid=r.uid)
        for r in reservations
        if (ended := _ended_at(r)) is not None
        and (now - ended > keep or (r.status.node_name and r.status.node_name not in nodes))
    )


def _ended_at(reservation: Reservation) -> float | None:
    """Say when it expired or succeeded; failures of other kinds are kept for their owner."""
    ready = conditions.find(reservation.status.conditions, "Ready")
    if ready is None or ready.status != "False":
        return None
    if reservation.phase == "Failed" and ready.reason == "Expired":
        return parse_rfc3339(ready.last_transition_time) if ready.last_transition_time else None
    if reservation.phase == "Succeeded" and ready.reason == "Succeeded":
        when = ready.last_probe_time or ready.last_transition_time
        return parse_rfc3339(when) if when else None
    return None


def _synced(reservation: Reservation, ground: Ground, now: float) -> dict[str, Any]:
    """Write what changed of the status; empty when nothing did."""
    owners = users(reservation, ground.pods)
    used = drawn(reservation, owners)
    news = _usage(reservation, owners, used)
    if reservation.phase == "Waiting":
        if not owners and not short_of(reservation, ground):
            news |= {"phase": "Available"} | _ready(reservation, "True", "Available", now)
        return news
    if reservation.phase != "Available":
        return {}
    if news and owners and reservation.spec.allocate_once:
        return news | _ended("Succeeded", "Succeeded", reservation, now)
    return news | _keeping(reservation, ground, now)


def _usage(reservation: Reservation, owners: list[Pod], used: Nanos) -> dict[str, Any]:
    status = reservation.status
    known = {n: nanos(amount) for n, amount in status.allocated.items()}
    same_amounts = {n: a for n, a in known.items() if a} == dict(used)
    if same_amounts and [o.uid for o in status.current_owners] == [p.uid for p in owners]:
        return {}
    written = {n: _written(reservation, n, a) for n, a in used.items()}
    gone = dict.fromkeys(status.allocated.keys() - written.keys())
    return {
        "currentOwners": [{"namespace": p.namespace, "name": p.name, "uid": p.uid} for p in owners],
        "allocated": {**written, **gone},
    }


def _written(reservation: Reservation, name: str, amount: int) -> str:
    family = Quantity.parse(reservation.status.allocatable[name]).format
    return str(Quantity(amount, NANO, family))


def _keeping(reservation: Reservation, ground: Ground, now: float) -> dict[str, Any]:
    """Say so when somebody else stands in the room, and take it back when they have left."""
    ready = conditions.find(reservation.status.conditions, "Ready")
    short = short_of(reservation, ground)
    broken = ready is not None and ready.reason == OVERCOMMITTED
    if short:
        words = f"the node has no room left for the reserved {', '.join(short)}"
        same = ready is not None and broken and ready.message == words
        return {} if same else _ready(reservation, "False", OVERCOMMITTED, now, words)
    return _ready(reservation, "True", "Available", now) if broken else {}


def _notes(status: Mapping[str, Any]) -> tuple[Note, ...]:
    """A broken promise is an event too, so that nobody has to look for it."""
    return tuple(
        Note("Warning", OVERCOMMITTED, c["message"])
        for c in status.get("conditions", ())
        if c.get("reason") == OVERCOMMITTED
    )


def _ended(phase: str, reason: str, reservation: Reservation, now: float) -> dict[str, Any]:
    return {"phase": phase} | _ready(reservation, "False", reason, now)


def _ready(
    reservation: Reservation, status: str, reason: str, now: float, message: str = ""
) -> dict[str, Any]:
    """Write the conditions with a new Ready; its transition time moves with its status only."""
    old = conditions.find(reservation.status.conditions, "Ready")
    moved = old is None or old.status != status
    new: dict[str, Any] = {
        "type": "Ready", "status": status, "reason": reason, "lastProbeTime": rfc3339(now),
        "lastTransitionTime": rfc3339(now) if moved or old is None else old.last_transition_time,
    }  # fmt: skip
    if message:
        new["message"] = message
    return {"conditions": conditions.replaced(reservation.status.conditions, new)}


def _status(reservation: Reservation, status: dict[str, Any]) -> Patch:
    guard = {"uid": reservation.uid, "resourceVersion": reservation.metadata.resource_version}
    return Patch(
        RESERVATIONS, reservation.name, {"metadata": guard, "status": status}, subresource="status"
    )


class ReservationController(Reconciler):
    """Follow Reservations, the pods that use them and the nodes they are on."""

    name = "reservation-controller"
    needs = (RESERVATIONS, PODS, NODES)

    def __init__(self, tools: Tools, keep: float = KEEP_ENDED) -> None:
        super().__init__(tools)
        self._keep = keep
        self._reservations = tools.informers.get(RESERVATIONS)
        self._nodes = tools.informers.get(NODES)
        self._pods_on: Grouped[Pod] = Grouped(lambda pod: pod.spec.node_name)
        self._held_on: Grouped[Reservation] = Grouped(
            lambda r: r.status.node_name if r.phase in HOLDING else ""
        )
        self._reservations.add_handler(self._held_on.on_change)
        self._reservations.add_handler(self._on_reservation)
        self._nodes.add_handler(self._on_node)
        pods = tools.informers.get(PODS)
        pods.add_handler(self._pods_on.on_change)
        pods.add_handler(self._on_pod)

    def _on_reservation(self, kind: Kind, old: Reservation | None, new: Reservation | None) -> None:
        if new is not None:
            self.queue.add(new.key)
        if old is not None and old.phase in HOLDING:
            self._queue_node(old.status.node_name)

    def _on_node(self, kind: Kind, old: Node | None, new: Node | None) -> None:
        either = new or old
        assert either is not None
        if new is None or old is None or old.status.allocatable != new.status.allocatable:
            self._queue_node(either.name)

    def _on_pod(self, kind: Kind, old: Pod | None, new: Pod | None) -> None:
        if old is not None and new is not None and _same_use(old, new):
            return
        for node in {p.spec.node_name for p in (old, new) if p is not None}:
            self._queue_node(node)

    def _queue_node(self, node: str) -> None:
        for reservation in self._held_on.of(node):
            self.queue.add(reservation.key)

    async def reconcile(self, key: str) -> None:
        """Bring one Reservation's status up to date."""
        reservation = self._reservations.cache.get(key)
        if reservation is None:
            return
        ground = await self._ground(reservation.status.node_name)
        plan = plan_reservation(reservation, ground, self.clock.now())
        await carry_out_all(self.client, plan.writes)
        for note in plan.notes:
            self.tell(reservation, note.type, note.reason, note.message)
        if plan.again_after is not None:
            self.queue.add_after(key, plan.again_after)

    async def _ground(self, name: str) -> Ground | None:
        if not name:
            return None
        node = self._nodes.cache.get(name)
        if node is None:
            # The cache may be behind: a promise is broken only on the server's own word.
            try:
                node = await self.client.get(NODES, name)
            except NotFound:
                return Ground(None)
        return Ground(node, self._pods_on.of(name), self._held_on.of(name))

    async def run(self) -> None:
        """Work, and once a minute delete what ended long ago."""
        collecting = asyncio.create_task(self._collect_forever())
        try:
            await super().run()
        finally:
            collecting.cancel()

    async def _collect_forever(self) -> None:
        while True:
            ended = plan_collection(
                self._reservations.cache.values(), self._nodes.cache, self.clock.now(), self._keep
            )
            try:
                await carry_out_all(self.client, ended)
            except HoldfastError as failure:
                log.warning("ended reservations were not deleted: %s; trying again", failure)
            await self.clock.sleep(COLLECT_EVERY)


def _same_use(old: Pod, new: Pod) -> bool:
    """Tell whether a pod takes as much of the same reservation on the same node as before."""
    return (
        old.spec.node_name == new.spec.node_name
        and old.finished == new.finished
        and old.metadata.annotations == new.metadata.annotations
        and old.metadata.labels == new.metadata.labels
        and old.metadata.generation == new.metadata.generation
    )
