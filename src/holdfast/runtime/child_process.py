"""The command that starts Holdfast as a child process, and a text for its exit code."""

from __future__ import annotations

import signal
import sys

COMMAND = (sys.executable, "-P", "-m", "holdfast")
"""``-P`` keeps the working directory out of ``sys.path``: no module is imported from it."""


def exit_description(code: int) -> str:
    """Describe how a process ended, given its return code.

    >>> exit_description(-9), exit_description(2)
    ('killed by SIGKILL', 'exit code 2')
    """
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
