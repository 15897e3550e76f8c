"""NodeResourceTopology (topology.node.k8s.io/v1alpha1): the NUMA nodes and CPUs of a node."""

from __future__ import annotations

from holdfast.api.meta import Object, Struct


class ZoneResource(Struct, frozen=True):
    """The amount of a resource in a zone."""

    name: str = ""
    capacity: str = "0"
    allocatable: str = "0"
    available: str = "0"


class Zone(Struct, frozen=True):
    """A part of a node; one of type ``Node`` and name ``node-<int>`` is a NUMA node."""

    name: str = ""
    type: str = ""
    resources: tuple[ZoneResource, ...] = ()


class NodeResourceTopology(Object, frozen=True):
    """The topology of the node with the same name; annotations list its CPUs."""

    topology_policies: tuple[str, ...] = ()
    zones: tuple[Zone, ...] = ()
