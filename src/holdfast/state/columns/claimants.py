"""The order of pods that claim the same resource with an identity, such as a CPU or a device."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.api.reservation_names import IGNORED
from holdfast.state.columns.pod_info import PodInfo

Rank = tuple[bool, str, str, str]


class Claimant(NamedTuple):
    """The rank of a pod: how early it was scheduled, and whether it ignores reservations."""

    rank: Rank = (True, "", "", "")
    """Of two claimants the one with the lower rank has the resource."""
    ignores_reservations: bool = False


LATEST = Claimant()
"""A pod that is not bound yet: all bound ones are earlier."""


def assumed_claimant(pod: PodInfo) -> Claimant:
    """Return the claimant for a pod that is not bound yet."""
    return Claimant(ignores_reservations=pod.labels.get(IGNORED) == "true")


def claimant_of(pod: PodInfo, known: Claimant | None = None) -> Claimant:
    """Return the rank of a pod: when it was scheduled, else created, then its uid.

    It is the same in every process. ``known``: what was read of an earlier version. A label that is
    written later changes nothing.
    """
    meta, ignores = pod.pod.metadata, pod.labels.get(IGNORED) == "true"
    when = ""
    for condition in pod.pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "True":
            when = condition.last_transition_time or ""
    rank = (not when, when, meta.creation_timestamp or "", pod.uid)
    return Claimant(rank, ignores if known is None else known.ignores_reservations)
