"""Read the settings of the controllers from the configuration of the scheduler.

This is separate from the controllers, because a process that only runs controllers needs no
plugins.
"""

from __future__ import annotations

from typing import Protocol, TypeVar, runtime_checkable

from holdfast.runtime.feature_gates import FeatureGates
from holdfast.runtime.settings import (
    ClassicClaimSettings,
    ControllerSettings,
    ReservationSettings,
    ResourcePolicySettings,
)
from holdfast.scheduling.configuration.reading import Configuration

OfOneController = ReservationSettings | ResourcePolicySettings | ClassicClaimSettings
T = TypeVar("T", ReservationSettings, ResourcePolicySettings, ClassicClaimSettings)


@runtime_checkable
class ConfiguresController(Protocol):
    """A plugin some of whose arguments are for a controller."""

    @property
    def controller_settings(self) -> OfOneController:
        """The settings of the controller."""
        ...


def controller_settings(
    configuration: Configuration, feature_gates: FeatureGates | None = None
) -> ControllerSettings:
    """Read the settings of each controller from the first profile that has its plugin."""
    plugins = [p for profile in configuration.profiles.values() for p in profile.plugins]
    given = [p.controller_settings for p in plugins if isinstance(p, ConfiguresController)]
    return ControllerSettings(
        _first(ReservationSettings, given),
        _first(ResourcePolicySettings, given),
        feature_gates or FeatureGates(),
        classic_claims=_first(ClassicClaimSettings, given),
        migration=configuration.migration,
    )


def _first(kind: type[T], given: list[OfOneController]) -> T:
    """Return the first settings of a kind, else the defaults."""
    return next((each for each in given if isinstance(each, kind)), kind())
