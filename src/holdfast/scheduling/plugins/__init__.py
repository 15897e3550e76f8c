"""The plugins, one file or folder each, and their registry.

Lives here: the standard plugins by their upstream names. May not live here: code that two plugins
share, which belongs to ``columns``, ``capacity``, ``devices``, ``framework`` or, for preemption,
``engine`` (plugins do not import each other), I/O, clocks.

``REGISTRY`` lists all plugins; its order and weights are the defaults.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.scheduling.engine.profile import PluginEntry, Profile, build_profile
from holdfast.scheduling.framework.arguments import Args
from holdfast.scheduling.plugins.balanced_allocation import BalancedAllocation
from holdfast.scheduling.plugins.classic_dynamic_resources import ClassicDynamicResources
from holdfast.scheduling.plugins.default_binder import DefaultBinder
from holdfast.scheduling.plugins.default_preemption import DefaultPreemption
from holdfast.scheduling.plugins.device_share import DeviceShare
from holdfast.scheduling.plugins.dynamic_resources import DynamicResources
from holdfast.scheduling.plugins.image_locality import ImageLocality
from holdfast.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from holdfast.scheduling.plugins.node_affinity import NodeAffinityPlugin
from holdfast.scheduling.plugins.node_declared_features import NodeDeclaredFeatures
from holdfast.scheduling.plugins.node_name import NodeName
from holdfast.scheduling.plugins.node_numa_resource import NodeNUMAResource
from holdfast.scheduling.plugins.node_ports import NodePorts
from holdfast.scheduling.plugins.node_resources_fit import NodeResourcesFit
from holdfast.scheduling.plugins.node_unschedulable import NodeUnschedulable
from holdfast.scheduling.plugins.node_volume_limits import NodeVolumeLimits
from holdfast.scheduling.plugins.pod_topology_spread import PodTopologySpread
from holdfast.scheduling.plugins.priority_sort import PrioritySort
from holdfast.scheduling.plugins.reservation import ReservationPlugin
from holdfast.scheduling.plugins.resource_policy import ResourcePolicyPlugin
from holdfast.scheduling.plugins.scheduling_gates import SchedulingGates
from holdfast.scheduling.plugins.taint_toleration import TaintToleration
from holdfast.scheduling.plugins.volume_binding import VolumeBinding
from holdfast.scheduling.plugins.volume_restrictions import VolumeRestrictions
from holdfast.scheduling.plugins.volume_zone import VolumeZone

REGISTRY: tuple[PluginEntry, ...] = (
    PluginEntry(SchedulingGates, "SchedulingGates"),
    PluginEntry(PrioritySort, "PrioritySort"),
    PluginEntry(NodeUnschedulable, "NodeUnschedulable"),
    PluginEntry(NodeName, "NodeName"),
    PluginEntry(TaintToleration, "TaintToleration", weight=3),
    PluginEntry(NodeAffinityPlugin, "NodeAffinity", weight=2),
    PluginEntry(NodePorts, "NodePorts"),
    PluginEntry(NodeResourcesFit, "NodeResourcesFit"),
    # Before VolumeBinding and DynamicResources: these write nothing while drivers are asked.
    PluginEntry(ClassicDynamicResources, "ClassicDynamicResources"),
    PluginEntry(VolumeRestrictions, "VolumeRestrictions"),
    PluginEntry(NodeVolumeLimits, "NodeVolumeLimits"),
    PluginEntry(VolumeBinding, "VolumeBinding"),
    PluginEntry(VolumeZone, "VolumeZone"),
    PluginEntry(PodTopologySpread, "PodTopologySpread", weight=2),
    PluginEntry(InterPodAffinity, "InterPodAffinity", weight=2),
    PluginEntry(DynamicResources, "DynamicResources", weight=2),
    PluginEntry(DefaultPreemption, "DefaultPreemption"),
    PluginEntry(BalancedAllocation, "NodeResourcesBalancedAllocation"),
    PluginEntry(ImageLocality, "ImageLocality"),
    PluginEntry(DefaultBinder, "DefaultBinder"),
    PluginEntry(NodeDeclaredFeatures, "NodeDeclaredFeatures"),
    PluginEntry(ReservationPlugin, "Reservation", weight=5000),
    # After Reservation, which nominates the reservation that the others allocate from.
    PluginEntry(NodeNUMAResource, "NodeNUMAResource"),
    # After Reservation, which nominates the reservation whose devices a pod gets.
    PluginEntry(DeviceShare, "DeviceShare"),
    PluginEntry(ResourcePolicyPlugin, "resourcepolicy"),
)

PROFILE_NAMES = ("default-scheduler", "koord-scheduler")


def default_profiles(args: Mapping[str, Args] | None = None) -> dict[str, Profile]:
    """Return the two profiles of a scheduler without a configuration; ``args`` by plugin name."""
    return {name: build_profile(name, REGISTRY, args=args) for name in PROFILE_NAMES}


__all__ = ["PROFILE_NAMES", "REGISTRY", "default_profiles"]
