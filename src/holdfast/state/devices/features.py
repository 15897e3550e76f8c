"""The feature gates of device allocation."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.runtime.feature_gates import Feature, FeatureGates


@dataclass(frozen=True, slots=True)
class Features:
    """The features that an allocation depends on, with the defaults of v1.36."""

    admin_access: bool = True
    prioritized_list: bool = True
    partitionable_devices: bool = True
    device_taints: bool = True
    binding_conditions: bool = True
    consumable_capacity: bool = True
    list_attributes: bool = False
    extended_resource: bool = True
    filter_timeout: bool = True

    @classmethod
    def of(cls, gates: FeatureGates) -> Features:
        """Return the features of feature gates."""
        on = gates.enabled
        return cls(
            admin_access=on(Feature.ADMIN_ACCESS),
            prioritized_list=on(Feature.PRIORITIZED_LIST),
            partitionable_devices=on(Feature.PARTITIONABLE_DEVICES),
            device_taints=on(Feature.DEVICE_TAINTS),
            binding_conditions=on(Feature.BINDING_CONDITIONS),
            consumable_capacity=on(Feature.CONSUMABLE_CAPACITY),
            list_attributes=on(Feature.LIST_ATTRIBUTES),
            extended_resource=on(Feature.EXTENDED_RESOURCE),
            filter_timeout=on(Feature.FILTER_TIMEOUT),
        )
