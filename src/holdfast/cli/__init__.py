"""The command line: a plain API client, and the switch that starts things.

Lives here: commands, their flags, what they print; the only place that reads flags and the
environment. May not live here: decisions, wiring (``cluster``, ``scheduler_process``), anything
another room needs.

``commands`` declares the flags and imports what carries a command out only when it is given:
``holdfast status`` must not pay for NumPy.
"""

from __future__ import annotations

from holdfast.cli.app import main

__all__ = ["main"]
