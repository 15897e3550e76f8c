"""Claims of a node's pods: prepared by their drivers before a pod starts, unprepared after it.

The rules are a kubelet's. Unlike one, the cache is searched by uid, so that a pod can never release
a claim that it does not use; calls for one claim never overlap; and a retry replaces the devices of
an earlier attempt.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from weakref import WeakValueDictionary

from holdfast.agent.checkpoint_file import CheckpointFile
from holdfast.agent.claim_checkpoint import (
    CLAIM_CHECKPOINT,
    ClaimState,
    DriverState,
    encode_claims,
    read_claims,
)
from holdfast.agent.claims import NeededClaim, claim_problem, needed_claims, not_created
from holdfast.agent.dra_calls import CALL_SECONDS, DriverEndpoint
from holdfast.agent.dra_plugins import DraPlugins, NotRegistered
from holdfast.agent.driver_slices import DriverSlices
from holdfast.agent.plugin_registry import PluginHandler
from holdfast.agent.plugin_sockets import CallFailed
from holdfast.agent.pod_devices import ContainerDevices, NotPrepared
from holdfast.api.claim_names import claim_name
from holdfast.api.devices import ResourceClaim
from holdfast.api.pod import Container, Pod
from holdfast.api.quantity import units
from holdfast.api.scheme import RESOURCE_CLAIMS
from holdfast.client.client import Client
from holdfast.clock import Clock
from holdfast.errors import HoldfastError, NotFound
from holdfast.kubelet_api import CLASSIC_PLUGIN, DRA_PLUGIN
from holdfast.repeated_log import Repeats

log = logging.getLogger(__name__)

RECONCILE_SECONDS = 60.0
RESTORED_SECONDS = 1.0
"""How often claims of before a restart are looked at until they are prepared again."""

ActivePods = Callable[[], Collection[str] | None]
"""Uids of the pods that are not terminated on the node; None while they are not known yet."""


class _NotUsable(HoldfastError):
    """A claim cannot be prepared now; the message says why."""


class ClaimManager:
    """Implements ``PodDevices`` with the DRA drivers of one node.

    ``keep_slices``: those on the node at the start may be written by hand and stay.
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
        self._client = client
        self._clock = clock
        self._active_pods = active_pods
        self._keep_slices = keep_slices
        self._repeats = Repeats(now=clock.monotonic)
        self._slices = DriverSlices(client, node, clock)
        self._drivers = DraPlugins(self._slices.usable_changed, call_seconds=call_seconds)
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    @property
    def handlers(self) -> Mapping[str, PluginHandler]:
        """What the plugin registry needs to register drivers here."""
        return {DRA_PLUGIN: self._drivers, CLASSIC_PLUGIN: self._drivers}

    @property
    def busy(self) -> bool:
        """Whether a driver is being called or the checkpoint is being written."""
        return self._drivers.busy or self._file.busy

    async def run(self) -> None:
        """Delete slices of absent drivers and release what no pod uses, until cancelled."""
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
        needed = list(needed_claims(pod))
        if not needed:
            return
        try:
            async with self._held((pod.namespace, each.name) for each in needed):
                await self._prepare(pod, needed)
        except (HoldfastError, OSError) as error:
            raise NotPrepared(f"Failed to prepare dynamic resources: {error}") from error

    def container_devices(self, pod: Pod, container: str) -> ContainerDevices:
        """Return the CDI names of the devices that a container requests."""
        found = [
            cdi_name
            for name, request in _container_requests(pod, container)
            for driver in self._by_name(pod.namespace, name).drivers.values()
            for device in driver.devices
            if not request or not device.request_names or request in device.request_names
            for cdi_name in device.cdi_devices
        ]
        return ContainerDevices(cdi_devices=tuple(dict.fromkeys(found)))

    async def before_start(self, pod: Pod, container: str) -> None:
        """Do nothing: drivers are not told of containers."""

    async def unprepare(self, pod: Pod) -> None:
        """Release the claims of a pod whose containers have stopped; raise NotPrepared."""
        await self._unprepare(pod.uid)

    async def _prepare(self, pod: Pod, needed: Sequence[NeededClaim]) -> None:
        """Check everything first: what fails before a driver was called leaves no trace."""
        live = [await self._live_claim(pod, each) for each in needed]
        endpoints: dict[str, DriverEndpoint] = {
            driver: self._drivers.endpoint(driver, classic=state.classic)
            for claim in live
            for driver, state in claim.drivers.items()
        }
        waiting = self._record(pod, live)
        await self._file.save()
        await self._call_drivers(waiting, endpoints)

    async def _call_drivers(
        self, waiting: Mapping[str, list[ClaimState]], endpoints: Mapping[str, DriverEndpoint]
    ) -> None:
        """Prepare claims with all their drivers, one call each."""
        if not waiting:
            return
        for driver, claims in sorted(waiting.items()):
            prepared = await endpoints[driver].prepare([each.request(driver) for each in claims])
            for claim in claims:
                claim.drivers[driver].devices = prepared[claim.uid]
        for claim in {id(each): each for claims in waiting.values() for each in claims}.values():
            claim.prepared = True
        await self._file.save()

    async def _prepare_restored(self) -> None:
        """Prepare the claims of running pods again after a restart, when their drivers are there.

        The pods do not wait for it: they have their devices.
        """
        waiting = set(self._claims)
        while waiting:
            await self._clock.sleep(RESTORED_SECONDS)
            if (active := self._active_pods()) is not None:
                done = await asyncio.gather(*(self._restored(uid, active) for uid in waiting))
                waiting = {uid for uid, is_done in zip(waiting, done, strict=True) if not is_done}

    async def _restored(self, uid: str, active: Collection[str]) -> bool:
        """Prepare a claim again; return whether it needs no further attempt."""
        claim = self._claims.get(uid)
        if claim is None or claim.pods.isdisjoint(active):
            return True
        try:
            async with self._held([(claim.namespace, claim.name)]):
                if claim.prepared or claim.pods.isdisjoint(active):
                    return True
                endpoints = {
                    driver: self._drivers.endpoint(driver, classic=state.classic)
                    for driver, state in claim.drivers.items()
                }
                await self._call_drivers({driver: [claim] for driver in endpoints}, endpoints)
        except NotRegistered:
            return False
        except (HoldfastError, OSError) as error:
            line = f"ResourceClaim {claim.namespace}/{claim.name} is not prepared again: {error}"
            self._repeats.log(log, logging.WARNING, line)
            return False
        return True

    async def _live_claim(self, pod: Pod, needed: NeededClaim) -> ClaimState:
        if not needed.name:
            raise _NotUsable(not_created(needed))
        try:
            claim = await self._client.get(RESOURCE_CLAIMS, needed.name, pod.namespace)
        except HoldfastError as error:
            raise _NotUsable(f"fetch ResourceClaim {needed.name}: {error}") from error
        if problem := claim_problem(pod, claim, owned=needed.owned):
            raise _NotUsable(problem)
        return _state_of(claim)

    def _record(self, pod: Pod, live: Iterable[ClaimState]) -> dict[str, list[ClaimState]]:
        """Add claims and the pod to the cache; return by driver what is not prepared yet."""
        known = [self._known(claim) for claim in live]
        waiting: defaultdict[str, list[ClaimState]] = defaultdict(list)
        for claim, fresh in known:
            cached = self._claims.setdefault(claim.uid, claim)
            cached.pods.add(pod.uid)
            if cached.prepared:
                continue
            cached.allocation = fresh.allocation
            for driver in fresh.drivers:
                cached.drivers.setdefault(driver, DriverState())
                if cached not in waiting[driver]:
                    waiting[driver].append(cached)
        return waiting

    def _known(self, fresh: ClaimState) -> tuple[ClaimState, ClaimState]:
        """Return the cached state of a claim, or the fresh one, and the fresh one."""
        for cached in self._claims.values():
            if (cached.namespace, cached.name) != (fresh.namespace, fresh.name):
                continue
            if cached.uid != fresh.uid:
                raise _NotUsable(
                    f"an older ResourceClaim {fresh.name} with UID {cached.uid} is still prepared "
                    "(was its pod deleted by force?)"
                )
            if cached.pods and cached.allocation and cached.allocation != fresh.allocation:
                raise _NotUsable(
                    f"ResourceClaim {fresh.name} is still prepared for an earlier allocation"
                )
            return cached, fresh
        return fresh, fresh

    async def _unprepare(self, pod_uid: str) -> None:
        claims = [claim for claim in self._claims.values() if pod_uid in claim.pods]
        if not claims and not self._file.stale:
            return
        try:
            async with self._held((each.namespace, each.name) for each in claims):
                await self._release(pod_uid, claims)
                await self._file.save()
        except (HoldfastError, OSError) as error:
            raise NotPrepared(
                f"Failed to unprepare dynamic resources: {error}",
                "FailedUnprepareDynamicResources",
            ) from error

    async def _release(self, pod_uid: str, claims: Iterable[ClaimState]) -> None:
        """Drop the pod from claims; those of no other pod are unprepared."""
        batches: defaultdict[str, list[ClaimState]] = defaultdict(list)
        last = []
        for claim in claims:
            if claim.uid not in self._claims or pod_uid not in claim.pods:
                continue  # another task released it meanwhile
            if claim.pods != {pod_uid}:
                claim.pods.remove(pod_uid)
                continue
            last.append(claim)
            # From now on its state at the driver is not known.
            claim.prepared = False
            for driver in claim.drivers:
                batches[driver].append(claim)
        for driver, waiting in sorted(batches.items()):
            classic = [claim for claim in waiting if claim.drivers[driver].classic]
            if structured := [claim for claim in waiting if not claim.drivers[driver].classic]:
                requests = [claim.request(driver) for claim in structured]
                await self._drivers.endpoint(driver).unprepare(requests)
            for claim in classic:
                await self._unprepare_classic(driver, claim)
        for claim in last:
            self._claims.pop(claim.uid, None)

    async def _unprepare_classic(self, driver: str, claim: ClaimState) -> None:
        try:
            endpoint = self._drivers.endpoint(driver, classic=True)
            await endpoint.unprepare([claim.request(driver)])
        except CallFailed as error:
            if not error.not_found or not await self._is_gone(claim):
                raise

    async def _is_gone(self, claim: ClaimState) -> bool:
        try:
            found = await self._client.get(RESOURCE_CLAIMS, claim.name, claim.namespace)
        except NotFound:
            return True
        return found.uid != claim.uid

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
    async def _held(self, keys: Iterable[tuple[str, str]]) -> AsyncIterator[None]:
        """Hold the locks of claims, by namespace and name, in one order for all callers."""
        async with AsyncExitStack() as stack:
            for key in sorted(set(keys)):
                lock = self._locks.setdefault(key, asyncio.Lock())
                await stack.enter_async_context(lock)
            yield

    def _by_name(self, namespace: str, name: str) -> ClaimState:
        for claim in self._claims.values():
            if (claim.namespace, claim.name) == (namespace, name):
                return claim
        raise NotPrepared(f"ResourceClaim {name} is not prepared")


def _state_of(claim: ResourceClaim) -> ClaimState:
    results = claim.results
    return ClaimState(
        claim.uid,
        claim.name,
        claim.namespace,
        drivers={result.driver: DriverState() for result in results},
        allocation=tuple(
            f"{each.driver}/{each.pool}/{each.device}/{each.share_id or ''}" for each in results
        ),
    )


def _container_requests(pod: Pod, container: str) -> Iterable[tuple[str, str]]:
    """List the claims of a container with the request in each; "" is all requests."""
    found = _container(pod, container)
    if found is None:
        return
    entries = {entry.name: entry for entry in pod.structured_claims}
    for reference in found.resources.claims:
        entry = entries.get(reference.name)
        if entry is not None and (name := claim_name(pod, entry)):
            yield name, reference.request
    special = pod.status.extended_resource_claim_status
    if special is None:
        return
    for mapping in special.request_mappings:
        requested = units(found.resources.requests.get(mapping.resource_name, "0"))
        if mapping.container_name == container and requested:
            yield special.resource_claim_name, mapping.request_name


def _container(pod: Pod, name: str) -> Container | None:
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return next((each for each in containers if each.name == name), None)
