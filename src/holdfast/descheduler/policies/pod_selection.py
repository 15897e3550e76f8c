"""Arguments that the policies share: which namespaces, which pods, and whether pods must fit."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import ClassVar

from holdfast.api.field_errors import invalid, not_supported
from holdfast.api.labels import EVERYTHING, Selector, from_selector
from holdfast.api.meta import LabelSelector
from holdfast.api.pod import Pod
from holdfast.configuration.problems import Problems
from holdfast.framework.extender import ConfigurationPart
from holdfast.validation.template import check_selector

ALWAYS_FITS = "has no effect: the policy moves only pods that fit on another node"


class Namespaces(ConfigurationPart, frozen=True):
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
    namespaces: Namespaces = Namespaces()
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
