"""Start the program in processes that are forked after its imports.

They start faster than the program that a user starts; signals, exit codes and output are the same.
"""

import multiprocessing
import os
import signal
import sys
from contextlib import suppress
from multiprocessing import connection

from holdfast.cli.app import main

FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload(
    [
        f"holdfast.cli.{name}"
        for name in (
            "app",
            "up_command",
            "scheduler_command",
            "controllers_command",
            "apiserver_command",
        )
    ]
    + [
        "holdfast.processes.cluster",
        "holdfast.node.agent.simulated_nodes",
        "holdfast.processes.scheduler",
    ]
    + ["holdfast.controllers.controller_manager", "holdfast.server.https_server"]
)


class ForkedProgram:
    """A running ``holdfast``, with the interface of ``subprocess.Popen``."""

    def __init__(self, *arguments, errors=None):
        reading, writing = FORK.Pipe(duplex=False)
        given = [str(argument) for argument in arguments]
        self._process = FORK.Process(target=_run, args=(given, writing, errors and str(errors)))
        self._process.start()
        writing.close()
        self.pid = self._process.pid
        self.stdout = os.fdopen(os.dup(reading.fileno()))
        reading.close()

    @property
    def returncode(self):
        return self._process.exitcode

    def send_signal(self, number):
        if self.returncode is None:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)

    def kill(self):
        """Kill the process and all of its children."""
        if self.returncode is not None:
            return
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:  # it has not created its process group yet
            os.kill(self.pid, signal.SIGKILL)

    def communicate(self, timeout=60):
        """Wait for its end; return the rest of its output."""
        assert connection.wait([self._process.sentinel], timeout), "it did not end in time"
        self._process.join()
        with self.stdout:
            return self.stdout.read(), None


def _run(arguments, writing, errors):
    os.setsid()
    os.dup2(writing.fileno(), 1)
    if errors is None:
        os.dup2(1, 2)
    else:
        log = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 2)
        os.close(log)
    writing.close()
    sys.argv = ["holdfast", *arguments]
    main()
