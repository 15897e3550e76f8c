"""The command line: an API client, and the commands that start the components.

Lives here: commands, their flags and their output. No other package reads flags or the environment.
May not live here: scheduling decisions, wiring of components (``cluster``, ``scheduler_process``),
anything that another package imports.

``commands`` declares the flags. The implementation of a command is imported when the command runs,
so that ``holdfast status`` does not load NumPy.
"""

from __future__ import annotations

from holdfast.cli.app import main

__all__ = ["main"]
