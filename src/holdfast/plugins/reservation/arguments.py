"""ReservationArgs, as the reference has them, and one of our own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.api.resource_names import is_extended
from holdfast.errors import NotBuilt
from holdfast.framework.arguments import Arguments

_AT_LEAST_NOTHING = (
    "minCandidateNodesAbsolute", "controllerWorkers", "gcDurationSeconds", "gcIntervalSeconds",
    "resyncIntervalSeconds",
)  # fmt: skip
_KNOWN = (
    "enablePreemption", "minCandidateNodesPercentage", *_AT_LEAST_NOTHING,
    "disableGarbageCollection", "preAllocationConfig", "ignoredResources",
    "ignoredResourceGroups", "reservationSelectorIndex", "fallBackToNode",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReservationArgs:
    """The arguments that matter to deciding; the others are the controller's.

    ``falls_back``: an owner that insists on no reservation and fits in none of its own may still
    run on what nobody holds (``fallBackToNode``).
    """

    falls_back: bool = False
    ignored: frozenset[str] = frozenset()
    ignored_groups: frozenset[str] = frozenset()

    def ignores(self, resource: str) -> bool:
        """Whether reservations are not asked about a resource."""
        group = resource.split("/", maxsplit=1)[0]
        return resource in self.ignored or ("/" in resource and group in self.ignored_groups)


def read_args(given: Mapping[str, Any]) -> ReservationArgs:
    """Read the arguments; BadConfiguration names every wrong field."""
    args = Arguments("Reservation", given, _KNOWN)
    if not 0 <= args.get("minCandidateNodesPercentage", 10) <= 100:
        args.wrong("minCandidateNodesPercentage", "not in valid range [0, 100]")
    for name in _AT_LEAST_NOTHING:
        if args.get(name, 0) < 0:
            args.wrong(name, "not in valid range [0, inf)")
    for i, name in enumerate(args.get("ignoredResources", ())):
        if not is_extended(name):
            args.wrong(f"ignoredResources[{i}]", f"{name!r} is not an extended resource")
    for i, group in enumerate(args.get("ignoredResourceGroups", ())):
        if "/" in group or group == "kubernetes.io":
            args.wrong(f"ignoredResourceGroups[{i}]", f"{group!r} is not a group of resources")
    args.refuse_if_wrong()
    if args.get("enablePreemption", False):
        raise NotBuilt("enablePreemption: preemption by reservations is not built; leave it out")
    return ReservationArgs(
        bool(args.get("fallBackToNode", False)),
        frozenset(args.get("ignoredResources", ())),
        frozenset(args.get("ignoredResourceGroups", ())),
    )
