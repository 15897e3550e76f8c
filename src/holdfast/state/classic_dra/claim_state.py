"""The states of a classic claim, derived from the object alone, and what each state allows.

::

    Pending ──driver──► InProgress ──driver──► Allocated ◄──scheduler, controller──► Reserved
       ▲                    │ failed              │ scheduler                           │
       └────────────────────┘                     ▼                                     │
       ▲                                      Releasing ◄─────── last consumer ─────────┘
       └───────────── driver ─────────────────────┘

Any of them becomes Deleting when the claim is deleted; finalizers of drivers keep it until nothing
is allocated.
"""

from __future__ import annotations

from enum import Enum

from holdfast.api.classic_dra.names import MAX_CONSUMERS, deletion_protection
from holdfast.api.classic_dra.types import ClassicClaim

_PROTECTION = deletion_protection("")


class ClaimState(Enum):
    """The state of a claim; the value is what users see."""

    PENDING = "Pending"
    """Not allocated."""
    IN_PROGRESS = "InProgress"
    """Not allocated, and a driver's finalizer shows that it has begun to allocate."""
    ALLOCATED = "Allocated"
    """Allocated, without consumers."""
    RESERVED = "Reserved"
    """Allocated, with consumers."""
    RELEASING = "Releasing"
    """Allocated, and its driver is to deallocate it."""
    DELETING = "Deleting"
    """Being deleted, whatever else holds."""


def state_of(claim: ClassicClaim) -> ClaimState:
    """Return the state of a claim.

    >>> state_of(ClassicClaim())
    <ClaimState.PENDING: 'Pending'>
    """
    status = claim.status
    if claim.is_deleted:
        return ClaimState.DELETING
    if status.allocation is None:
        return ClaimState.IN_PROGRESS if is_protected(claim) else ClaimState.PENDING
    if status.deallocation_requested:
        return ClaimState.RELEASING
    return ClaimState.RESERVED if status.reserved_for else ClaimState.ALLOCATED


def is_protected(claim: ClassicClaim, driver: str = "") -> bool:
    """Return whether the claim has the finalizer of a driver; "": of any."""
    finalizers = claim.metadata.finalizers
    if driver:
        return deletion_protection(driver) in finalizers
    return any(finalizer.endswith(_PROTECTION) for finalizer in finalizers)


def is_usable(claim: ClassicClaim) -> bool:
    """Return whether consumers may be added: it is allocated and stays so."""
    return state_of(claim) in (ClaimState.ALLOCATED, ClaimState.RESERVED)


def has_room_for(claim: ClassicClaim, uid: str) -> bool:
    """Return whether a consumer may share an allocated claim with the present ones."""
    consumers = claim.status.reserved_for
    if not consumers or claim.is_reserved_for(uid):
        return True
    return is_shared(claim) and len(consumers) < MAX_CONSUMERS


def is_shared(claim: ClassicClaim) -> bool:
    """Return whether the driver allocated something that several consumers may use at a time."""
    allocation = claim.status.allocation
    return allocation is not None and allocation.shared_resource


def may_be_released(claim: ClassicClaim, uid: str) -> bool:
    """Return whether a consumer may ask the driver to deallocate: no other uses the claim.

    A claim that is allocated immediately stays allocated.
    """
    others = any(consumer.uid != uid for consumer in claim.status.reserved_for)
    return is_usable(claim) and not claim.is_immediate and not others
