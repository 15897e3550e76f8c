"""The base class of policies, which propose candidates and judge targets, and common arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import ClassVar, NamedTuple

from holdfast.api.field_errors import invalid, not_supported
from holdfast.api.labels import EVERYTHING, Selector, from_selector
from holdfast.api.meta import LabelSelector
from holdfast.api.pod import Pod
from holdfast.api.validation.template import check_selector
from holdfast.controllers.descheduler.simulation import Simulation
from holdfast.scheduling.configuration.problems import Problems
from holdfast.scheduling.framework.extender import ConfigurationPart
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.migration.pod_selection import pod_rank

ALWAYS_FITS = "has no effect: the policy moves only pods that fit on another node"


class NamespaceFilter(ConfigurationPart, frozen=True):
    """Namespaces whose pods may move; empty: all."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def contains(self, namespace: str) -> bool:
        """Return whether pods of a namespace may move."""
        return namespace not in self.exclude and (not self.include or namespace in self.include)

    def check(self, path: str, problems: Problems) -> None:
        """Report that both lists are given."""
        if self.include and self.exclude:
            shown = {"include": list(self.include), "exclude": list(self.exclude)}
            message = "only one of Include/Exclude namespaces can be set"
            problems.add_errors(invalid(path, shown, message))


class PolicyArgs(ConfigurationPart, frozen=True):
    """Arguments that every policy has."""

    api_version: str = ""
    kind: str = ""

    def check(self, path: str, problems: Problems) -> None:
        """Report wrong values."""


class SelectingArgs(PolicyArgs, frozen=True, dict=True):
    """Arguments of a policy that looks at some pods only."""

    must_fit: ClassVar[bool] = False
    """Whether pods move only if they fit on another node, whatever ``node_fit`` is."""
    namespaces: NamespaceFilter = NamespaceFilter()
    label_selector: LabelSelector | None = None
    node_fit: bool = True

    @cached_property
    def _selector(self) -> Selector:
        return selector_or_everything(self.label_selector)

    def selects(self, pod: Pod) -> bool:
        """Return whether the policy looks at a pod."""
        return self.namespaces.contains(pod.namespace) and self._selector.matches(
            pod.metadata.labels
        )

    def check(self, path: str, problems: Problems) -> None:
        """Report wrong values."""
        self.namespaces.check(f"{path}.namespaces", problems)
        problems.add_errors(*check_selector(self.label_selector, f"{path}.labelSelector"))
        if self.must_fit and not self.node_fit:
            problems.add_warning(f"{path}.nodeFit {ALWAYS_FITS}")


def selector_or_everything(selector: LabelSelector | None) -> Selector:
    """Compile a selector; an absent one matches everything."""
    return EVERYTHING if selector is None else from_selector(selector)


def check_values(
    values: Iterable[str], supported: Iterable[str], path: str, problems: Problems
) -> None:
    """Report values of a list that are not supported."""
    known = tuple(supported)
    problems.add_errors(
        *(not_supported(f"{path}[{i}]", v, known) for i, v in enumerate(values) if v not in known)
    )


class CandidatePod(NamedTuple):
    """A pod that should leave its row, and why."""

    pod: PodInfo
    row: int
    reason: str


Candidates = Iterator[CandidatePod | None]
"""Candidates one after another; None is a pause. Each is tried before the next is computed."""


class DeschedulerPolicy:
    """A policy for one cycle. The base class permits everything."""

    name: ClassVar[str]
    balances: ClassVar[bool]
    """Whether its extension point is balance; otherwise it is deschedule."""
    Args: ClassVar[type[PolicyArgs]]

    def __init__(self, args: PolicyArgs, cluster: Simulation, rows: list[int]) -> None:
        self.cluster = cluster
        self.rows = rows
        """The rows that the configuration selects."""

    @property
    def node_fit(self) -> bool:
        """Whether a pod moves only if it fits on another node."""
        return True

    @property
    def dry_run(self) -> bool:
        """Whether its moves are only reported."""
        return False

    def candidates(self) -> Candidates:
        """Return the pods that should move."""
        raise NotImplementedError

    def improves(self, candidate: CandidatePod, target: int) -> bool:
        """Return whether the policy would leave the pod on the target."""
        raise NotImplementedError

    def permits(self, candidate: CandidatePod, target: int) -> bool:
        """Return whether another policy may make this move without working against this one."""
        return True


def in_order(candidates: list[CandidatePod]) -> list[CandidatePod]:
    """Return candidates in the order in which pods migrate."""
    return sorted(
        candidates, key=lambda candidate: (pod_rank(candidate.pod.pod), candidate.pod.key)
    )
