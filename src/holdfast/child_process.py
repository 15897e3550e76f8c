"""How Holdfast starts itself as a child process, and how such a process ended."""

from __future__ import annotations

import signal
import sys

COMMAND = (sys.executable, "-P", "-m", "holdfast")
"""``-P`` keeps the working directory off ``sys.path``: no module that lies there is imported."""


def exit_description(code: int) -> str:
    """Say how a process ended, given its return code.

    >>> ending(-9), ending(2)
    ('killed by SIGKILL', 'exit code 2')
    """
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
