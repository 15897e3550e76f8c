"""Calculate the next number of replicas of each ReplicaSet of a Deployment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.api.workloads import Deployment, ReplicaSet, resolve_int_or_percent

DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"
_QUARTER = "25%"

Sizes = dict[str, int]


@dataclass(frozen=True, slots=True)
class ReplicaBounds:
    """The replicas of a Deployment and the limits of its rolling update."""

    replicas: int
    max_surge: int
    max_unavailable: int
    rolling: bool

    @property
    def max_replicas(self) -> int:
        """The maximum number of replicas in total."""
        return self.replicas + self.max_surge

    @property
    def min_available(self) -> int:
        """The minimum number of available replicas."""
        return self.replicas - self.max_unavailable

    @classmethod
    def of(cls, deployment: Deployment) -> ReplicaBounds:
        """Return the bounds of a Deployment; maxSurge is rounded up, maxUnavailable down."""
        replicas = deployment.spec.replicas
        if deployment.spec.strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return cls(replicas, 0, 0, rolling=False)
        limits: Mapping[str, Any] = deployment.spec.strategy.get("rollingUpdate") or {}
        surge = resolve_int_or_percent(limits.get("maxSurge", _QUARTER), replicas, up=True)
        unavailable = resolve_int_or_percent(
            limits.get("maxUnavailable", _QUARTER), replicas, up=False
        )
        if surge == 0 and unavailable == 0:
            unavailable = 1  # otherwise no step would be possible
        return cls(replicas, surge, min(unavailable, replicas), rolling=True)


def new_replicaset_size(bounds: ReplicaBounds, total: int, current: int) -> int:
    """Return the size up to which the new ReplicaSet may grow; ``total`` counts all replicas."""
    if not bounds.rolling:
        return bounds.replicas
    room = bounds.max_replicas - total
    return current + min(room, bounds.replicas - current) if room > 0 else current


def next_rolling_sizes(bounds: ReplicaBounds, new: ReplicaSet, old: Iterable[ReplicaSet]) -> Sizes:
    """Return the next step of a rolling update: grow the new ReplicaSet, else shrink old ones."""
    old = sorted(old, key=_age)
    total = new.spec.replicas + _sum(old)
    current = new.spec.replicas
    if current > bounds.replicas:
        return {new.name: bounds.replicas}
    if (
        current < bounds.replicas
        and (size := new_replicaset_size(bounds, total, current)) != current
    ):
        return {new.name: size}
    return _shrink(bounds, new, old, total)


def _shrink(bounds: ReplicaBounds, new: ReplicaSet, old: list[ReplicaSet], total: int) -> Sizes:
    """Scale old ReplicaSets down, unavailable replicas first, keeping ``min_available``."""
    not_yet = new.spec.replicas - new.status.available_replicas
    spare = total - bounds.min_available - not_yet
    if spare <= 0:
        return {}
    sizes = {each.name: each.spec.replicas for each in old}
    for each in old:
        unavailable = max(0, each.spec.replicas - each.status.available_replicas)
        drop = min(spare, unavailable)
        sizes[each.name] -= drop
        spare -= drop
    # Replicas above the spec are being deleted, even if a stale status still counts them.
    available = sum(min(r.spec.replicas, r.status.available_replicas) for r in (new, *old))
    spare = available - bounds.min_available
    for each in old:
        drop = max(0, min(spare, sizes[each.name]))
        sizes[each.name] -= drop
        spare -= drop
    return {each.name: sizes[each.name] for each in old if sizes[each.name] != each.spec.replicas}


def proportional_sizes(
    bounds: ReplicaBounds, new: ReplicaSet | None, old: Iterable[ReplicaSet], previous_replicas: int
) -> Sizes:
    """Distribute a changed number of replicas over all ReplicaSets in proportion to their sizes.

    ``previous_replicas`` is used for ReplicaSets without the max-replicas annotation.
    """
    old = list(old)
    replicasets = [r for r in (*old, new) if r is not None]
    active = [r for r in replicasets if r.spec.replicas > 0]
    if len(active) <= 1:
        only = active[0] if active else new or max(old, key=_age, default=None)
        return {only.name: bounds.replicas} if only else {}
    if new is not None and _saturated(bounds, new):
        return {r.name: 0 for r in old if r.spec.replicas > 0}
    return _proportional(bounds, active, previous_replicas) if bounds.rolling else {}


def _proportional(bounds: ReplicaBounds, active: list[ReplicaSet], previous_replicas: int) -> Sizes:
    allowed = bounds.max_replicas if bounds.replicas > 0 else 0
    to_add = allowed - _sum(active)
    if to_add > 0:  # the larger first, then the newer
        active = sorted(sorted(active, key=_age, reverse=True), key=_size, reverse=True)
    else:  # the larger first, then the older
        active = sorted(sorted(active, key=_age), key=_size, reverse=True)
    sizes, added = {}, 0
    for each in active:
        share = _share(bounds, each, previous_replicas) if to_add else 0
        left = to_add - added
        share = min(share, left) if to_add > 0 else max(share, left)
        sizes[each.name] = each.spec.replicas + share
        added += share
    largest = active[0].name
    sizes[largest] = max(0, sizes[largest] + to_add - added)
    return sizes


def _share(bounds: ReplicaBounds, replicaset: ReplicaSet, previous_replicas: int) -> int:
    if bounds.replicas == 0:
        return -replicaset.spec.replicas
    before = _number(replicaset.metadata.annotations.get(MAXIMUM)) or previous_replicas
    if not before:
        return 0
    exact = replicaset.spec.replicas * bounds.max_replicas / before
    return int(exact + 0.5) - replicaset.spec.replicas


def is_scaling_event(bounds: ReplicaBounds, replicasets: Iterable[ReplicaSet]) -> bool:
    """Return whether the number of replicas changed since the ReplicaSets were sized."""
    return any(
        desired != bounds.replicas
        for r in replicasets
        if r.spec.replicas > 0
        and (desired := _number(r.metadata.annotations.get(DESIRED))) is not None
    )


def _saturated(bounds: ReplicaBounds, new: ReplicaSet) -> bool:
    desired = _number(new.metadata.annotations.get(DESIRED))
    return new.spec.replicas == desired == new.status.available_replicas == bounds.replicas


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def _sum(replicasets: Iterable[ReplicaSet]) -> int:
    return sum(r.spec.replicas for r in replicasets)


def _size(replicaset: ReplicaSet) -> int:
    return replicaset.spec.replicas


def _age(replicaset: ReplicaSet) -> tuple[str, str]:
    return (replicaset.metadata.creation_timestamp or "", replicaset.name)
