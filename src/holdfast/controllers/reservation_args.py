"""What of the Reservation plugin's arguments concerns the controller."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.engine.profile import Profile
from holdfast.plugins.reservation.arguments import ReservationArgs
from holdfast.settings import ReservationSettings

PLUGIN = "Reservation"


def settings_of(profiles: Iterable[Profile]) -> ReservationSettings:
    """Take the controller's settings from the first profile that has the plugin."""
    for profile in profiles:
        for plugin in profile.plugins:
            if plugin.name == PLUGIN:
                return chosen(plugin.args)
    return ReservationSettings()


def chosen(args: ReservationArgs) -> ReservationSettings:
    """Read the settings off the arguments; 0 means the default.

    ``resyncIntervalSeconds`` has no effect: metrics are made when they are asked for.

    >>> chosen(ReservationArgs(gc_duration_seconds=7200, gc_interval_seconds=0))
    ReservationSettings(workers=1, collect=True, keep_ended=7200, collect_every=60.0)
    """
    default = ReservationSettings()
    return ReservationSettings(
        workers=args.controller_workers or default.workers,
        collect=not args.disable_garbage_collection,
        keep_ended=args.gc_duration_seconds or default.keep_ended,
        collect_every=args.gc_interval_seconds or default.collect_every,
    )
