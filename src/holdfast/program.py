"""The command line by which Holdfast starts itself as a child process."""

from __future__ import annotations

import sys

COMMAND = (sys.executable, "-P", "-m", "holdfast")
"""``-P`` keeps the working directory off ``sys.path``: no module that lies there is imported."""
