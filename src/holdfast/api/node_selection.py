"""Node selectors and node affinity, compiled and matched with nodes.

Terms are compiled once and matched with the labels and name of any node. An invalid term matches
nothing. Its errors are stored, because upstream reports them only if no other term matches
(``NodeTerms.mistakes``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.api import labels as label_selection
from holdfast.api.field_errors import child, invalid, not_supported, raise_if_any
from holdfast.api.fields import FieldRequirement, FieldSelector
from holdfast.api.labels import EVERYTHING, NOTHING, LabelRequirement, Labels, Selector
from holdfast.api.meta import Requirement
from holdfast.api.pod import NodeSelector, NodeSelectorTerm, Pod, PreferredSchedulingTerm
from holdfast.runtime.errors import Cause

_OPERATORS = {
    "In": label_selection.IN, "NotIn": label_selection.NOT_IN,
    "Exists": label_selection.EXISTS, "DoesNotExist": label_selection.ABSENT,
    "Gt": label_selection.GREATER, "Lt": label_selection.LESS,
}  # fmt: skip
NAME_FIELD = "metadata.name"
UNKNOWN_FIELD = ""
"""The value of every node field other than the name, as upstream."""


def compile_expressions(
    expressions: Iterable[Requirement], path: str = ""
) -> tuple[Selector, list[Cause]]:
    """Compile label expressions and return their errors; without expressions nothing matches."""
    requirements: list[LabelRequirement] = []
    causes: list[Cause] = []
    for i, expression in enumerate(expressions):
        at = f"{path}[{i}]"
        operator = _OPERATORS.get(expression.operator)
        if operator is None:
            causes.append(not_supported(child(at, "operator"), expression.operator, _OPERATORS))
            continue
        causes += label_selection.check(expression.key, operator, expression.values, at)
        values = tuple(sorted(set(expression.values)))
        requirements.append(LabelRequirement(expression.key, operator, values))
    if causes or not requirements:
        return NOTHING, causes
    return label_selection.conjunction(requirements), causes


def _compile_fields(
    expressions: Iterable[Requirement], path: str
) -> tuple[FieldSelector, list[Cause]]:
    requirements: list[FieldRequirement] = []
    causes: list[Cause] = []
    for i, expression in enumerate(expressions):
        at = f"{path}[{i}]"
        if expression.operator not in ("In", "NotIn"):
            where = child(at, "operator")
            causes.append(not_supported(where, expression.operator, ("In", "NotIn")))
        elif len(expression.values) != 1:
            where = child(at, "values")
            causes.append(invalid(where, list(expression.values), "must have one element"))
        else:
            equal = expression.operator == "In"
            requirements.append(FieldRequirement(expression.key, expression.values[0], equal))
    return FieldSelector(tuple(requirements)), causes


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """A compiled term: labels and fields must both match."""

    labels: Selector
    fields: FieldSelector
    mistakes: tuple[Cause, ...] = ()

    def matches(self, labels: Labels, name: str) -> bool:
        """Return whether a node matches; a node without a name matches every field."""
        if self.mistakes or not self.labels.matches(labels):
            return False
        return not name or self.fields.matches(
            lambda path: name if path == NAME_FIELD else UNKNOWN_FIELD
        )


def compile_term(term: NodeSelectorTerm, path: str = "") -> NodeTerm:
    """Compile one non-empty term, with field paths below ``path``."""
    labels = EVERYTHING
    causes: list[Cause] = []
    if term.match_expressions:
        labels, causes = compile_expressions(
            term.match_expressions, child(path, "matchExpressions")
        )
    fields, errors = _compile_fields(term.match_fields, child(path, "matchFields"))
    return NodeTerm(labels, fields, (*causes, *errors))


def _is_empty(term: NodeSelectorTerm) -> bool:
    return not term.match_expressions and not term.match_fields


@dataclass(frozen=True, slots=True)
class NodeTerms:
    """Compiled terms of a node selector, ORed; without terms no node matches."""

    terms: tuple[NodeTerm, ...]

    def matches(self, labels: Labels, name: str) -> bool:
        """Return whether any term matches the node."""
        return any(term.matches(labels, name) for term in self.terms)

    @property
    def mistakes(self) -> tuple[Cause, ...]:
        """The errors of all terms."""
        return tuple(cause for term in self.terms for cause in term.mistakes)


def compile_selector(selector: NodeSelector, path: str = "") -> NodeTerms:
    """Compile a node selector; an invalid term matches no node."""
    at = child(path, "nodeSelectorTerms")
    return NodeTerms(
        tuple(
            compile_term(term, f"{at}[{i}]")
            for i, term in enumerate(selector.node_selector_terms)
            if not _is_empty(term)
        )
    )


@dataclass(frozen=True, slots=True)
class RequiredNodes:
    """A pod's ``nodeSelector`` and required node affinity together."""

    labels: Selector = EVERYTHING
    terms: NodeTerms | None = None

    def matches(self, labels: Labels, name: str) -> bool:
        """Return whether the node matches."""
        return self.labels.matches(labels) and (
            self.terms is None or self.terms.matches(labels, name)
        )

    @property
    def everything(self) -> bool:
        """Whether every node matches."""
        return self.labels.everything and self.terms is None


def required_nodes(pod: Pod) -> RequiredNodes:
    """Compile a pod's node selector and required node affinity."""
    labels = label_selection.from_labels(pod.spec.node_selector)
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    needed = affinity and affinity.required_during_scheduling_ignored_during_execution
    return RequiredNodes(labels, compile_selector(needed) if needed else None)


@dataclass(frozen=True, slots=True)
class PreferredNodes:
    """Weighted terms of preferred node affinity."""

    terms: tuple[tuple[int, NodeTerm], ...] = ()

    def score(self, labels: Labels, name: str) -> int:
        """Return the sum of the weights of the terms that match the node."""
        return sum(weight for weight, term in self.terms if term.matches(labels, name))


def compile_preferred(
    preferred: Iterable[PreferredSchedulingTerm], path: str = ""
) -> PreferredNodes:
    """Compile preferred terms without empty ones; raise BadRequest for invalid ones."""
    terms = tuple(
        (weighted.weight, compile_term(weighted.preference, f"{path}[{i}]"))
        for i, weighted in enumerate(preferred)
        if weighted.weight and not _is_empty(weighted.preference)
    )
    raise_if_any(cause for _, term in terms for cause in term.mistakes)
    return PreferredNodes(terms)


def preferred_nodes(pod: Pod) -> PreferredNodes:
    """Compile a pod's preferred node affinity."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    if affinity is None:
        return PreferredNodes()
    return compile_preferred(affinity.preferred_during_scheduling_ignored_during_execution)
