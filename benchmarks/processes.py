"""Processes of Holdfast that a benchmark starts, each with a log in their folder."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast.client.client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import load

READY_SECONDS, END_SECONDS = 120, 30


class Processes:
    """The running processes, by the names of their commands."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, command: str, *flags: str) -> None:
        """Start a command of ``holdfast``."""
        self.spawn(command, sys.executable, "-m", "holdfast", command, *flags)

    def spawn(self, name: str, *words: str) -> None:
        """Start any program under a name."""
        with self._log(name).open("wb") as log:
            self.running[name] = subprocess.Popen(words, stdout=log, stderr=log)

    async def printed(self, name: str, words: str) -> None:
        """Wait until a process has printed these words; exit with its log if it does not."""
        log, deadline = self._log(name), time.monotonic() + READY_SECONDS
        while words not in log.read_text():
            if self.running[name].poll() is not None or time.monotonic() > deadline:
                raise SystemExit(log.read_text())
            await asyncio.sleep(0.05)

    def end(self) -> None:
        """Terminate all processes, the last one first."""
        for process in reversed(self.running.values()):
            process.terminate()
        for process in self.running.values():
            process.wait(END_SECONDS)

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"


@asynccontextmanager
async def api_server() -> AsyncIterator[tuple[Processes, Client]]:
    """Start an API server with an empty store; yield the processes and a client of it."""
    with tempfile.TemporaryDirectory() as folder:
        processes = Processes(Path(folder))
        try:
            processes.start("apiserver", "--data-dir", folder, "--port", "0")
            await processes.printed("apiserver", "serving")
            client = Client(HttpTransport(await load(processes.kubeconfig)))
            yield processes, client
            await client.close()
        finally:
            processes.end()
