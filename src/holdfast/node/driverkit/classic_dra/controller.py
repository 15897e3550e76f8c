"""The controller of a classic driver: it allocates claims and answers PodSchedulings.

Every step of an allocation is stored before the next one begins: the finalizer, the driver's own
records, the status. So a killed controller finishes or undoes what it finds.

No event tells that a device has become free for a waiting pod. So after each allocation and
deallocation the waiting pods are checked again, one by one, 100 per second. In the past, a freed
device was offered only after 10 ms for each waiting pod, and then to all of them at once.

A class may be given to another driver during an allocation. The controller then undoes only what it
has begun itself (``own_part``): it once cleared the allocation of the other driver.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import Enum

import msgspec

from holdfast.api.classic_dra.names import KEP_GROUP
from holdfast.api.classic_dra.types import (
    ClassicClaim,
    ClassicClass,
    PodScheduling,
    PodSchedulingSpec,
    classic_resources,
)
from holdfast.api.meta import Object
from holdfast.api.pod import Pod
from holdfast.client.backoff import Backoff
from holdfast.client.client import Client
from holdfast.client.events import EventRecorder
from holdfast.client.informer_set import InformerSet
from holdfast.client.workqueue import WorkQueue, run_workers
from holdfast.node.driverkit.classic_dra.claim_writer import ClaimWriter
from holdfast.node.driverkit.classic_dra.fitting import Unsuitable, reasons_text
from holdfast.node.driverkit.classic_dra.handlers import (
    Allocated,
    ClaimItem,
    ClassicHandlers,
    ImmediateCheck,
    NotYet,
    RefusedNodes,
)
from holdfast.node.driverkit.classic_dra.negotiation import (
    ClaimStep,
    answer,
    claim_step,
    nodes_to_check,
    open_question,
    own_part,
)
from holdfast.node.driverkit.classic_dra.parameters import WrongParameters
from holdfast.node.driverkit.classic_dra.pending_claims import ClaimError, ClaimItems, ClaimLocks
from holdfast.node.driverkit.classic_dra.pod_schedulings import PodSchedulings
from holdfast.node.driverkit.classic_dra.written_objects import WrittenObjects
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import Conflict, HoldfastError, NotFound

WORKERS = 10
RECHECK_SECONDS = 30.0
ABORT_SECONDS = 60.0
"""The time after the last attempt after which a stopped allocation is undone."""
PARAMETERS_SECONDS = 5.0
"""How often parameters that are missing or wrong are read again, at least."""
RECHECK_SPACING = 0.01
"""After a change, waiting pods are checked again one by one, 100 per second."""
FAILED = "Failed"
_BACKOFF = Backoff(first=0.005, limit=1000.0)
_CLAIM, _SCHEDULING = "claim:", "podscheduling:"
log = logging.getLogger(__name__)


class _Next(Enum):
    """When a key is checked again without an event."""

    NEVER = "never"
    PERIODICALLY = "periodically"
    SOON = "periodically, and as soon as something is allocated or deallocated"


class DriverController:
    """Allocates and deallocates the claims of one driver by the functions of its author."""

    def __init__(
        self,
        name: str,
        handlers: ClassicHandlers,
        client: Client,
        clock: Clock,
        *,
        recorder: EventRecorder,
        informers: InformerSet | None = None,
        group: str = KEP_GROUP,
    ) -> None:
        self.name = name
        self._handlers = handlers
        self._client = client
        self._clock = clock
        self._recorder = recorder
        self._resources = classic_resources(group)
        self.informers = informers or InformerSet(client, clock=clock)
        self._classes = self.informers.get(self._resources.classes)
        claims = self.informers.get(self._resources.claims)
        schedulings = self.informers.get(self._resources.pod_scheduling)
        self.claims = WrittenObjects(claims)
        """All claims, with the controller's own writes."""
        self._schedulings = PodSchedulings(client, schedulings)
        self._writes = ClaimWriter(name, client, self._resources.claims, self.claims)
        self.queue = WorkQueue(clock, backoff=_BACKOFF)
        self.synced = asyncio.Event()
        """Set when all caches are filled."""
        self._locks = ClaimLocks(self.claims)
        self._items = ClaimItems(name, handlers, self._classes.cache, self.claims)
        self._begun: dict[str, float] = {}
        self._asked: set[str] = set()
        """Keys of PodSchedulings whose spec has changed since they were processed."""
        self._waiting: set[str] = set()
        """Keys of claims and PodSchedulings that wait for a free device."""
        self._reported: dict[str, str] = {}
        """The last reasons for unsuitable nodes in an event, by uid of the PodScheduling."""
        self._rechecked: set[str] = set()
        """Keys that are due to be checked again."""
        self._next_turn = 0.0
        self._classes.add_handler(self._on_class)
        claims.add_handler(self._on_claim)
        schedulings.add_handler(self._on_scheduling)

    async def run(self) -> None:
        """Work until cancelled; starts when all caches are filled."""
        async with self.informers:
            self.synced.set()
            try:
                await run_workers(
                    self.queue,
                    self._sync,
                    workers=WORKERS,
                    name=self.name,
                    failed=self._record_failure,
                )
            finally:
                self.queue.shutdown()

    def works_on(self, uid: str) -> bool:
        """Return whether a claim is being allocated or deallocated."""
        return self._locks.is_held(uid)

    def recheck_waiting(self) -> None:
        """Check all waiting keys again soon, because devices were freed or taken."""
        now = self._clock.monotonic()
        for key in self._waiting - self._rechecked:
            self._rechecked.add(key)
            turn = max(now, self._next_turn)
            self._next_turn = turn + RECHECK_SPACING
            self.queue.add_after(key, turn - now)

    def _on_claim(self, kind: str, old: ClassicClaim | None, new: ClassicClaim | None) -> None:
        claim = new or old
        assert claim is not None
        key = _CLAIM + claim.key
        step = ClaimStep.NOTHING if new is None else claim_step(new, self.name)
        if step is not ClaimStep.ABORT:
            self._begun.pop(claim.uid, None)
        if new is None:
            self.queue.forget(key)
            self._waiting.discard(key)
        elif step is ClaimStep.ABORT:
            self._begun.setdefault(claim.uid, self._clock.monotonic())
            self.queue.add_after(key, ABORT_SECONDS)
        elif step is not ClaimStep.NOTHING:
            self.queue.add(key)

    def _on_scheduling(
        self, kind: str, old: PodScheduling | None, new: PodScheduling | None
    ) -> None:
        seen = new or old
        assert seen is not None
        key = _SCHEDULING + seen.key
        if new is None:
            self.queue.forget(key)
            self._waiting.discard(key)
            self._asked.discard(key)
            self._reported.pop(seen.uid, None)
        elif old is None or old.spec != new.spec:
            self._asked.add(key)
            self.queue.add(key)

    def _on_class(self, kind: str, old: ClassicClass | None, new: ClassicClass | None) -> None:
        if new is not None and new.driver_name == self.name:
            self.recheck_waiting()

    async def _sync(self, key: str) -> None:
        """Process a key; if it waits for something, it is processed again later."""
        then = _Next.SOON
        self._rechecked.discard(key)
        try:
            if key.startswith(_CLAIM):
                then = await self._sync_claim(key, key.removeprefix(_CLAIM))
            else:
                then = await self._sync_scheduling(key)
        finally:
            (self._waiting.add if then is _Next.SOON else self._waiting.discard)(key)
            if then is not _Next.NEVER:
                self.queue.add_after(key, RECHECK_SECONDS)

    async def _sync_claim(self, key: str, name: str) -> _Next:
        """Do what a claim needs."""
        claim = self.claims.get(name)
        if claim is None:
            return _Next.NEVER
        async with self._locks.hold([claim]) as [claim]:
            match claim_step(claim, self.name):
                case ClaimStep.DEALLOCATE:
                    await self._deallocate(claim)
                case ClaimStep.ABORT:
                    begun = self._begun.setdefault(claim.uid, self._clock.monotonic())
                    left = begun + ABORT_SECONDS - self._clock.monotonic()
                    if left > 0:
                        self.queue.add_after(key, left)
                    else:
                        await self._deallocate(claim)
                case ClaimStep.ALLOCATE:
                    return await self._allocate_immediately(key, claim)
                case ClaimStep.NOTHING:
                    pass
        return _Next.NEVER

    async def _deallocate(self, claim: ClassicClaim) -> None:
        await self._handlers.deallocate(own_part(claim, self.name))
        with suppress(NotFound):  # a claim that is gone needs no more writes
            await self._writes.release(claim)
        self._begun.pop(claim.uid, None)
        # A pod that had the claim asks for another node: its scheduler waits for an answer.
        self._waiting.update(_SCHEDULING + key for key in self._schedulings)
        self.recheck_waiting()

    async def _allocate_immediately(self, key: str, claim: ClassicClaim) -> _Next:
        """Allocate an immediate claim, unless its class is missing or belongs to another driver."""
        resource_class = self._classes.cache.get(claim.spec.resource_class_name)
        if resource_class is None or resource_class.driver_name != self.name:
            return _Next.SOON
        item = await self._items.read(claim, resource_class, ())
        try:
            if isinstance(self._handlers, ImmediateCheck):
                await self._handlers.check_immediate([item])
            errors = await self._allocate([item], None, None)
        except Unsuitable as unsuitable:
            errors = [ClaimError(claim, unsuitable)]
        refusals = [error for error in errors if isinstance(error.__cause__, Unsuitable)]
        if refusals:  # until something is deallocated
            self._record_failure(key, refusals[0], 1)
            return _Next.SOON
        self._raise_first(errors)
        return _Next.NEVER

    async def _sync_scheduling(self, key: str) -> _Next:
        """Allocate the claims of a pod, or answer about its nodes."""
        scheduling = await self._newest_scheduling(key)
        if scheduling is None or scheduling.metadata.deletion_timestamp is not None:
            return _Next.NEVER
        spec = scheduling.spec
        if not spec.selected_node and not spec.potential_nodes:
            return _Next.NEVER
        pod = await self._schedulings.pod_of(scheduling)
        if pod is None:
            return _Next.NEVER
        claims = self._items.pending_of(pod)
        async with self._locks.hold([claim for claim, _, _ in claims]) as current:
            items = [
                await self._items.read(claim, resource_class, entries)
                for claim, (_, resource_class, entries) in zip(current, claims, strict=True)
                if not claim.is_allocated and not claim.is_deleted
            ]
            if not items:
                return _Next.PERIODICALLY
            await self._negotiate(pod, scheduling, items)
            done = all(self._is_allocated(item.claim) for item in items)
            return _Next.PERIODICALLY if done else _Next.SOON

    async def _newest_scheduling(self, key: str) -> PodScheduling | None:
        """Return a PodScheduling; it is read again unless its event caused this call.

        Otherwise the newest state could deallocate a claim, and an older one allocate it again.
        """
        name = key.removeprefix(_SCHEDULING)
        if key in self._asked:
            self._asked.discard(key)
            return self._schedulings.get(name)
        return await self._schedulings.read(name)

    async def _negotiate(
        self, pod: Pod, scheduling: PodScheduling, items: Sequence[ClaimItem]
    ) -> None:
        """Allocate on the selected node if all items fit there, else answer about the nodes."""
        asked = open_question(scheduling, {name for item in items for name in item.entries})
        selected = asked.selected_node
        errors: list[Exception] = []
        refused = await self._unsuitable(pod, items, scheduling, asked)
        by_claim = refused.by_claim
        if selected and not any(selected in nodes for nodes in by_claim.values()):
            errors = await self._allocate(items, pod, selected)
            if not errors:
                return
            items = [item for item in items if not self._is_allocated(item.claim)]
            asked = msgspec.structs.replace(asked, selected_node="")
            refused = await self._unsuitable(pod, items, scheduling, asked)
            by_claim = refused.by_claim
        refusals = [error for error in errors if isinstance(error.__cause__, Unsuitable)]
        answers = {
            entry: answer({*by_claim[item.claim.uid], *([selected] if refusals else ())}, selected)
            for item in items
            for entry in item.entries
        }
        # Before the error: without the answer the scheduler would select the same node again.
        await self._schedulings.publish(scheduling, answers)
        for error in refusals:  # not tried again at once: the scheduler selects another node
            self._record_failure(_SCHEDULING + scheduling.key, error, 1)
        self._report_reasons(scheduling, items, refused.reasons)
        self._raise_first([error for error in errors if error not in refusals])

    def _report_reasons(
        self, scheduling: PodScheduling, items: Sequence[ClaimItem], reasons: Mapping[str, str]
    ) -> None:
        """Record why nodes are refused, once for the same reasons."""
        text = reasons_text(reasons)
        if text and items and self._reported.get(scheduling.uid) != text:
            self._reported[scheduling.uid] = text
            error = ClaimError(items[0].claim, Unsuitable(text))
            self._record_failure(_SCHEDULING + scheduling.key, error, 1)

    async def _unsuitable(
        self,
        pod: Pod,
        items: Sequence[ClaimItem],
        scheduling: PodScheduling,
        asked: PodSchedulingSpec,
    ) -> RefusedNodes:
        """Return the unsuitable nodes by uid of the claim, of every claim."""
        nodes = nodes_to_check(scheduling, {name for item in items for name in item.entries})
        try:
            refused = await self._handlers.unsuitable_nodes(pod, items, nodes, asked)
        except Exception as error:
            raise ClaimError(items[0].claim, error) from error
        uids = [item.claim.uid for item in items]
        if not isinstance(refused, RefusedNodes):
            refused = RefusedNodes(
                refused if isinstance(refused, Mapping) else dict.fromkeys(uids, refused)
            )
        by_claim = {uid: refused.by_claim.get(uid, ()) for uid in uids}
        return RefusedNodes(by_claim, refused.reasons)

    async def _allocate(
        self, items: Sequence[ClaimItem], pod: Pod | None, node: str | None
    ) -> list[Exception]:
        """Add finalizers, allocate and write the results; return the errors of the items."""
        errors: list[Exception] = []
        protected = []
        for item in items:
            try:
                claim = await self._writes.protect(item.claim)
            except (Conflict, NotFound) as error:
                errors.append(error)
                await self._handlers.deallocate(item.claim)  # what was held for it
            else:
                protected.append((item, claim))
        if not protected:
            return errors
        current = [dataclasses.replace(item, claim=claim) for item, claim in protected]
        results = await self._results(current, node)
        for item, result in zip(current, results, strict=True):
            try:
                if isinstance(result, Exception):
                    if isinstance(result, Unsuitable):
                        await self._writes.release(item.claim)
                    raise ClaimError(item.claim, result)
                await self._writes.set_allocation(item.claim, result, pod)
            except HoldfastError as error:
                errors.append(error)
            else:
                self.recheck_waiting()
        return errors

    async def _results(self, items: Sequence[ClaimItem], node: str | None) -> Sequence[Allocated]:
        """Call the author's ``allocate``; an exception is the result of every item."""
        try:
            results = await self._handlers.allocate(items, node)
            if len(results) == len(items):
                return results
            error: Exception = HoldfastError(f"allocate returned {len(results)} results")
        except Exception as raised:
            error = raised
        finally:  # it continues: the time after which it is undone starts again
            known = {item.claim.uid for item in items} & self._begun.keys()
            self._begun |= dict.fromkeys(known, self._clock.monotonic())
        return [error] * len(items)

    def _is_allocated(self, claim: ClassicClaim) -> bool:
        now = self.claims.get(claim.key)
        return now is not None and now.uid == claim.uid and now.is_allocated

    @staticmethod
    def _raise_first(errors: Sequence[Exception]) -> None:
        """Raise one of several errors, preferably one that is worth an event.

        The error of a claim that no longer exists is ignored.
        """
        left = [error for error in errors if not isinstance(error, NotFound)]
        ranked = sorted(left, key=lambda error: not isinstance(error, ClaimError))
        if ranked:
            raise ranked[0]

    def _record_failure(self, key: str, failure: Exception, failures: int) -> None:
        """Record an event about an object that fails, and about the claim that is the cause."""
        cause = failure.__cause__ if isinstance(failure, ClaimError) else failure
        if isinstance(cause, NotYet | Conflict | NotFound):
            return
        if isinstance(failure.__cause__, WrongParameters):  # no event tells that they exist
            self.queue.add_after(key, PARAMETERS_SECONDS)
        about: Object | None
        if key.startswith(_CLAIM):
            about = self.claims.get(key.removeprefix(_CLAIM))
        else:
            about = self._schedulings.get(key.removeprefix(_SCHEDULING))
        claim = failure.claim if isinstance(failure, ClaimError) else None
        known = isinstance(failure, HoldfastError)
        text = str(failure) if known else f"{type(failure).__name__}: {failure}"
        for each in {obj.uid: obj for obj in (about, claim) if obj is not None}.values():
            self._recorder.record(each, "Warning", FAILED, text[:1024])
