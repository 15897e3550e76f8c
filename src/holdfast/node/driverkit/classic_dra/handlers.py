"""The five functions that the author of a classic driver implements."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from holdfast.api.classic_dra.types import (
    ClassicAllocation,
    ClassicClaim,
    ClassicClass,
    PodSchedulingSpec,
)
from holdfast.api.pod import Pod
from holdfast.runtime.errors import Retryable


class NotYet(Retryable):
    """Another object does not exist yet; no event is recorded."""


@dataclass(frozen=True, slots=True)
class ClaimItem:
    """A claim to be allocated, with its class and their parameters."""

    claim: ClassicClaim
    resource_class: ClassicClass
    class_parameters: Any = None
    claim_parameters: Any = None
    entries: tuple[str, ...] = ()
    """The names of the claim in the pod's spec; none for an immediate allocation."""


Allocated = ClassicAllocation | Exception


@dataclass(frozen=True, slots=True)
class RefusedNodes:
    """By uid of the claim: the unsuitable nodes, with the author's reasons if there are any."""

    by_claim: Mapping[str, Collection[str]]
    reasons: Mapping[str, str] = field(default_factory=dict)


UnsuitableNodes = Collection[str] | Mapping[str, Collection[str]] | RefusedNodes
"""Nodes for all items, or nodes by uid of the claim."""


class ClassicHandlers(Protocol):
    """The functions of a classic driver; ``allocate`` and ``deallocate`` may be called again.

    A claim is the same claim only if its uid is the same.
    """

    async def class_parameters(self, resource_class: ClassicClass) -> Any:
        """Fetch and check the parameters of a class."""
        ...

    async def claim_parameters(
        self, claim: ClassicClaim, resource_class: ClassicClass, class_parameters: Any
    ) -> Any:
        """Fetch and check the parameters of a claim."""
        ...

    async def allocate(
        self, items: Sequence[ClaimItem], selected_node: str | None
    ) -> Sequence[Allocated]:
        """Allocate claims and return an allocation or an error for each.

        ``items`` are all pending claims of one pod for this driver, for the selected node; or one
        claim that is allocated immediately, for None. Check again what is free: nothing is
        reserved. ``Unsuitable`` says that the node cannot be used.
        """
        ...

    async def deallocate(self, claim: ClassicClaim) -> None:
        """Free the devices of a claim, even if its allocation was only begun, or it has none."""
        ...

    async def unsuitable_nodes(
        self,
        pod: Pod,
        items: Sequence[ClaimItem],
        nodes: Sequence[str],
        asked: PodSchedulingSpec,
    ) -> UnsuitableNodes:
        """Return the nodes on which not all items can be allocated together.

        ``nodes`` are those that the scheduler asks about and those of earlier answers. If the
        selected node of ``asked`` is suitable, ``allocate`` follows; then the answer about other
        nodes may be wrong.
        """
        ...


@runtime_checkable
class ImmediateCheck(Protocol):
    """Handlers that can tell before an immediate allocation whether anything fits."""

    async def check_immediate(self, items: Sequence[ClaimItem]) -> None:
        """Raise Unsuitable if nothing fits now; then nothing is written to the claims."""
        ...
