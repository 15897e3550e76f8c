"""Sessions of an autoscaler, to ask what claims would get on nodes that do not exist yet.

A session has a copy of the free devices and books claims in it, by the author's ``fits``: so the
answer cannot differ from a real allocation. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.api.classic_dra.types import ClassicClaim, ClassicClass
from holdfast.api.node import Node
from holdfast.api.node_selection import compile_selector
from holdfast.api.pod import NodeSelector, Pod
from holdfast.node.driverkit.classic_dra.fitting import (
    Choice,
    ClaimParameters,
    Fits,
    FreeDevice,
    Unsuitable,
    choose,
    without,
)
from holdfast.state.classic_dra import reasons

NEW_NODE = "what a new node of this kind has is not known: the driver has no @driver.new_node"


@dataclass(frozen=True, slots=True)
class RequestedClaim:
    """A claim of a pod for this driver, with its class and parameters."""

    claim: ClassicClaim
    """The stored claim, or the claim that would be created for the pod."""
    resource_class: ClassicClass
    request: ClaimParameters


@dataclass(frozen=True, slots=True)
class UnusableNode:
    """Why a pod's claims cannot be used on a node; ``everywhere``: nor on a new node."""

    reason: str
    everywhere: bool = False


@dataclass(slots=True)
class _Allocated:
    node: str
    """The node; empty if every node can use it."""
    shared: bool
    users: set[str] = field(default_factory=set)


class Session:
    """A simulation: the free devices, and the claims that were allocated in it.

    ``new_node`` returns the devices of a node without an inventory, None if they are unknown.
    """

    def __init__(
        self,
        fits: Fits,
        free: Mapping[str, Sequence[FreeDevice]],
        new_node: Callable[[Node], Sequence[FreeDevice] | None],
        *,
        network: bool = False,
    ) -> None:
        self._fits = fits
        self._free = dict(free)
        self._new_node = new_node
        self._network = network
        self._allocated: dict[str, _Allocated] = {}

    def refusal(
        self, pod: Pod, claims: Sequence[RequestedClaim], node: Node
    ) -> UnusableNode | None:
        """Return why the claims of a pod cannot be used on a node, or None."""
        choices = self._choices(pod, claims, node)
        return choices if isinstance(choices, UnusableNode) else None

    def select(self, pod: Pod, claims: Sequence[RequestedClaim], node: Node) -> None:
        """Allocate the claims of a pod on a node; raises Unsuitable."""
        choices = self._choices(pod, claims, node)
        if isinstance(choices, UnusableNode):
            raise Unsuitable(choices.reason)
        for needed, choice in choices:
            if choice is not None:
                pool = self._pool(node)
                free = self._free_on(node)
                assert free is not None, "the choice was made from it"
                self._free[pool] = without(free, choice)
                self._allocated[needed.claim.key] = _Allocated(pool, choice.shared)
            known = self._allocated.setdefault(needed.claim.key, _stored(needed.claim))
            known.users.add(pod.uid)

    def _choices(
        self, pod: Pod, claims: Sequence[RequestedClaim], node: Node
    ) -> list[tuple[RequestedClaim, Choice | None]] | UnusableNode:
        """Return a choice for each claim that is not allocated, None for the others."""
        pending = []
        for needed in claims:
            if needed.claim.key not in self._allocated and not needed.claim.is_allocated:
                pending.append(needed)
                if not _matches(needed.resource_class.suitable_nodes, node):
                    return UnusableNode(reasons.EXCLUDED_BY_CLASS)
            elif (refusal := self._unusable(pod, needed.claim, node)) is not None:
                return refusal
        chosen: dict[str, Choice] = {}
        if pending:
            free = self._free_on(node)
            if free is None:
                return UnusableNode(NEW_NODE)
            choices = choose(self._fits, free, [needed.request for needed in pending])
            if isinstance(choices, str):
                return UnusableNode(choices, everywhere=self._network)
            chosen = {n.claim.key: choice for n, choice in zip(pending, choices, strict=True)}
        return [(needed, chosen.get(needed.claim.key)) for needed in claims]

    def _unusable(self, pod: Pod, claim: ClassicClaim, node: Node) -> UnusableNode | None:
        """Return why an allocated claim cannot be used on a node."""
        if claim.status.deallocation_requested or claim.is_deleted:
            return UnusableNode(reasons.MUST_BE_REALLOCATED, everywhere=True)
        known = self._allocated.get(claim.key) or _stored(claim)
        if not known.shared and known.users - {pod.uid}:
            return UnusableNode(reasons.IN_USE, everywhere=True)
        stored = claim.status.allocation
        here = known.node in ("", node.name)
        if stored is not None:
            here = _matches(stored.available_on_nodes, node)
        return None if here else UnusableNode(reasons.UNAVAILABLE)

    def _pool(self, node: Node) -> str:
        return "" if self._network else node.name

    def _free_on(self, node: Node) -> Sequence[FreeDevice] | None:
        pool = self._pool(node)
        if pool not in self._free and not self._network:
            expected = self._new_node(node)
            if expected is None:
                return None
            self._free[pool] = expected
        return self._free.get(pool, ())


def _stored(claim: ClassicClaim) -> _Allocated:
    allocation = claim.status.allocation
    shared = allocation is not None and allocation.shared_resource
    return _Allocated("", shared, {consumer.uid for consumer in claim.status.reserved_for})


def _matches(selector: NodeSelector | None, node: Node) -> bool:
    return selector is None or compile_selector(selector).matches(node.metadata.labels, node.name)
