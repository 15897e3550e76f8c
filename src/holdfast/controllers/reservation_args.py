"""What of the Reservation plugin's arguments concerns the controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.errors import BadConfiguration
from holdfast.settings import ReservationSettings


def read_settings(args: Mapping[str, Any]) -> ReservationSettings:
    """Read a ReservationArgs (``pluginConfig[].args``); 0 means the default.

    ``resyncIntervalSeconds`` is accepted and has no effect: metrics are made when asked for.

    >>> read_settings({"gcDurationSeconds": 7200, "gcIntervalSeconds": 0})
    ReservationSettings(workers=1, collect=True, keep_ended=7200, collect_every=60.0)
    """
    default = ReservationSettings()
    return ReservationSettings(
        workers=_count(args, "controllerWorkers") or default.workers,
        collect=not args.get("disableGarbageCollection"),
        keep_ended=_count(args, "gcDurationSeconds") or default.keep_ended,
        collect_every=_count(args, "gcIntervalSeconds") or default.collect_every,
    )


def _count(args: Mapping[str, Any], name: str) -> int:
    value = args.get(name) or 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadConfiguration(f"{name}: {value!r} must be a whole number, 0 or more")
    return value
