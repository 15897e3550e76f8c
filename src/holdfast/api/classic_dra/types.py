"""The kinds of classic DRA (KEP-3063): claims that drivers allocate, classes and negotiation.

Their Python names have ``Classic`` where ``resource.k8s.io`` has a kind of the same name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from holdfast.api.classic_dra.claim_sources import ClassicClaimSpec, ParametersReference
from holdfast.api.classic_dra.names import IMMEDIATE, KEP_GROUP, VERSION
from holdfast.api.devices import ClaimConsumer
from holdfast.api.meta import Object, Struct
from holdfast.api.pod import NodeSelector
from holdfast.api.resource import Resource


class ClassicClass(Object, frozen=True):
    """A ResourceClass: the driver that allocates claims of the class, and its parameters."""

    driver_name: str = ""
    parameters_ref: ParametersReference | None = None
    suitable_nodes: NodeSelector | None = None
    """Nodes on which claims can be allocated; None: all."""


class ClassicAllocation(Struct, frozen=True):
    """The allocation by a driver; ``resource_handle`` is data for its node part."""

    resource_handle: str = ""
    available_on_nodes: NodeSelector | None = None
    """Nodes that can use it; None: all."""
    shared_resource: bool = False
    """Whether several consumers may use it at a time."""


class ClassicClaimStatus(Struct, frozen=True):
    """The allocation of a claim and its consumers."""

    driver_name: str = ""
    allocation: ClassicAllocation | None = None
    deallocation_requested: bool = False
    reserved_for: tuple[ClaimConsumer, ...] = ()


class ClassicClaim(Object, frozen=True):
    """A ResourceClaim that a resource driver allocates."""

    spec: ClassicClaimSpec = ClassicClaimSpec()
    status: ClassicClaimStatus = ClassicClaimStatus()

    @property
    def is_immediate(self) -> bool:
        """Whether it is allocated at once, not when a pod needs it."""
        return self.spec.allocation_mode == IMMEDIATE

    @property
    def is_allocated(self) -> bool:
        """Whether a driver has allocated it, even if it is to be deallocated."""
        return self.status.allocation is not None

    @property
    def is_deleted(self) -> bool:
        """Whether it is being deleted; a finalizer keeps it."""
        return self.metadata.deletion_timestamp is not None

    def is_reserved_for(self, uid: str) -> bool:
        """Return whether an object may use the claim, by uid."""
        return any(consumer.uid == uid for consumer in self.status.reserved_for)


class PodSchedulingSpec(Struct, frozen=True):
    """The scheduler's question to drivers."""

    selected_node: str = ""
    """The node for which drivers must allocate the pod's claims."""
    potential_nodes: tuple[str, ...] = ()


class PodClaimNodes(Struct, frozen=True):
    """A driver's answer about a claim of the pod."""

    pod_resource_claim_name: str = ""
    """Name of the entry in the pod's spec."""
    unsuitable_nodes: tuple[str, ...] = ()


class PodSchedulingStatus(Struct, frozen=True):
    """The answers of the drivers."""

    claims: tuple[PodClaimNodes, ...] = ()


class PodScheduling(Object, frozen=True):
    """The negotiation between scheduler and drivers about the pod of the same name."""

    spec: PodSchedulingSpec = PodSchedulingSpec()
    status: PodSchedulingStatus = PodSchedulingStatus()


@dataclass(frozen=True, slots=True)
class ClassicResources:
    """The resources of classic DRA in one group."""

    classes: Resource[ClassicClass]
    claims: Resource[ClassicClaim]
    pod_scheduling: Resource[PodScheduling]

    @property
    def all(self) -> tuple[Resource[Any], ...]:
        """All of them."""
        return self.classes, self.claims, self.pod_scheduling


@cache
def classic_resources(group: str = KEP_GROUP) -> ClassicResources:
    """Return the resources of classic DRA in a group: the KEP's group, or that of the CRDs."""
    return ClassicResources(
        Resource(
            group,
            VERSION,
            "resourceclasses",
            "ResourceClass",
            ClassicClass,
            namespaced=False,
            short_names=("cclass",),
            categories=("classic-dra",),
        ),
        Resource(
            group,
            VERSION,
            "resourceclaims",
            "ResourceClaim",
            ClassicClaim,
            short_names=("cclaim",),
            categories=("classic-dra",),
            subresources=("status",),
        ),
        Resource(
            group,
            VERSION,
            "podschedulings",
            "PodScheduling",
            PodScheduling,
            short_names=("psched",),
            categories=("classic-dra",),
            subresources=("status",),
        ),
    )
