"""The error of a pod whose claims cannot be read, which scheduler, agent and server handle."""

from __future__ import annotations


class InvalidEntries(ValueError):
    """The claims of a pod cannot be read; the message says why."""
