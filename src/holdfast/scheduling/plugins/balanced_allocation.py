"""NodeResourcesBalancedAllocation: prefer nodes whose cpu and memory are used evenly.

The balance of a node *without* the pod is the same for all pods, so it is one derived column and
not computed by each class. It is computed each time only where devices provide a resource, because
their use is not in the node's amounts.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from holdfast.api.field_errors import duplicate, invalid
from holdfast.api.resource_names import is_scalar
from holdfast.scheduling.framework.arguments import Arguments, PluginArgs
from holdfast.scheduling.framework.plugin import (
    AnyRows,
    NodeScorer,
    Plugin,
    RawScores,
    Rows,
    Scope,
    Skip,
    Traits,
)
from holdfast.scheduling.framework.view import View
from holdfast.state.columns.amounts import NodeAmounts
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.interner import CPU, MEMORY
from holdfast.state.columns.journal import DerivedColumn
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.devices.device_counts import DeviceBackedResource
from holdfast.state.reservations.reserved_resources import ReservedForPod

ResourceTerms = tuple[tuple[int, int], ...]
"""(resource id, amount the pod requests)."""
_USUAL = ("cpu", "memory")
_BOTH_FIFTIES = 150.0
"""A score is 50 + (50 + gained balance) / 2: the two fifties in one number."""


@dataclass(frozen=True, slots=True)
class BalanceScorer(NodeScorer):
    """Score how much more balanced a node becomes with the pod."""

    nodes: NodeTable
    terms: ResourceTerms
    before: DerivedColumn | None
    """150 minus the balance without the pod. The score is half the sum of this and the balance with
    the pod. None where devices provide some of the resources, which are in ``served``."""
    served: Mapping[int, DeviceBackedResource]
    reserved_for_pod: ReservedForPod | None
    """What reservations hold for the pod; it does not count as requested."""

    @property
    def nothing(self) -> ResourceTerms:
        """The terms of a pod without requests."""
        return tuple((id_, 0) for id_, _ in self.terms)

    def score(self, rows: AnyRows) -> RawScores:
        """Score 75 for no change, up to 100 if the balance improves, down to 50 if not."""
        score = self._by_requests(rows)
        if self.reserved_for_pod is not None:
            positions, mine = self.reserved_for_pod.among(rows)
            if len(mine):
                score[positions] = self._less_held(self.reserved_for_pod, mine)
        score *= 0.5
        return np.floor(score, out=score)

    def _by_requests(self, rows: AnyRows) -> RawScores:
        amounts, before = self.nodes.amounts, self.before
        score: RawScores
        if before is None:
            score = balance_with_devices(amounts, self.terms, self.served, rows)
            score += _BOTH_FIFTIES - balance_with_devices(amounts, self.nothing, self.served, rows)
        else:
            before.refresh(self.nodes.size)
            score = balance(amounts, self.terms, rows)
            score += before.values[rows]
        return score

    def _less_held(self, reserved_for_pod: ReservedForPod, rows: Rows) -> RawScores:
        less = {id_: reserved_for_pod.many(id_, rows) for id_, _ in self.terms}
        with_pod, without = (
            balance_with_devices(self.nodes.amounts, [(i, a - less[i]) for i, a in terms],
                            self.served, rows)
            for terms in (self.terms, self.nothing)
        )  # fmt: skip
        score: RawScores = with_pod + (_BOTH_FIFTIES - without)
        return score

    def score_row(self, row: int) -> float:
        """Return the score of one row."""
        amounts, before = self.nodes.amounts, self.before
        if self.reserved_for_pod is not None and (less := self.reserved_for_pod.at(row)):
            with_pod, without = [
                balance_with_devices_at(amounts, lowered, self.served, row)
                if self.served
                else balance_at(amounts, lowered, row)
                for lowered in _less(self.terms, less)
            ]
            return (with_pod + _BOTH_FIFTIES - without) // 2.0
        if before is None:
            gain = balance_with_devices_at(amounts, self.terms, self.served, row)
            gain += _BOTH_FIFTIES - balance_with_devices_at(amounts, self.nothing, self.served, row)
        else:
            before.refresh(self.nodes.size)
            gain = balance_at(amounts, self.terms, row) + before.at[row]
        return gain // 2.0


class _Resource(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    weight: int = 1


class _Args(PluginArgs, frozen=True):
    resources: tuple[_Resource, ...] = ()


def _resources(args: _Args) -> list[tuple[str, int]]:
    return [(r.name, r.weight) for r in args.resources] or [("cpu", 1), ("memory", 1)]


class BalancedAllocation(Plugin):
    """Score how much more balanced the node becomes with the pod."""

    name = "NodeResourcesBalancedAllocation"
    traits = Traits(scope=Scope.ROW, accepts_slices=True)
    plan_classes = (BalanceScorer,)

    def __init__(self, args: Mapping[str, Any]) -> None:
        wrong = Arguments(self.name)
        names: list[str] = []
        for i, (name, weight) in enumerate(_resources(wrong.read(_Args, args))):
            if name in names:
                wrong.append(duplicate(f"resources[{i}].name", name))
            if weight != 1:
                wrong.append(invalid(f"resources[{i}].weight", weight, "must be 1"))
            names.append(name)
        wrong.refuse_if_wrong()
        self._names = tuple(names)
        self._scalars = any(map(is_scalar, names))
        if self._scalars:  # devices may serve them
            self.traits = replace(self.traits, epochs=(Epoch.CLASSES, Epoch.DEVICES))

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return the requests of the configured resources, and what is held for the pod."""
        return (self._terms(pod, view.nodes), view.reserved_key)

    def _terms(self, pod: PodInfo, nodes: NodeTable) -> ResourceTerms:
        asked, names = dict(pod.request), nodes.resources
        if self._names == _USUAL:
            return ((CPU, asked.get(CPU, 0)), (MEMORY, asked.get(MEMORY, 0)))
        ids = [(names.id(name), name) for name in self._names]
        return tuple(
            (id_, asked.get(id_, 0)) for id_, name in ids if id_ in asked or not is_scalar(name)
        )

    def pre_filter(self, pod: PodInfo, view: View) -> BalanceScorer | Skip:
        """Skip a pod that requests none of the resources."""
        nodes = view.nodes
        terms = self._terms(pod, nodes)
        if not any(amount for _, amount in terms):
            return Skip()
        ids = tuple(id_ for id_, _ in terms)
        if self._scalars and (served := view.world.devices.device_backed_resources(ids)):
            return BalanceScorer(nodes, terms, None, served, view.reserved_for_pod)
        before = nodes.derived_columns.get((self.name, ids))
        if before is None:
            nothing = tuple((id_, 0) for id_ in ids)
            before = nodes.derived_columns[self.name, ids] = DerivedColumn(
                nodes.journal,
                nodes.capacity,
                lambda rows: _BOTH_FIFTIES - balance(nodes.amounts, nothing, rows),
                lambda row: _BOTH_FIFTIES - balance_at(nodes.amounts, nothing, row),
            )
        return BalanceScorer(nodes, terms, before, {}, view.reserved_for_pod)


def _less(terms: ResourceTerms, less: Mapping[int, int]) -> tuple[ResourceTerms, ResourceTerms]:
    """Return the terms with and without the pod, less what is held for it."""
    without = [(id_, -less.get(id_, 0)) for id_, _ in terms]
    return tuple([(id_, a - less.get(id_, 0)) for id_, a in terms]), tuple(without)


def balance(amounts: NodeAmounts, terms: ResourceTerms, rows: AnyRows) -> NDArray[np.float64]:
    """Return 100 * (1 - standard deviation of the requested shares), truncated."""
    usual = len(terms) == 2 and (terms[0][0], terms[1][0]) == (CPU, MEMORY)
    if usual and not (amounts.nodes_without[CPU] or amounts.nodes_without[MEMORY]):
        return _balance_usual(amounts, terms, rows)
    shares = [
        np.minimum((amounts.requested[id_][rows] + asked) / amounts.divisor[id_][rows], 1.0)
        for id_, asked in terms
    ]
    lacking = any(amounts.nodes_without[id_] for id_, _ in terms)
    if len(shares) == 2 and not lacking:
        deviation = np.abs((shares[0] - shares[1]) * 0.5)
    elif len(shares) < 2 and not lacking:
        deviation = np.zeros(len(shares[0]))
    else:
        has = [amounts.allocatable[id_][rows] > 0 for id_, _ in terms]
        deviation = _deviation(np.array(shares), np.array(has))
    whole: NDArray[np.float64] = np.trunc((1.0 - deviation) * 100.0)
    return whole


def _balance_usual(
    amounts: NodeAmounts, terms: ResourceTerms, rows: AnyRows
) -> NDArray[np.float64]:
    """Return the same for cpu and memory on nodes that have both."""
    taken = amounts.cpu_memory(amounts.requested_float, rows)
    have = amounts.cpu_memory(amounts.divisor, rows)
    gap = _share(taken[CPU], terms[0][1], have[CPU])
    gap -= _share(taken[MEMORY], terms[1][1], have[MEMORY])
    np.abs(gap, out=gap)
    # Halving and doubling are exact: this is 100 * (1 - gap / 2), to the last bit.
    np.subtract(2.0, gap, out=gap)
    gap *= 50.0
    return np.trunc(gap, out=gap)


def _share(taken: NDArray[np.float64], more: int, have: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of a resource that would be requested, at most 1."""
    share = taken + float(more)
    share /= have
    return np.minimum(share, 1.0, out=share)


def _deviation(shares: NDArray[np.float64], has: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the standard deviation per row over the resources the node has: [resource, row]."""
    count = has.sum(axis=0)
    shares = np.where(has, shares, 0.0)
    divisor = np.maximum(count, 1)
    total = np.zeros(shares.shape[1])
    for share in shares:  # in the order of kube-scheduler, for equal rounding
        total = total + share
    mean = total / divisor
    squares = np.zeros(shares.shape[1])
    for share, here in zip(shares, has, strict=True):
        squares = squares + np.where(here, (share - mean) * (share - mean), 0.0)
    general = np.sqrt(squares / divisor)
    if len(shares) < 2:
        return np.zeros(shares.shape[1])
    high = np.max(np.where(has, shares, -np.inf), axis=0, initial=-np.inf)
    low = np.min(np.where(has, shares, np.inf), axis=0, initial=np.inf)
    pair = np.where(count == 2, np.abs((high - low) / 2.0), 0.0)
    return np.where(count > 2, general, pair)


def balance_at(amounts: NodeAmounts, terms: ResourceTerms, row: int) -> float:
    """Return the balance of one row."""
    have_at, used_at = amounts.allocatable_at, amounts.requested_at
    if len(terms) == 2:
        (first, more), (second, also) = terms
        has, had = have_at[first][row], have_at[second][row]
        if has and had:
            one, other = (used_at[first][row] + more) / has, (used_at[second][row] + also) / had
            gap = (one if one < 1.0 else 1.0) - (other if other < 1.0 else 1.0)
            return float(int((1.0 - abs(gap / 2.0)) * 100.0))
        return 100.0
    shares = [
        min((used_at[id_][row] + asked) / have_at[id_][row], 1.0)
        for id_, asked in terms
        if have_at[id_][row]
    ]
    return float(int((1.0 - _spread(shares)) * 100.0))


def balance_with_devices(
    amounts: NodeAmounts,
    terms: Iterable[tuple[int, Any]],
    served: Mapping[int, DeviceBackedResource],
    rows: AnyRows,
) -> NDArray[np.float64]:
    """Return the same as ``balance``, with devices for resources a node lacks."""
    shares, has = [], []
    for id_, asked in terms:
        if id_ in served:
            have, used = served[id_].many(rows)
        else:
            have, used = amounts.allocatable[id_][rows], amounts.requested[id_][rows]
        shares.append(np.minimum((used + asked) / np.maximum(have, 1), 1.0))
        has.append(have > 0)
    whole: NDArray[np.float64] = np.trunc(
        (1.0 - _deviation(np.array(shares), np.array(has))) * 100.0
    )
    return whole


def balance_with_devices_at(
    amounts: NodeAmounts,
    terms: Iterable[tuple[int, int]],
    served: Mapping[int, DeviceBackedResource],
    row: int,
) -> float:
    """Return the same for one row."""
    shares = []
    for id_, asked in terms:
        if id_ in served:
            have, used = served[id_].one(row)
        else:
            have, used = amounts.allocatable_at[id_][row], amounts.requested_at[id_][row]
        if have:
            shares.append(min((used + asked) / have, 1.0))
    return float(int((1.0 - _spread(shares)) * 100.0))


def _spread(shares: list[float]) -> float:
    """Return the standard deviation; of two values half their distance."""
    if len(shares) < 2:
        return 0.0
    if len(shares) == 2:
        return abs((shares[0] - shares[1]) / 2.0)
    mean = sum(shares) / len(shares)
    return math.sqrt(sum((s - mean) * (s - mean) for s in shares) / len(shares))
