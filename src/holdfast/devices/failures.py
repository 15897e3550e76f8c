"""How an allocation fails beyond "does not fit", which is a value."""

from __future__ import annotations

from holdfast.errors import HoldfastError


class AllocationError(HoldfastError):
    """The claims cannot be judged at all: the attempt fails for every node."""


class NodeAllocationError(AllocationError):
    """The claims cannot be judged on this node; others may still do."""


class SearchTimeout(AllocationError):
    """The search took more steps than it may."""
