"""Read the settings of the controllers from the configuration of the scheduler.

Apart from the controllers, because a process that only runs controllers needs no plugins.
"""

from __future__ import annotations

from holdfast.runtime.feature_gates import FeatureGates
from holdfast.runtime.settings import (
    ClassicClaimSettings,
    ControllerSettings,
    ReservationSettings,
    ResourcePolicySettings,
)
from holdfast.scheduling.configuration.reading import Configuration
from holdfast.scheduling.plugins.classic_dynamic_resources import ClassicDynamicResources
from holdfast.scheduling.plugins.reservation import ReservationPlugin
from holdfast.scheduling.plugins.reservation.arguments import ReservationArgs
from holdfast.scheduling.plugins.resource_policy import ResourcePolicyPlugin


def controller_settings(
    configuration: Configuration, feature_gates: FeatureGates | None = None
) -> ControllerSettings:
    """Read the settings of each controller from the first profile that has its plugin."""
    plugins = [p for profile in configuration.profiles.values() for p in profile.plugins]
    reservation = next((p for p in plugins if isinstance(p, ReservationPlugin)), None)
    policy = next((p for p in plugins if isinstance(p, ResourcePolicyPlugin)), None)
    classic = next((p for p in plugins if isinstance(p, ClassicDynamicResources)), None)
    return ControllerSettings(
        reservation_settings(ReservationArgs() if reservation is None else reservation.args),
        ResourcePolicySettings(policy is not None and policy.args.drain_excess),
        feature_gates or FeatureGates(),
        classic_claims=ClassicClaimSettings(classic is not None and classic.args.deallocate_unused),
        migration=configuration.migration,
    )


def reservation_settings(args: ReservationArgs) -> ReservationSettings:
    """Read the settings from the plugin's arguments; 0 means the default.

    ``resyncIntervalSeconds`` has no effect: metrics are computed when they are scraped.

    >>> reservation_settings(ReservationArgs(gc_duration_seconds=7200, gc_interval_seconds=0))
    ReservationSettings(workers=1, gc_enabled=True, gc_after_seconds=7200, gc_interval_seconds=60.0)
    """
    default = ReservationSettings()
    return ReservationSettings(
        workers=args.controller_workers or default.workers,
        gc_enabled=not args.disable_garbage_collection,
        gc_after_seconds=args.gc_duration_seconds or default.gc_after_seconds,
        gc_interval_seconds=args.gc_interval_seconds or default.gc_interval_seconds,
    )
