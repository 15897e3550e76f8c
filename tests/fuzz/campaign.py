"""Send many random requests to one cluster, with checks in between."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from fuzz.checks import (
    check_components,
    check_lists,
    check_response,
    check_restart,
    check_still_works,
)
from fuzz.fuzzer import Fuzzer, Probe
from fuzz.raw_bytes import check_bytes_response, send_bytes, write_bytes
from fuzz.request_file import RequestLog
from fuzz.target import HANG_SECONDS, Answer, HttpsTarget, Sender, Target
from fuzz.watchdog import Hang, Watchdog

REQUEST_LOG = "requests.jsonl"
GROUP = 8
"""Requests that are sent concurrently."""
CHECK_EVERY = 400
UNREAD_BODY = 60_000
"""Bytes; the server need not read a larger body of a rejected request completely."""
RESTART_EVERY = 1_200
_FRAME = re.compile(r'File "[^"]*?/((?:holdfast|site-packages|python3[^/]*)/[^"]*)", line (\d+)')


@dataclass
class Fault:
    """A failed check, and the requests before it."""

    what: str
    requests: list[Probe]
    trace: str = ""

    @property
    def signature(self) -> str:
        """A key of equal faults: the place of the error, or the text without numbers."""
        frames = _FRAME.findall(self.trace or self.what)
        if frames:
            last = self.trace.strip().rsplit("\n", 1)[-1] if self.trace else ""
            return f"{frames[-1][0]}:{frames[-1][1]} {last.partition(':')[0]}"
        return re.sub(r"\d+", "#", self.what)[:120]


@dataclass
class Report:
    """The results of a campaign."""

    requests: int = 0
    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    faults: dict[str, Fault] = field(default_factory=dict)
    refused: int = 0
    connections: int = 0
    """The number of connections on which invalid bytes were sent."""
    slowest: list[tuple[float, str]] = field(default_factory=list)

    def add(self, fault: Fault) -> None:
        self.faults.setdefault(fault.signature, fault)

    def merge(self, other: Report) -> None:
        self.requests += other.requests
        self.seconds += other.seconds
        self.refused += other.refused
        self.connections += other.connections
        self.statuses += other.statuses
        self.faults = other.faults | self.faults
        self.slowest = sorted(self.slowest + other.slowest, reverse=True)[:10]


class Campaign:
    """Random requests to one cluster, with checks in between; the seed determines them all."""

    def __init__(self, target: Target, seed: int) -> None:
        self.target = target
        self._request_log = RequestLog(target.root / REQUEST_LOG)
        self.report = Report()
        self.requests: list[Probe] = []
        self._seed = seed
        self._watchdog = Watchdog(target.busy_with)
        self._sender: Sender = target

    async def run(self, count: int, *, https: bool = False) -> Report:
        """Send ``count`` random requests, with checks and restarts in between."""
        kinds, schemas = await self.target.read_kinds()
        fuzzer = Fuzzer(random.Random(self._seed), kinds, schemas)
        began = time.monotonic()
        with self._watchdog.watch(), self._catch_hang():
            while self.report.requests < count and not self._component_failed:
                size = min(CHECK_EVERY, count - self.report.requests)
                await self._batch(fuzzer, size, https=https)
                await self._check()
            if not self._component_failed:
                await self._check_still_works()
        self.report.seconds = time.monotonic() - began
        self._request_log.close()
        self.report.refused = self.target.logged.refused
        return self.report

    async def replay(self, probes: list[Probe]) -> Report:
        """Send the given requests one by one, then check everything."""
        self._request_log.close()
        with self._watchdog.watch(), self._catch_hang():
            for probe in probes:
                await self._send(probe)
            await self._check(restart=True)
            if not self._component_failed:
                await self._check_still_works()
        return self.report

    @contextmanager
    def _catch_hang(self) -> Iterator[None]:
        try:
            yield
        except Hang as endless:
            self._fault("a request or check does not end", str(endless))

    @property
    def _component_failed(self) -> bool:
        """Whether a component has failed, so that further requests are useless."""
        return not self.target.components.healthy

    async def _batch(self, fuzzer: Fuzzer, count: int, *, https: bool) -> None:
        https_target = await HttpsTarget.open(self.target) if https else None
        self._sender = https_target or self.target
        try:
            for size in _sizes(count, GROUP):
                probes = [fuzzer.next() for _ in range(size)]
                self._request_log.add(probes)
                answers = await asyncio.gather(*(self._send(probe) for probe in probes))
                if https_target is not None:
                    await self._send_bytes(https_target, write_bytes(fuzzer.values))
                for probe, answer in zip(probes, answers, strict=True):
                    if answer is not None:
                        fuzzer.observe(probe, answer.status, answer.body)
                await self.target.clock.settle()
        finally:
            self._sender = self.target
            if https_target is not None:
                await https_target.close()

    async def _send(self, probe: Probe) -> Answer | None:
        self.requests.append(probe)
        began = time.process_time()
        try:
            answer = await asyncio.wait_for(self._sender.send(probe), HANG_SECONDS)
        except TimeoutError:
            self._fault(f"no answer to {probe.method} {probe.path[:80]} in {HANG_SECONDS:g} s")
            return None
        except Exception as broken:
            if isinstance(broken, aiohttp.ClientError) and len(probe.body) > UNREAD_BODY:
                self.report.requests += 1  # rejected, and closed before the whole body was sent
                return None
            self._fault(f"{probe.method} {probe.path[:80]}: {type(broken).__name__}: {broken}")
            return None
        self._record_time(probe, time.process_time() - began)
        self.report.requests += 1
        self.report.statuses[answer.status] += 1
        if problem := check_response(probe, answer):
            trace = self.target.logged.take(f"{probe.method} {probe.path} failed")
            self._fault(f"{probe.method} {probe.path[:200]}: {problem}", trace)
        return answer

    async def _send_bytes(self, https_target: HttpsTarget, raw: bytes) -> None:
        answer = await send_bytes(https_target.url, https_target.context, raw)
        self._watchdog.reset()
        self.report.connections += 1
        if problem := check_bytes_response(raw, answer):
            self._fault(problem)

    def _record_time(self, probe: Probe, seconds: float) -> None:
        self._watchdog.reset()
        what = f"{probe.method} {probe.path[:80]} ({len(probe.body)} bytes)"
        self.report.slowest = sorted([*self.report.slowest, (seconds, what)], reverse=True)[:10]
        while self._watchdog.stacks:
            self._fault(
                f"{what} took {seconds:.1f} s of processor time", self._watchdog.stacks.pop()
            )

    def _fault(self, what: str, trace: str = "") -> None:
        self.report.add(Fault(what, list(self.requests), trace))

    async def _check(self, *, restart: bool = False) -> None:
        """Let the components act on the stored objects, then run all checks."""
        try:
            await self.target.advance(5.0)
            problems = await check_components(self.target) + await check_lists(self.target)
            self._watchdog.reset()
            due = self.report.requests % RESTART_EVERY < CHECK_EVERY
            if (restart or due) and not self._component_failed:
                problems += await check_restart(self.target)
                problems += await check_components(self.target)
            self._watchdog.reset()
        except Exception as broken:
            problems = [f"a check failed: {type(broken).__name__}: {broken}"]
        for what in problems:
            self._fault(what, what if "Traceback" in what else "")

    async def _check_still_works(self) -> None:
        try:
            problems = await check_still_works(self.target, f"proof-{self._seed}")
            problems += await check_components(self.target)
        except Exception as broken:
            problems = [f"a plain pod and Deployment: {type(broken).__name__}: {broken}"]
        for what in problems:
            self._fault(what, what if "Traceback" in what else "")


def _sizes(count: int, size: int) -> Iterator[int]:
    while count > 0:
        yield min(size, count)
        count -= size


async def campaign(directory: Path, seed: int, count: int, *, https: bool = False) -> Report:
    """Run a campaign on a new cluster."""
    async with Target(directory, seed) as target:
        return await Campaign(target, seed).run(count, https=https)


async def replay(directory: Path, probes: list[Probe]) -> Report:
    """Send the given requests to a new cluster."""
    async with Target(directory) as target:
        return await Campaign(target, 0).replay(probes)
