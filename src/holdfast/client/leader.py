"""Leader election: of several replicas of a process, only the holder of a Lease works.

The clocks of two replicas are never compared. A replica measures the age of the lease from the
moment *it* observed the last change. The holder stops ``renew_deadline_seconds`` after it *sent*
its last successful renewal; another replica may take the lease ``lease_duration_seconds`` after
the change it observed, which is later. In between, writes that the holder has sent can finish.

A process that was suspended (by a debugger or a paused machine) cannot stop in time. Therefore
``check_leadership`` is called before each write (``client.transport.LeaseGuardedTransport``).

A failed or cancelled request may still have been stored, so a failure never tells who holds the
lease. After a failed renewal, the lease is read before leadership is given up. When a leader
stopped during a renewal, its release met a conflict, the lease was kept, and the next replica
waited until it expired. So the release now reads the lease again after a conflict.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from holdfast.api.resource import Resource
from holdfast.api.timestamps import rfc3339_micro
from holdfast.client.client import Client
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import BadConfiguration, Conflict, HoldfastError, NotFound, Unavailable

RAW_LEASES: Resource[dict[str, Any]] = Resource(
    "coordination.k8s.io", "v1", "leases", "Lease", dict
)
JITTER = 1.2

log = logging.getLogger(__name__)


class LeadershipLost(Unavailable):
    """The lease was not renewed in time; the work was cancelled before another replica starts."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """leaseDuration, renewDeadline and retryPeriod of a leader election, in seconds."""

    lease_duration_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_period_seconds: float = 2.0

    def __post_init__(self) -> None:
        if int(self.lease_duration_seconds) <= self.renew_deadline_seconds:
            raise BadConfiguration("leaseDuration must be greater than renewDeadline")
        if (
            self.renew_deadline_seconds <= JITTER * self.retry_period_seconds
            or self.retry_period_seconds <= 0
        ):
            raise BadConfiguration(
                f"renewDeadline must be greater than {JITTER:g} times retryPeriod, and retryPeriod "
                "greater than 0"
            )


class LeaderElection:
    """Acquire one Lease as ``identity`` and work while holding it."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        identity: str,
        name: str,
        namespace: str = "kube-system",
        times: LeaseTimes | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.identity = identity
        self._client = client
        self._clock = clock
        self._name = name
        self._namespace = namespace
        self._times = times or LeaseTimes()
        self._rng = rng or random.Random()
        self._lease: dict[str, Any] = {}
        self._observed_at = 0.0
        self._leading = False
        self._valid_until = 0.0
        """Until this time no other replica can have acquired the lease (monotonic clock)."""

    @property
    def is_leader(self) -> bool:
        """Whether this replica holds the lease and has renewed it in time."""
        return self._leading

    def check_leadership(self) -> None:
        """Raise LeadershipLost unless the lease is valid; sends no request."""
        if not self._leading or self._clock.monotonic() >= self._valid_until:
            raise self._leadership_lost("writes are refused")

    @property
    def leader(self) -> str:
        """The holder of the lease as last observed, "" if there is none."""
        return str(self._spec().get("holderIdentity") or "")

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Acquire the lease, then run ``lead`` while renewing it.

        When ``lead`` returns, the lease is released, so that another replica can acquire it at
        once. If the lease is not renewed in time, ``lead`` is cancelled and LeadershipLost raised.
        """
        await self._acquire()
        work = asyncio.ensure_future(lead())
        renewal = asyncio.create_task(self._renew_until_lost())
        try:
            await asyncio.wait({work, renewal}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (work, renewal):
                task.cancel()
            await asyncio.gather(work, renewal, return_exceptions=True)
            if self._leading:
                await self._release()
        if renewal.done() and not renewal.cancelled():
            renewal.result()
        if not work.cancelled():
            work.result()

    async def _acquire(self) -> None:
        while True:
            if await self._try_once():
                self._leading = True
                log.info("%s acquired lease %s/%s", self.identity, self._namespace, self._name)
                return
            pause = self._times.retry_period_seconds * (1 + JITTER * self._rng.random())
            await self._clock.sleep(pause)

    async def _renew_until_lost(self) -> None:
        while True:
            await self._clock.sleep(self._times.retry_period_seconds)
            left = self._valid_until - self._clock.monotonic()
            renewing = asyncio.create_task(self._renew())
            deadline = asyncio.create_task(self._clock.sleep(left))
            try:
                await asyncio.wait({renewing, deadline}, return_when=asyncio.FIRST_COMPLETED)
                renewed = renewing.done() and renewing.result()
            finally:
                renewing.cancel()
                deadline.cancel()
                await asyncio.gather(renewing, deadline, return_exceptions=True)
            if not renewed:
                self._leading = False
                raise self._leadership_lost("restart the process to acquire it again")

    def _leadership_lost(self, consequence: str) -> LeadershipLost:
        return LeadershipLost(
            f"lease {self._namespace}/{self._name} could not be renewed for "
            f"{self._times.renew_deadline_seconds:g} s (holder: {self.leader or 'none'}); "
            f"{consequence}"
        )

    async def _renew(self) -> bool:
        while not await self._try_once():
            if self._held_by_another():
                return False
            await self._clock.sleep(self._times.retry_period_seconds)
        return True

    async def _try_once(self) -> bool:
        """Acquire or renew the lease; return False if another holds it or the request failed."""
        wanted: dict[str, Any] = {}
        sent_at = 0.0
        try:
            if not self._leading or not self._lease:
                await self._read_lease()
            if self._held_by_another():
                return False
            wanted, sent_at = self._claimed_lease(), self._clock.monotonic()
            await self._write(wanted)
        except HoldfastError as failure:
            log.info("lease %s/%s: %s", self._namespace, self._name, failure)
            if not self._leading or not await self._was_written(wanted):
                return False
        self._valid_until = sent_at + self._times.renew_deadline_seconds
        return True

    async def _was_written(self, wanted: dict[str, Any]) -> bool:
        """Read the lease after a failed renewal and return whether the renewal was stored."""
        try:
            await self._read_lease()
        except HoldfastError as failure:
            log.debug("lease %s/%s: %s", self._namespace, self._name, failure)
            return False
        return bool(wanted) and self._spec() == wanted["spec"]

    def _held_by_another(self) -> bool:
        return self.leader not in ("", self.identity) and not self._expired()

    async def _read_lease(self) -> None:
        try:
            lease = await self._client.get(RAW_LEASES, self._name, self._namespace)
        except NotFound:
            lease = {}
        self._observe(lease)

    def _observe(self, lease: dict[str, Any]) -> None:
        if lease.get("spec") != self._lease.get("spec"):
            self._observed_at = self._clock.monotonic()
        self._lease = lease

    def _expired(self) -> bool:
        length = self._spec().get("leaseDurationSeconds") or self._times.lease_duration_seconds
        return self._clock.monotonic() >= self._observed_at + float(length)

    def _claimed_lease(self) -> dict[str, Any]:
        """Return the lease as held by this replica; fields of other clients are kept."""
        now = rfc3339_micro(self._clock.now())
        old = self._spec()
        ours = old.get("holderIdentity") == self.identity
        transitions = int(old.get("leaseTransitions") or 0)
        spec = old | {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": int(self._times.lease_duration_seconds),
            "acquireTime": old.get("acquireTime", now) if ours else now,
            "renewTime": now,
            "leaseTransitions": transitions if ours or not self._lease else transitions + 1,
        }
        return self._with_spec(spec)

    def _with_spec(self, spec: dict[str, Any]) -> dict[str, Any]:
        fresh = {
            "apiVersion": RAW_LEASES.api_version,
            "kind": RAW_LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
        }
        return {**(self._lease or fresh), "spec": spec}

    async def _write(self, lease: dict[str, Any]) -> None:
        if self._lease:
            self._observe(await self._client.update(RAW_LEASES, lease))
        else:
            self._observe(await self._client.create(RAW_LEASES, lease, self._namespace))

    async def _release(self) -> None:
        self._leading = False
        try:
            try:
                await self._write(self._released_lease())
            except Conflict:  # a cancelled renewal may have been stored
                await self._read_lease()
                if self.leader == self.identity:
                    await self._write(self._released_lease())
        except HoldfastError as failure:
            log.info("lease %s/%s not released: %s", self._namespace, self._name, failure)

    def _released_lease(self) -> dict[str, Any]:
        now = rfc3339_micro(self._clock.now())
        free = {"holderIdentity": "", "leaseDurationSeconds": 1}
        return self._with_spec(self._spec() | free | {"acquireTime": now, "renewTime": now})

    def _spec(self) -> dict[str, Any]:
        spec = self._lease.get("spec")
        return spec if isinstance(spec, dict) else {}
