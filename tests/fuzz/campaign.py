"""Send many requests to one cluster and check everything in between."""

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
    check_restart,
    check_still_works,
    judge,
)
from fuzz.fuzzer import Fuzzer, Probe
from fuzz.target import HANG_SECONDS, Answer, Front, HttpsWire, Target
from fuzz.trail import Journal
from fuzz.watchdog import Hang, Watchdog
from fuzz.wire import judge_bytes, send_bytes, write_bytes

JOURNAL = "trail.jsonl"
GROUP = 8
"""Requests sent together: what one batch of the store's writer can take."""
CHECK_EVERY = 400
UNREAD_BODY = 60_000
"""A larger body that is refused need not be read to its end."""
RESTART_EVERY = 1_200
_FRAME = re.compile(r'File "[^"]*?/((?:holdfast|site-packages|python3[^/]*)/[^"]*)", line (\d+)')


@dataclass
class Fault:
    """Something that must not be, and the requests that led to it."""

    what: str
    trail: list[Probe]
    trace: str = ""

    @property
    def signature(self) -> str:
        """What makes two faults the same: where it was raised, or the words without numbers."""
        frames = _FRAME.findall(self.trace or self.what)
        if frames:
            last = self.trace.strip().rsplit("\n", 1)[-1] if self.trace else ""
            return f"{frames[-1][0]}:{frames[-1][1]} {last.partition(':')[0]}"
        return re.sub(r"\d+", "#", self.what)[:120]


@dataclass
class Report:
    """What a campaign did."""

    requests: int = 0
    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    faults: dict[str, Fault] = field(default_factory=dict)
    refused: int = 0
    connections: int = 0
    """How many had bytes sent that are no proper request."""
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
    """Random requests to one cluster, and checks in between; the seed decides all of it."""

    def __init__(self, target: Target, seed: int) -> None:
        self.target = target
        self._journal = Journal(target.root / JOURNAL)
        self.report = Report()
        self.trail: list[Probe] = []
        self._seed = seed
        self._dog = Watchdog(target.busy_with)
        self._front: Front = target

    async def run(self, count: int, *, https: bool = False) -> Report:
        """Send ``count`` requests of chance, with checks and restarts in between."""
        kinds, schemas = await self.target.read_kinds()
        fuzzer = Fuzzer(random.Random(self._seed), kinds, schemas)
        began = time.monotonic()
        with self._dog.watch(), self._until_a_hang():
            while self.report.requests < count and not self._hopeless:
                size = min(CHECK_EVERY, count - self.report.requests)
                await self._batch(fuzzer, size, https=https)
                await self._check()
            if not self._hopeless:
                await self._prove()
        self.report.seconds = time.monotonic() - began
        self._journal.close()
        self.report.refused = self.target.logged.refused
        return self.report

    async def replay(self, probes: list[Probe]) -> Report:
        """Send given requests one by one, then check everything."""
        self._journal.close()
        with self._dog.watch(), self._until_a_hang():
            for probe in probes:
                await self._send(probe)
            await self._check(restart=True)
            if not self._hopeless:
                await self._prove()
        return self.report

    @contextmanager
    def _until_a_hang(self) -> Iterator[None]:
        try:
            yield
        except Hang as endless:
            self._fault("something does not end", str(endless))

    @property
    def _hopeless(self) -> bool:
        """Whether a component has died, after which nothing more can be learnt."""
        return not self.target.components.healthy

    async def _batch(self, fuzzer: Fuzzer, count: int, *, https: bool) -> None:
        wire = await HttpsWire.open(self.target) if https else None
        self._front = wire or self.target
        try:
            for size in _sizes(count, GROUP):
                probes = [fuzzer.next() for _ in range(size)]
                self._journal.add(probes)
                answers = await asyncio.gather(*(self._send(probe) for probe in probes))
                if wire is not None:
                    await self._send_bytes(wire, write_bytes(fuzzer.values))
                for probe, answer in zip(probes, answers, strict=True):
                    if answer is not None:
                        fuzzer.heard(probe, answer.status, answer.body)
                await self.target.clock.settle()
        finally:
            self._front = self.target
            if wire is not None:
                await wire.close()

    async def _send(self, probe: Probe) -> Answer | None:
        self.trail.append(probe)
        began = time.process_time()
        try:
            answer = await asyncio.wait_for(self._front.send(probe), HANG_SECONDS)
        except TimeoutError:
            self._fault(f"no answer to {probe.method} {probe.path[:80]} in {HANG_SECONDS:g} s")
            return None
        except Exception as broken:
            if isinstance(broken, aiohttp.ClientError) and len(probe.body) > UNREAD_BODY:
                self.report.requests += 1  # refused, and hung up on before all of it was sent
                return None
            self._fault(f"{probe.method} {probe.path[:80]}: {type(broken).__name__}: {broken}")
            return None
        self._note(probe, time.process_time() - began)
        self.report.requests += 1
        self.report.statuses[answer.status] += 1
        if problem := judge(probe, answer):
            trace = self.target.logged.take(f"{probe.method} {probe.path} failed")
            self._fault(f"{probe.method} {probe.path[:200]}: {problem}", trace)
        return answer

    async def _send_bytes(self, wire: HttpsWire, raw: bytes) -> None:
        answer = await send_bytes(wire.url, wire.context, raw)
        self._dog.feed()
        self.report.connections += 1
        if problem := judge_bytes(raw, answer):
            self._fault(problem)

    def _note(self, probe: Probe, seconds: float) -> None:
        self._dog.feed()
        what = f"{probe.method} {probe.path[:80]} ({len(probe.body)} bytes)"
        self.report.slowest = sorted([*self.report.slowest, (seconds, what)], reverse=True)[:10]
        while self._dog.stacks:
            self._fault(f"{what} took {seconds:.1f} s of processor time", self._dog.stacks.pop())

    def _fault(self, what: str, trace: str = "") -> None:
        self.report.add(Fault(what, list(self.trail), trace))

    async def _check(self, *, restart: bool = False) -> None:
        """Let components act on what is stored, then look at everything."""
        try:
            await self.target.advance(5.0)
            wrong = await check_components(self.target) + await check_lists(self.target)
            self._dog.feed()
            due = self.report.requests % RESTART_EVERY < CHECK_EVERY
            if (restart or due) and not self._hopeless:
                wrong += await check_restart(self.target)
                wrong += await check_components(self.target)
            self._dog.feed()
        except Exception as broken:
            wrong = [f"a check failed: {type(broken).__name__}: {broken}"]
        for what in wrong:
            self._fault(what, what if "Traceback" in what else "")

    async def _prove(self) -> None:
        try:
            wrong = await check_still_works(self.target, f"proof-{self._seed}")
            wrong += await check_components(self.target)
        except Exception as broken:
            wrong = [f"a plain pod and Deployment: {type(broken).__name__}: {broken}"]
        for what in wrong:
            self._fault(what, what if "Traceback" in what else "")


def _sizes(count: int, size: int) -> Iterator[int]:
    while count > 0:
        yield min(size, count)
        count -= size


async def campaign(directory: Path, seed: int, count: int, *, https: bool = False) -> Report:
    """Run a campaign on a cluster of its own."""
    async with Target(directory, seed) as target:
        return await Campaign(target, seed).run(count, https=https)


async def replay(directory: Path, probes: list[Probe]) -> Report:
    """Send given requests to a cluster of their own."""
    async with Target(directory) as target:
        return await Campaign(target, 0).replay(probes)
