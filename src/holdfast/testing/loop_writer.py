"""A store's writer without a thread, for clusters on a virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.server.store.writer_thread import DatabaseTask, PendingWrite, WriterThread


class LoopWriter(WriterThread):
    """Commits on the event loop, one iteration after the write.

    Transactions, their order and their errors are those of the writer thread. A commit blocks the
    loop and takes the same number of iterations in every run, so a settled loop has no pending
    write.
    """

    def _start(self) -> None:
        self._scheduled = False

    def _put(self, item: tuple[PendingWrite, ...] | DatabaseTask) -> None:
        super()._put(item)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._work)

    def _work(self) -> None:
        self._scheduled = False
        while not self._queue.empty() and self._write_batch():
            pass

    def _report(self, count: int, call: Callable[..., None], *arguments: Any) -> None:
        self._loop.call_soon(self._deliver, count, call, arguments)

    def _join(self) -> None:
        pass
