"""Errors of an allocation; that the devices do not fit is a result, not an error."""

from __future__ import annotations

from holdfast.runtime.errors import HoldfastError

TIMED_OUT = "timed out trying to allocate devices"


class AllocationError(HoldfastError):
    """The claims cannot be allocated on any node: the attempt fails."""


class NodeAllocationError(AllocationError):
    """The claims cannot be allocated on this node because of an error; other nodes may work."""


class NotBindable(AllocationError):
    """The devices fit, but a limit on the claim is reached: the pod waits until that changes."""


class SearchTimeout(AllocationError):
    """The search reached its limit of steps."""
