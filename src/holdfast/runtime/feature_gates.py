"""Feature gates: names and defaults of Kubernetes, and the parser of ``--feature-gates``.

Gates of features that Holdfast does not have are unknown, so that no gate is set without effect.
Defaults are those of v1.36; ``Gate.ga_since`` says what is GA in later releases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum

from holdfast.runtime.errors import BadRequest, Refused


class Feature(StrEnum):
    """The features with a gate."""

    DYNAMIC_RESOURCE_ALLOCATION = "DynamicResourceAllocation"
    ADMIN_ACCESS = "DRAAdminAccess"
    CONSUMABLE_CAPACITY = "DRAConsumableCapacity"
    BINDING_CONDITIONS = "DRADeviceBindingConditions"
    DEVICE_TAINT_RULES = "DRADeviceTaintRules"
    DEVICE_TAINTS = "DRADeviceTaints"
    EXTENDED_RESOURCE = "DRAExtendedResource"
    LIST_ATTRIBUTES = "DRAListTypeAttributes"
    NODE_ALLOCATABLE_RESOURCES = "DRANodeAllocatableResources"
    PARTITIONABLE_DEVICES = "DRAPartitionableDevices"
    PRIORITIZED_LIST = "DRAPrioritizedList"
    DEVICE_STATUS = "DRAResourceClaimDeviceStatus"
    GRANULAR_STATUS_AUTHORIZATION = "DRAResourceClaimGranularStatusAuthorization"
    FILTER_TIMEOUT = "DRASchedulerFilterTimeout"
    POD_DEVICE_RESOURCE = "ValidatePodDeviceResource"


Release = tuple[int, int]
"""A minor release of Kubernetes: ``(1, 36)`` is v1.36."""
OLDEST: Release = (1, 36)
NEWEST: Release = (1, 37)
"""The releases whose defaults are known; later ones get those of the newest."""


class Stage(Enum):
    """The maturity of a feature; alpha features are off unless a gate says otherwise."""

    ALPHA = "AllAlpha"
    BETA = "AllBeta"
    GA = "GA"


@dataclass(frozen=True, slots=True)
class Gate:
    """Stage and default of a feature, and the features without which it is off."""

    stage: Stage
    default: bool = True
    requires: tuple[Feature, ...] = (Feature.DYNAMIC_RESOURCE_ALLOCATION,)
    locked: bool = False
    """Whether the gate cannot be set: the feature is always on here, or not built."""
    ga_since: Release | None = None
    """The first release in which the feature is GA and on; None: stage and default never change."""

    def in_release(self, release: Release) -> tuple[Stage, bool]:
        """Return stage and default in a release."""
        if self.ga_since is not None and release >= self.ga_since:
            return Stage.GA, True
        return self.stage, self.default


GATES: Mapping[Feature, Gate] = {
    # Upstream has locked this gate; here it can be set, so that a cluster can run without devices.
    Feature.DYNAMIC_RESOURCE_ALLOCATION: Gate(Stage.GA, requires=()),
    Feature.ADMIN_ACCESS: Gate(Stage.GA, locked=True),
    Feature.CONSUMABLE_CAPACITY: Gate(Stage.BETA),
    Feature.BINDING_CONDITIONS: Gate(
        Stage.BETA, requires=(Feature.DYNAMIC_RESOURCE_ALLOCATION, Feature.DEVICE_STATUS)
    ),
    Feature.DEVICE_TAINT_RULES: Gate(Stage.BETA, False, (Feature.DEVICE_TAINTS,), ga_since=(1, 37)),
    Feature.DEVICE_TAINTS: Gate(Stage.BETA),
    Feature.EXTENDED_RESOURCE: Gate(Stage.BETA),
    Feature.LIST_ATTRIBUTES: Gate(Stage.ALPHA, False),
    Feature.NODE_ALLOCATABLE_RESOURCES: Gate(Stage.ALPHA, False, locked=True),
    Feature.PARTITIONABLE_DEVICES: Gate(Stage.BETA),
    Feature.PRIORITIZED_LIST: Gate(Stage.GA),
    Feature.DEVICE_STATUS: Gate(Stage.BETA, requires=()),
    Feature.GRANULAR_STATUS_AUTHORIZATION: Gate(
        Stage.BETA,
        requires=(Feature.DYNAMIC_RESOURCE_ALLOCATION, Feature.DEVICE_STATUS),
    ),
    Feature.FILTER_TIMEOUT: Gate(Stage.BETA),
    # A gate of Koordinator's webhook.
    Feature.POD_DEVICE_RESOURCE: Gate(Stage.ALPHA, False, ()),
}
_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:[.+-].*)?")
_STAGES = {stage.value: stage for stage in (Stage.ALPHA, Stage.BETA)}
_BOOLS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
"""The values that Go reads as a bool."""


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """Which features are on: the defaults, and the gates that were set."""

    chosen: Mapping[str, bool] = field(default_factory=dict)
    """The gates that were set, by name; also ``AllAlpha`` and ``AllBeta``."""
    release: Release | None = None
    """The release that sets the defaults of all other gates; None: unknown, as ``OLDEST``."""

    def of_release(self, release: Release) -> FeatureGates:
        """Return the gates of a cluster that runs another release."""
        return replace(self, release=release)

    def enabled(self, feature: Feature) -> bool:
        """Return whether a feature is on; it is off if one that it requires is off."""
        return self._set_on(feature) and not any(self._disabled_requirements(feature))

    def _set_on(self, feature: Feature) -> bool:
        gate = GATES[feature]
        stage, default = gate.in_release(self.release or OLDEST)
        for name in (feature.value, stage.value):
            if name in self.chosen and not gate.locked:
                return self.chosen[name]
        return default

    def _disabled_requirements(self, feature: Feature) -> Iterator[Feature]:
        return (other for other in GATES[feature].requires if not self.enabled(other))

    @classmethod
    def parse(cls, text: str) -> FeatureGates:
        """Parse ``Name=bool,Name=bool``; raise Refused with the names of wrong gates.

        >>> gates = FeatureGates.parse("DRADeviceTaintRules=true")
        >>> gates.enabled(Feature.DEVICE_TAINT_RULES), str(gates)
        (True, 'DRADeviceTaintRules=true')
        """
        chosen: dict[str, bool] = {}
        problems: list[str] = []
        for pair in filter(None, (part.strip() for part in text.split(","))):
            name, equals, value = (part.strip() for part in pair.partition("="))
            problem = _problem(name, value, has_value=bool(equals))
            if problem:
                problems.append(problem)
            else:
                chosen[name] = _BOOLS[value]
        gates = cls(chosen)
        problems += gates._conflicts()
        if problems:
            raise Refused(f"--feature-gates: {'; '.join(problems)}")
        return gates

    @classmethod
    def parse_known(cls, text: str) -> tuple[FeatureGates, list[str]]:
        """Return the gates of a cluster of another release, and those that are unknown here.

        >>> gates, unknown = FeatureGates.parse_known("DRADeviceTaintRules=true,New=true")
        >>> str(gates), unknown
        ('DRADeviceTaintRules=true', ['New=true'])
        """
        chosen: dict[str, bool] = {}
        unknown: list[str] = []
        for pair in filter(None, (part.strip() for part in text.split(","))):
            name, equals, value = (part.strip() for part in pair.partition("="))
            if _problem(name, value, has_value=bool(equals)):
                unknown.append(pair)
            else:
                chosen[name] = _BOOLS[value]
        return cls(chosen), unknown

    def _conflicts(self) -> Iterator[str]:
        for feature in GATES:
            if self.chosen.get(feature.value) and (
                disabled := sorted(self._disabled_requirements(feature))
            ):
                yield (
                    f"{feature} is enabled, but depends on features that are disabled: "
                    f"[{' '.join(disabled)}]"
                )

    def __str__(self) -> str:
        return ",".join(f"{name}={str(on).lower()}" for name, on in sorted(self.chosen.items()))


def parse_release(text: str) -> Release:
    """Return the release in a version; raise BadRequest if it is not a version.

    >>> parse_release("1.37"), parse_release("v1.36.2+k3s1")
    ((1, 37), (1, 36))
    """
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise BadRequest(f"{text[:40]!r} is not a release of Kubernetes: write it as 1.37")
    return int(match[1]), int(match[2])


def _problem(name: str, value: str, *, has_value: bool) -> str:
    """Return what is wrong with one gate, or ""."""
    if not has_value:
        return f"missing bool value for {name}"
    if value not in _BOOLS:
        return f"invalid value of {name}={value}: it must be true or false"
    if name in _STAGES:
        return ""
    if name not in set(Feature):
        known = ", ".join(sorted((*Feature, *_STAGES)))
        return f"unrecognized feature gate: {name} (known: {known})"
    gate = GATES[Feature(name)]
    if gate.locked and _BOOLS[value] != gate.default:
        word = str(gate.default).lower()
        return f"cannot set feature gate {name} to {value}, feature is locked to {word}"
    return ""
