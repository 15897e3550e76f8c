"""LowNodeLoad by requests: relieve nodes above a high threshold while others are below a low one.

Load is what pods and reservations request, as a percentage of what the node has.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from holdfast.api.field_errors import invalid
from holdfast.api.meta import LabelSelector
from holdfast.api.resource_names import CPU, MEMORY
from holdfast.api.validation.template import check_selector
from holdfast.controllers.descheduler.policies.policy import (
    CandidatePod,
    Candidates,
    DeschedulerPolicy,
    NamespaceFilter,
    PolicyArgs,
    selector_or_everything,
)
from holdfast.controllers.descheduler.simulation import Simulation
from holdfast.scheduling.configuration.problems import Problems
from holdfast.scheduling.framework.extender import ConfigurationPart
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.migration.pod_selection import pod_rank

AmountsByRow = NDArray[np.float64]
"""Amounts by resource and row."""
_NO_EFFECT = ("anomaly_condition", "detector_cache_timeout", "node_metric_expiration_seconds")
_UNBUILT = ("node_pools", "prod_high_thresholds", "prod_low_thresholds")


class PodSelectorArgs(ConfigurationPart, frozen=True):
    """A selector of the pods that may move."""

    name: str = ""
    selector: LabelSelector | None = None


class LowNodeLoadArgs(PolicyArgs, frozen=True, dict=True):
    """The arguments of LowNodeLoad; thresholds are percentages by resource name."""

    paused: bool = False
    dry_run: bool = False
    number_of_nodes: int = 0
    evictable_namespaces: NamespaceFilter = NamespaceFilter()
    node_selector: LabelSelector | None = None
    pod_selectors: tuple[PodSelectorArgs, ...] = ()
    node_fit: bool = True
    use_deviation_thresholds: bool = False
    high_thresholds: dict[str, float] = msgspec.field(default_factory=dict)
    low_thresholds: dict[str, float] = msgspec.field(default_factory=dict)
    resource_weights: dict[str, int] = msgspec.field(default_factory=dict)
    anomaly_condition: Any = None
    detector_cache_timeout: Any = None
    node_metric_expiration_seconds: Any = None
    node_pools: Any = None
    prod_high_thresholds: Any = None
    prod_low_thresholds: Any = None

    @cached_property
    def _selectors(self) -> list[Any]:
        return [
            selector_or_everything(each.selector)
            for each in self.pod_selectors
            if each.selector is not None
        ]

    def selects(self, pod: PodInfo) -> bool:
        """Return whether a pod may move."""
        if not self.evictable_namespaces.contains(pod.namespace):
            return False
        return not self._selectors or any(each.matches(pod.labels) for each in self._selectors)

    def check(self, path: str, problems: Problems) -> None:
        """Report wrong values."""
        if self.number_of_nodes < 0:
            message = "must be greater than or equal to 0"
            problems.add_errors(invalid(f"{path}.numberOfNodes", self.number_of_nodes, message))
        self.evictable_namespaces.check(f"{path}.evictableNamespaces", problems)
        problems.add_errors(*check_selector(self.node_selector, f"{path}.nodeSelector"))
        for i, each in enumerate(self.pod_selectors):
            at = f"{path}.podSelectors[{i}].selector"
            problems.add_errors(*check_selector(each.selector, at))
        self._check_thresholds(path, problems)
        names = dict(zip(self.__struct_fields__, self.__struct_encode_fields__, strict=True))
        for field in _NO_EFFECT:
            if getattr(self, field) is not None:
                problems.add_warning(
                    f"{path}.{names[field]} has no effect: the load of a node is what pods request"
                )
        for field in _UNBUILT:
            if getattr(self, field) is not None:
                problems.add_not_built(f"{path}.{names[field]}", "is not supported yet")

    def _check_thresholds(self, path: str, problems: Problems) -> None:
        for field, given in (
            ("highThresholds", self.high_thresholds),
            ("lowThresholds", self.low_thresholds),
        ):
            for name, percent in given.items():
                if not 0 <= percent <= 100:
                    message = "percentage must be between 0 and 100"
                    problems.add_errors(invalid(f"{path}.{field}[{name}]", percent, message))
        for name, percent in self.low_thresholds.items():
            if percent > self.high_thresholds.get(name, 100.0):
                message = "low percentage must be less than or equal to highThresholds"
                problems.add_errors(invalid(f"{path}.lowThresholds[{name}]", percent, message))


class LowNodeLoad(DeschedulerPolicy):
    """Moves pods from nodes above the high thresholds to nodes below the low ones."""

    name: ClassVar[str] = "LowNodeLoad"
    balances = True
    Args: ClassVar[type[PolicyArgs]] = LowNodeLoadArgs

    def __init__(self, args: PolicyArgs, cluster: Simulation, rows: list[int]) -> None:
        super().__init__(args, cluster, rows)
        assert isinstance(args, LowNodeLoadArgs)
        self.args = args
        selector = selector_or_everything(args.node_selector)
        labels = [cluster.node(row).metadata.labels for row in rows]
        self.rows = [row for row, each in zip(rows, labels, strict=True) if selector.matches(each)]
        given = dict.fromkeys((*args.low_thresholds, *args.high_thresholds))
        ids = {name: cluster.nodes.resources.find(name) for name in given}
        width = cluster.nodes.amounts.width
        # A resource that no node and no pod has cannot be above a threshold.
        self._ids = {name: id_ for name, id_ in ids.items() if 0 <= id_ < width}
        self._columns = list(self._ids.values())
        self._low, self._high = self._thresholds()
        self._targets = self._find_targets()
        self._left: list[PodInfo] = []
        """Pods that have left without a known target."""

    @property
    def node_fit(self) -> bool:
        """Whether a pod moves only if it fits on another node."""
        return self.args.node_fit

    @property
    def dry_run(self) -> bool:
        """Whether its moves are only reported."""
        return self.args.dry_run

    def _column(self, amounts: NDArray[np.int64]) -> AmountsByRow:
        column: AmountsByRow = amounts[self._columns].astype(np.float64)
        return column

    @property
    def _allocatable(self) -> AmountsByRow:
        return self._column(self.cluster.nodes.allocatable)

    @property
    def _requested(self) -> AmountsByRow:
        return self._column(self.cluster.nodes.requested)

    def _thresholds(self) -> tuple[AmountsByRow, AmountsByRow]:
        """Return the low and the high threshold of each resource and row, as amounts."""
        missing = 0.0 if self.args.use_deviation_thresholds else 100.0
        low, high = (
            np.array([given.get(name, missing) for name in self._ids])[:, None]
            for given in (self.args.low_thresholds, self.args.high_thresholds)
        )
        has = self._allocatable
        if self.args.use_deviation_thresholds and self.rows:
            share = (100.0 * self._requested / np.maximum(has, 1.0))[:, self.rows]
            mean = share.mean(axis=1)[:, None]
            low, high = np.clip(mean - low, 0.0, 100.0), np.clip(mean + high, 0.0, 100.0)
        return has * low / 100.0, has * high / 100.0

    def _find_targets(self) -> frozenset[int]:
        """Return the rows at or below all low thresholds, at the start of the cycle."""
        under = (self._requested <= self._low).all(axis=0)
        under &= ~self.cluster.nodes.unschedulable
        return frozenset(row for row in self.rows if under[row])

    def is_over(self, row: int) -> bool:
        """Return whether a row is above a high threshold now."""
        return bool(self._over(row).any())

    def _over(self, row: int) -> NDArray[np.bool_]:
        over: NDArray[np.bool_] = self._uses(row) > self._high[:, row]
        return over

    def _uses(self, row: int) -> AmountsByRow:
        amounts: AmountsByRow = self.cluster.nodes.requested[self._columns, row].astype(np.float64)
        return amounts

    def _share(self, amounts: AmountsByRow, row: int) -> AmountsByRow:
        """Return amounts as shares of what a row has."""
        return amounts / np.maximum(self.cluster.nodes.allocatable[self._columns, row], 1)

    def candidates(self) -> Candidates:
        """Return the pods of rows above a high threshold, the fullest row first."""
        few = len(self._targets) <= self.args.number_of_nodes
        if self.args.paused or not self._ids or few or len(self._targets) == len(self.rows):
            return
        sources = [row for row in self.rows if self.is_over(row)]
        for row in sorted(sources, key=lambda row: (-self._load(row), row)):
            yield None
            for pod in sorted(self.cluster.pods_on(row), key=lambda pod: self._rank(pod, row)):
                if not self.is_over(row) or not self._has_room():
                    break
                if self.args.selects(pod) and self._size(pod, row) > 0:
                    yield CandidatePod(pod, row, self._reason(row))
                    if pod.uid in self.cluster.moved and not self.node_fit:
                        self._left.append(pod)

    def _load(self, row: int) -> float:
        weights = np.array([self.args.resource_weights.get(name, 1) or 1 for name in self._ids])
        return float((self._share(self._uses(row), row) * weights).sum() / weights.sum())

    def _rank(self, pod: PodInfo, row: int) -> tuple[object, ...]:
        """Return a sort key: the order in which pods migrate, then by size, then the youngest."""
        *rank, created = pod_rank(pod.pod)
        return (*rank, -self._size(pod, row), created, pod.key)

    def _size(self, pod: PodInfo, row: int) -> float:
        """Return the share of the row that a pod requests of the resources above a threshold."""
        return float(self._share(self._request(pod), row)[self._over(row)].sum())

    def _request(self, pod: PodInfo) -> AmountsByRow:
        amounts = dict(pod.request)
        return np.array([
            float(pod.pod_slots if name == "pods" else amounts.get(id_, 0))
            for name, id_ in self._ids.items()
        ])  # fmt: skip

    def _has_room(self) -> bool:
        """Return whether the rows below the low thresholds can take more of every resource."""
        rows = sorted(self._targets)
        room = (self._high - self._requested)[:, rows].sum(axis=1)
        taken = sum((self._request(pod) for pod in self._left), np.zeros(len(self._ids)))
        return bool((room > taken).all())

    def _reason(self, row: int) -> str:
        uses, high = (
            100 * self._share(amounts, row) for amounts in (self._uses(row), self._high[:, row])
        )
        texts = [
            f"{name} usage({uses[i]:.2f}%)>threshold({high[i]:.2f}%)"
            for i, name in enumerate(self._ids)
            if uses[i] > high[i]
        ]
        return f"node is overutilized, {', '.join(sorted(texts))}"

    def improves(self, candidate: CandidatePod, target: int) -> bool:
        """Return whether the target was below the low thresholds, and stays below the high ones."""
        return target in self._targets and self._stays_below(candidate.pod, target)

    def permits(self, candidate: CandidatePod, target: int) -> bool:
        """Return whether the target stays below the high thresholds."""
        return self.args.paused or self._stays_below(candidate.pod, target)

    def _stays_below(self, pod: PodInfo, row: int) -> bool:
        return bool((self._uses(row) + self._request(pod) <= self._high[:, row]).all())


DEFAULT_ARGS = LowNodeLoadArgs(
    low_thresholds={CPU: 45.0, MEMORY: 55.0}, high_thresholds={CPU: 75.0, MEMORY: 80.0}
)
"""The defaults without a configuration: the thresholds of Koordinator's guide."""
