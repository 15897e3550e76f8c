"""Drop the fields of features that are off: on create, and on update if the object had none.

As upstream, an object that already uses a feature keeps it, and may change its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from holdfast.api.decode import JsonObject
from holdfast.runtime.feature_gates import Feature
from holdfast.server.descriptor import AdmissionPlugin
from holdfast.server.operation import Operation

_Paths = Mapping[Feature, tuple[str, ...]]
"""Paths of fields by feature; ``[]`` is every item of a list, ``{}`` every value of a map."""


def gated_fields(paths: _Paths) -> AdmissionPlugin:
    """Return an admission plugin that drops these fields while their feature is off."""
    split = {
        feature: tuple(tuple(path.split(".")) for path in listed)
        for feature, listed in paths.items()
    }

    def mutate(op: Operation, new: JsonObject, old: JsonObject | None) -> None:
        for feature, fields in split.items():
            if op.context.feature_gates.enabled(feature):
                continue
            if old is None or not any(_holders(old, path) for path in fields):
                for path in fields:
                    for holder in _holders(new, path):
                        del holder[path[-1]]

    return AdmissionPlugin(mutate=mutate)


def _holders(obj: Any, path: tuple[str, ...]) -> list[JsonObject]:
    """Return the objects that have the field at a path.

    >>> _holders({"a": [{"b": 1}, {"c": 2}, None]}, ("a", "[]", "b"))
    [{'b': 1}]
    """
    values = [obj]
    for key in path[:-1]:
        values = [inner for value in values for inner in _inner(value, key)]
    return [value for value in values if isinstance(value, dict) and path[-1] in value]


def _inner(value: Any, key: str) -> Iterator[Any]:
    if key == "[]":
        yield from value if isinstance(value, list) else ()
    elif isinstance(value, dict):
        if key == "{}":
            yield from value.values()
        elif key in value:
            yield value[key]


def _prefixed(prefix: str, paths: _Paths) -> _Paths:
    return {feature: tuple(prefix + path for path in listed) for feature, listed in paths.items()}


def _claim(prefix: str) -> _Paths:
    requests = "devices.requests.[]."
    wanted = (f"{requests}exactly.", f"{requests}firstAvailable.[].")
    return _prefixed(
        prefix,
        {
            Feature.PRIORITIZED_LIST: (f"{requests}firstAvailable",),
            Feature.DEVICE_TAINTS: tuple(f"{path}tolerations" for path in wanted),
            Feature.CONSUMABLE_CAPACITY: (
                *(f"{path}capacity" for path in wanted),
                "devices.constraints.[].distinctAttribute",
            ),
        },
    )


def _names(prefix: str) -> Callable[..., tuple[str, ...]]:
    return lambda *names: tuple(prefix + name for name in names)


_device = _names("spec.devices.[].")
DEVICE_CLASS = gated_fields({Feature.EXTENDED_RESOURCE: ("spec.extendedResourceName",)})
RESOURCE_SLICE = gated_fields(
    {
        Feature.PARTITIONABLE_DEVICES: (
            "spec.sharedCounters",
            "spec.perDeviceNodeSelection",
            *_device("consumesCounters", "nodeName", "nodeSelector", "allNodes"),
        ),
        Feature.DEVICE_TAINTS: _device("taints"),
        Feature.BINDING_CONDITIONS: _device(
            "bindsToNode", "bindingConditions", "bindingFailureConditions"
        ),
        Feature.CONSUMABLE_CAPACITY: _device(
            "allowMultipleAllocations", "capacity.{}.requestPolicy"
        ),
        Feature.NODE_ALLOCATABLE_RESOURCES: _device("nodeAllocatableResourceMappings"),
        Feature.LIST_ATTRIBUTES: _device(
            *(f"attributes.{{}}.{kind}" for kind in ("ints", "bools", "strings", "versions"))
        ),
    }
)
_of_claim = _claim("spec.")
_result = _names("status.allocation.devices.results.[].")
RESOURCE_CLAIM = gated_fields(
    {
        **_of_claim,
        Feature.CONSUMABLE_CAPACITY: (
            *_of_claim[Feature.CONSUMABLE_CAPACITY],
            *_result("shareID", "consumedCapacity"),
            "status.devices.[].shareID",
        ),
        Feature.BINDING_CONDITIONS: _result("bindingConditions", "bindingFailureConditions"),
        Feature.DEVICE_STATUS: ("status.devices",),
    }
)
RESOURCE_CLAIM_TEMPLATE = gated_fields(_claim("spec.spec."))
_pod = _names("spec.")(
    "resourceClaims",
    *(
        f"{containers}.[].resources.claims"
        for containers in ("containers", "initContainers", "ephemeralContainers")
    ),
)
POD = gated_fields(
    {
        Feature.DYNAMIC_RESOURCE_ALLOCATION: _pod,
        Feature.EXTENDED_RESOURCE: ("status.extendedResourceClaimStatus",),
    }
)


def _template(prefix: str) -> AdmissionPlugin:
    """Return the plugin of a kind with a pod template at a path."""
    return gated_fields({Feature.DYNAMIC_RESOURCE_ALLOCATION: _names(prefix)(*_pod)})


POD_TEMPLATE = _template("template.")
WORKLOAD = _template("spec.template.")
CRON_JOB = _template("spec.jobTemplate.spec.template.")
