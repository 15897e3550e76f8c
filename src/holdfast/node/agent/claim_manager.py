"""Claims of a node's pods: prepared by their drivers before a pod starts, unprepared after it.

The rules are a kubelet's, with three differences. The cache is searched by uid, so that a pod can
never release a claim that it does not use; calls for one claim never overlap; and a retry replaces
the devices of an earlier attempt.

The agent and its drivers may be killed at any point. So the next step is on disk before a driver is
called, a call may be repeated, and "prepared" is not stored: after a restart every driver is called
again. The checkpoint itself may be lost (``--reset-checkpoint``). In the past, a pod that was found
running then counted as prepared, and its claims were never unprepared. ``resume`` compares the
claims of such pods with the checkpoint and reads what is missing from the API.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from weakref import WeakValueDictionary

from holdfast.api.devices import ResourceClaim
from holdfast.api.pod import Pod
from holdfast.api.pod_claim_errors import InvalidEntries
from holdfast.client.client import Client
from holdfast.node.agent.checkpoint_file import CheckpointFile
from holdfast.node.agent.claim_checkpoint import (
    CLAIM_CHECKPOINT,
    ClaimInfoState,
    encode_claims,
    read_claims,
)
from holdfast.node.agent.claims import (
    AnyClaim,
    ClaimKey,
    NeededClaim,
    container_claims,
    needed_claims,
)
from holdfast.node.agent.dra_calls import CALL_SECONDS, DriverEndpoint
from holdfast.node.agent.dra_plugins import DraPlugins, DriverSlices, NotRegistered
from holdfast.node.agent.live_claims import (
    LiveClaims,
    NeverUsable,
    NotUsable,
    claim_info_of,
    not_prepared,
)
from holdfast.node.agent.plugin_registry import PluginHandler
from holdfast.node.agent.plugin_sockets import CallFailed
from holdfast.node.agent.pod_devices import ContainerDevices, NotPrepared, failed_unprepare
from holdfast.node.kubelet_api import CLASSIC_PLUGIN, DRA_PLUGIN
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import HoldfastError
from holdfast.runtime.repeated_log import Repeats

log = logging.getLogger(__name__)

RECONCILE_SECONDS = 60.0
RESTORED_SECONDS = 1.0
"""How often the claims from before a restart are checked until they are prepared again."""

ActivePods = Callable[[], Collection[str] | None]
"""Uids of the pods that are not terminated on the node; None while they are not known yet."""


NeedsDriver = Callable[[str], bool]
"""Whether a pod needs a driver to be called."""

_DriverKey = tuple[str, bool]
"""Name of a driver, and whether to call it as a classic driver."""


class ClaimManager:
    """Implements ``DeviceProvider`` with the DRA drivers of one node.

    ``keep_slices``: the slices of the node at the start are kept; they may be written by hand.
    ``call_seconds`` is the deadline of a call to a driver. Raises BadConfiguration if the
    checkpoint is damaged, unless it is to be reset.
    """

    def __init__(
        self,
        client: Client,
        node: str,
        directory: Path,
        clock: Clock,
        active_pods: ActivePods,
        *,
        reset_checkpoint: bool = False,
        keep_slices: bool = False,
        call_seconds: float = CALL_SECONDS,
    ) -> None:
        path = directory / CLAIM_CHECKPOINT
        stored = [] if reset_checkpoint else read_claims(path)
        self._claims = {claim.uid: claim for claim in stored}
        self._file = CheckpointFile(path, lambda: encode_claims(self._claims.values()))
        self._live = LiveClaims(client)
        self._clock = clock
        self._active_pods = active_pods
        self._keep_slices = keep_slices
        self._repeats = Repeats(now=clock.monotonic)
        self._slices = DriverSlices(client, node, clock)
        self._drivers = DraPlugins(self._slices.usable_changed, call_seconds=call_seconds)
        self._locks: WeakValueDictionary[ClaimKey, asyncio.Lock] = WeakValueDictionary()
        self._forgotten: dict[str, tuple[Pod, NeedsDriver]] = {}
        """Pods, by uid, whose claims were missing in the checkpoint."""
        self._resumed = asyncio.Event()
        """Set when such a pod was found."""

    @property
    def handlers(self) -> Mapping[str, PluginHandler]:
        """The handlers with which the plugin registry registers drivers here."""
        return {DRA_PLUGIN: self._drivers, CLASSIC_PLUGIN: self._drivers}

    @property
    def busy(self) -> bool:
        """Whether a driver is being called or the checkpoint is being written."""
        return self._drivers.busy or self._file.busy

    async def run(self) -> None:
        """Delete slices of absent drivers and release claims that no pod uses, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                if not self._keep_slices:
                    tasks.create_task(self._slices.delete_all())
                tasks.create_task(self._prepare_restored())
                tasks.create_task(self._reconcile())
        finally:
            await self._slices.close()
            await self._drivers.close()

    async def prepare(self, pod: Pod) -> None:
        """Prepare all claims of a pod, before its sandbox; raise NotPrepared."""
        try:
            needed = list(needed_claims(pod))
            if not needed:
                return
            async with self._held(each.key(pod) for each in needed):
                await self._prepare(pod, needed)
        except (HoldfastError, OSError, InvalidEntries) as error:
            raise not_prepared(error) from error

    def container_devices(self, pod: Pod, container: str) -> ContainerDevices:
        """Return the CDI names of the devices that a container requests."""
        cdi_names = [
            cdi_name
            for name, classic, request in _claims_of(pod, container)
            for driver in self._prepared(pod, (pod.namespace, name, classic)).drivers.values()
            for device in driver.devices
            if not request or not device.request_names or request in device.request_names
            for cdi_name in device.cdi_devices
        ]
        return ContainerDevices(cdi_devices=tuple(dict.fromkeys(cdi_names)))

    def resume(self, pod: Pod, needs_driver: NeedsDriver = lambda _driver: True) -> None:
        """Take over a pod that an earlier agent has started, even if its checkpoint is lost."""
        try:
            needed = {each.key(pod) for each in needed_claims(pod) if each.used}
        except InvalidEntries:
            return
        if needed - {claim.key for claim in self._claims.values() if pod.uid in claim.pods}:
            self._forgotten[pod.uid] = pod, needs_driver
            self._resumed.set()

    async def before_start(self, pod: Pod, container: str) -> None:
        """Do nothing: drivers are not notified of containers."""

    async def unprepare(self, pod: Pod) -> None:
        """Release the claims of a pod whose containers have stopped; raise NotPrepared."""
        try:
            await self._recall(pod.uid)
        except (HoldfastError, OSError) as error:
            raise failed_unprepare(error) from error
        await self._unprepare(pod.uid)

    async def _prepare(self, pod: Pod, needed: Sequence[NeededClaim]) -> None:
        """Check everything first: a failure before the first call to a driver leaves no trace."""
        live = [(each, await self._live.usable(pod, each)) for each in needed]
        used = [claim for each, claim in live if each.used]
        fresh = [claim_info_of(claim) for claim in used]
        endpoints = self._endpoints(fresh)
        for claim in used:
            await self._release_older(pod, claim)
        waiting = self._record(pod, fresh)
        await self._file.save()
        await self._call_drivers(waiting, endpoints, pod)

    def _endpoints(self, claims: Iterable[ClaimInfoState]) -> dict[_DriverKey, DriverEndpoint]:
        """Return the endpoints of all drivers of claims; raise NotRegistered."""
        return {
            (driver, state.classic): self._drivers.endpoint(driver, classic=state.classic)
            for claim in claims
            for driver, state in claim.drivers.items()
        }

    async def _call_drivers(
        self,
        waiting: Mapping[_DriverKey, list[ClaimInfoState]],
        endpoints: Mapping[_DriverKey, DriverEndpoint],
        pod: Pod | None = None,
    ) -> None:
        """Call the drivers: once for all structured claims, once for each classic claim."""
        if not waiting:
            return
        for (driver, classic), claims in sorted(waiting.items(), key=lambda each: each[0]):
            for batch in [[claim] for claim in claims] if classic else [claims]:
                try:
                    answer = await endpoints[driver, classic].prepare(
                        [claim.request(driver) for claim in batch]
                    )
                except CallFailed as error:
                    if classic and error.not_found and pod is not None:
                        await self._check_lost(batch[0], pod)
                    raise
                for claim in batch:
                    claim.drivers[driver].devices = answer[claim.uid]
        for claim in {id(each): each for claims in waiting.values() for each in claims}.values():
            claim.prepared = True
        await self._file.save()

    async def _check_lost(self, claim: ClaimInfoState, pod: Pod) -> None:
        """Raise NeverUsable if a claim is unprepared and the pod may no longer use it."""
        if lost := await self._live.lost_reason(claim, pod.uid):
            raise NeverUsable(f"{lost}, and its driver does not know it")

    async def _prepare_restored(self) -> None:
        """Prepare the claims of running pods again after a restart, when their drivers are there.

        The pods do not wait for it: they have their devices. If the pods were removed since, their
        claims are released.
        """
        waiting = set(self._claims)
        while True:
            if not waiting and not self._forgotten:
                await self._resumed.wait()
                self._resumed.clear()
            await self._clock.sleep(RESTORED_SECONDS)
            for uid in list(self._forgotten):
                try:
                    waiting |= await self._recall(uid)
                except (HoldfastError, OSError) as error:
                    line = f"the claims of pod {uid}, which runs, are not known: {error}"
                    self._repeats.log(log, logging.WARNING, line)
            done = await asyncio.gather(*(self._restored(uid) for uid in waiting))
            waiting = {uid for uid, is_done in zip(waiting, done, strict=True) if not is_done}

    async def _recall(self, pod_uid: str) -> set[str]:
        """Record the claims of a pod that runs without a checkpoint; return their uids.

        A claim that the pod may no longer use is left out.
        """
        if pod_uid not in self._forgotten:
            return set()
        pod, needs_driver = self._forgotten[pod_uid]
        live = [
            claim
            for each in needed_claims(pod)
            if each.used and (claim := await self._live.usable_or_none(pod, each)) is not None
        ]
        claims = [claim_info_of(claim) for claim in live]
        if not any(needs_driver(driver) for claim in claims for driver in claim.drivers):
            claims = []
        async with self._held(claim.key for claim in claims):
            self._record(pod, claims)
            await self._file.save()
        self._forgotten.pop(pod_uid, None)
        return {claim.uid for claim in claims}

    async def _restored(self, uid: str) -> bool:
        """Release a claim if its pods are gone, else prepare it again; return if it is done."""
        claim, active = self._claims.get(uid), self._active_pods()
        if claim is None or active is None:
            return claim is None
        try:
            for pod in sorted(claim.pods.difference(active)):
                await self._unprepare(pod)
            async with self._held([claim.key]):
                released = self._claims.get(uid) is not claim  # since then
                if released or claim.prepared or claim.pods.isdisjoint(active):
                    return True
                endpoints = self._endpoints([claim])
                await self._renew_handle(claim)
                await self._call_drivers({key: [claim] for key in endpoints}, endpoints)
        except NotRegistered:
            return False
        except (HoldfastError, OSError) as error:
            if isinstance(error.__cause__, NotRegistered):
                return False
            line = f"ResourceClaim {claim.namespace}/{claim.name} of before the restart: {error}"
            self._repeats.log(log, logging.WARNING, line)
            return False
        return True

    async def _renew_handle(self, claim: ClaimInfoState) -> None:
        """Read the handle of a classic claim from the API: its driver may have changed it."""
        for state in claim.drivers.values():
            if state.classic and (handle := await self._live.current_handle(claim)) is not None:
                state.handle = handle

    async def _release_older(self, pod: Pod, claim: AnyClaim) -> None:
        """Unprepare the rest of a classic claim of the same name or of an older allocation.

        Its pods must have ended: the claim is no longer reserved for them, and the agent has
        stopped them.
        """
        if isinstance(claim, ResourceClaim):
            return
        fresh = claim_info_of(claim)
        for old in [each for each in self._claims.values() if each.key == fresh.key]:
            if (old.uid, old.handles) == (fresh.uid, fresh.handles):
                continue
            kept = {user.uid for user in claim.status.reserved_for} if old.uid == claim.uid else ()
            ended = old.pods.difference(kept)
            active = self._active_pods()
            if active is None or not ended.isdisjoint(set(active) - {pod.uid}):
                raise NotUsable(
                    f"an older ResourceClaim {old.name} with UID {old.uid}, or an older allocation "
                    "of it, is still used by a pod on the node"
                )
            for uid in sorted(ended):
                await self._release(uid, [old])

    def _record(
        self, pod: Pod, live: Iterable[ClaimInfoState]
    ) -> dict[_DriverKey, list[ClaimInfoState]]:
        """Add claims and the pod to the cache; return, by driver, the claims to prepare.

        A classic claim whose handle has changed is prepared again.
        """
        known = [self._known(claim) for claim in live]
        waiting: defaultdict[_DriverKey, list[ClaimInfoState]] = defaultdict(list)
        for claim, fresh in known:
            cached = self._claims.setdefault(claim.uid, claim)
            cached.pods.add(pod.uid)
            if cached.prepared and cached.handles == fresh.handles:
                continue
            cached.prepared = False
            cached.allocation = fresh.allocation
            for driver, new in fresh.drivers.items():
                state = cached.drivers.setdefault(driver, new)
                state.handle = new.handle
                if cached not in (batch := waiting[driver, state.classic]):
                    batch.append(cached)
        return waiting

    def _known(self, fresh: ClaimInfoState) -> tuple[ClaimInfoState, ClaimInfoState]:
        """Return the state to use (the cached one, else the fresh one), and the fresh state."""
        for cached in self._claims.values():
            if cached.key != fresh.key:
                continue
            if cached.uid != fresh.uid:
                raise NotUsable(
                    f"an older ResourceClaim {fresh.name} with UID {cached.uid} is still prepared "
                    "(was its pod deleted by force?)"
                )
            if cached.pods and cached.allocation and cached.allocation != fresh.allocation:
                raise NotUsable(
                    f"ResourceClaim {fresh.name} is still prepared for an earlier allocation"
                )
            return cached, fresh
        return fresh, fresh

    async def _unprepare(self, pod_uid: str) -> None:
        claims = [claim for claim in self._claims.values() if pod_uid in claim.pods]
        if not claims and not self._file.stale:
            return
        try:
            async with self._held(each.key for each in claims):
                await self._release(pod_uid, claims)
                await self._file.save()
        except (HoldfastError, OSError) as error:
            raise failed_unprepare(error) from error

    async def _release(self, pod_uid: str, claims: Iterable[ClaimInfoState]) -> None:
        """Drop the pod from claims; those of no other pod are unprepared."""
        batches: defaultdict[_DriverKey, list[ClaimInfoState]] = defaultdict(list)
        last = []
        for claim in claims:
            if claim.uid not in self._claims or pod_uid not in claim.pods:
                continue  # another task has released it
            if claim.pods != {pod_uid}:
                claim.pods.remove(pod_uid)
                continue
            last.append(claim)
            # From now on its state at the driver is unknown.
            claim.prepared = False
            for driver, state in claim.drivers.items():
                batches[driver, state.classic].append(claim)
        for (driver, classic), waiting in sorted(batches.items(), key=lambda each: each[0]):
            endpoint = self._drivers.endpoint(driver, classic=classic)
            for batch in [[claim] for claim in waiting] if classic else [waiting]:
                try:
                    await endpoint.unprepare([claim.request(driver) for claim in batch])
                except CallFailed as error:
                    lost = classic and error.not_found
                    if not lost or not await self._live.lost_reason(batch[0], pod_uid):
                        raise
        for claim in last:
            self._claims.pop(claim.uid, None)

    async def _reconcile(self) -> None:
        while True:
            await self._clock.sleep(RECONCILE_SECONDS)
            active = self._active_pods()
            if active is None:
                continue
            used = {uid for claim in self._claims.values() for uid in claim.pods}
            for uid in sorted(used.difference(active)):
                try:
                    await self._unprepare(uid)
                except NotPrepared as error:
                    log.warning("pod %s is gone, but: %s", uid, error)

    @asynccontextmanager
    async def _held(self, keys: Iterable[ClaimKey]) -> AsyncIterator[None]:
        """Hold the locks of claims in one order for all callers."""
        async with AsyncExitStack() as stack:
            for key in sorted(set(keys)):
                lock = self._locks.setdefault(key, asyncio.Lock())
                await stack.enter_async_context(lock)
            yield

    def _prepared(self, pod: Pod, key: ClaimKey) -> ClaimInfoState:
        """Return a claim of a pod, which may have been edited since; raise NotPrepared."""
        for claim in self._claims.values():
            if claim.key == key and pod.uid in claim.pods:
                return claim
        raise NotPrepared(f"ResourceClaim {key[1]} is not prepared")


def _claims_of(pod: Pod, container: str) -> list[tuple[str, bool, str]]:
    try:
        return list(container_claims(pod, container))
    except InvalidEntries as error:
        raise NotPrepared(str(error)) from error
